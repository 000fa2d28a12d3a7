//! When a summary is due, as a table and as properties.

use proptest::prelude::*;

use super::*;

fn size(summary: u64, earlier: u64, prompt: u64, reported: u64) -> ConversationSize {
    ConversationSize { summary, earlier, replies: 0, prompt, reported }
}

#[test]
fn a_summary_is_due_when_a_share_of_the_window_is_full() {
    // Eighty percent of 1000 tokens are 800, which are about 3200 bytes.
    let cases = [
        (80, Some(1_000), size(0, 3_200, 0, 0), false),
        (80, Some(1_000), size(0, 3_201, 0, 0), true),
        (80, Some(1_000), size(0, 3_200, 1, 0), true),
        (80, Some(1_000), size(2_000, 1_201, 0, 0), true),
        (90, Some(1_000), size(0, 3_201, 0, 0), false),
        (100, Some(1_000), size(0, 4_001, 0, 0), true),
        // The model counted more tokens than estimated, or fewer.
        (80, Some(1_000), size(0, 1_000, 0, 801), true),
        (80, Some(1_000), size(0, 1_000, 0, 800), false),
        (80, Some(1_000), size(0, 1_000, 4, 800), true),
        (80, Some(1_000), size(0, 3_201, 0, 10), true),
        // The window is unknown, or compaction is off.
        (80, None, size(0, 1 << 40, 0, 0), false),
        (0, Some(1_000), size(0, 1 << 40, 0, 0), false),
        (80, Some(0), size(0, 1 << 40, 0, 0), false),
        (80, Some(1), size(0, 1 << 40, 0, 0), false),
        // A summary would replace nothing, or little.
        (80, Some(1_000), size(0, 0, 1 << 40, 0), false),
        (80, Some(1_000), size(32 * 1024, 0, 0, 0), false),
        (80, Some(1_000), size(32 * 1024, 800, 0, 0), false),
        (80, Some(1_000), size(32 * 1024, 801, 0, 0), true),
        (80, Some(1_000), size(0, 800, 0, 900), false),
    ];
    for (percent, window, size, wanted) in cases {
        let due = CompactAt { percent }.due(window, size);
        assert_eq!(
            due,
            wanted.then_some(CompactReach::EarlierTurns),
            "{percent}% of {window:?}: {size:?}"
        );
    }
}

#[test]
fn the_replies_of_a_long_turn_are_summarised_when_earlier_turns_are_not_enough() {
    let at = CompactAt { percent: 80 };
    let due = |earlier, replies, reported| {
        let size = ConversationSize { earlier, replies, reported, ..ConversationSize::default() };
        at.due(Some(1_000), size)
    };
    assert_eq!(due(0, 3_200, 0), None);
    assert_eq!(due(0, 3_201, 0), Some(CompactReach::Replies));
    assert_eq!(due(2_000, 1_300, 0), Some(CompactReach::EarlierTurns));
    assert_eq!(due(2_000, 1_700, 0), Some(CompactReach::Replies));
    assert_eq!(due(700, 2_600, 0), Some(CompactReach::Replies));
    // The model counted more than the estimate: instructions and tools, for example.
    assert_eq!(due(0, 1_000, 801), Some(CompactReach::Replies));
    assert_eq!(due(0, 800, 801), None);
}

proptest! {
    /// For any numbers nothing overflows, and a conversation that was just compacted is not due.
    #[test]
    fn a_compacted_conversation_is_not_compacted_again(
        percent in any::<u8>(),
        window in any::<Option<u64>>(),
        summary in any::<u64>(),
        prompt in any::<u64>(),
        reported in any::<u64>(),
        earlier in any::<u64>(),
    ) {
        let at = CompactAt { percent };
        let _ = at.due(window, size(summary, earlier, prompt, reported));
        prop_assert_eq!(at.due(window, size(summary, 0, prompt, reported)), None);
        if let Some(limits) = at.limits(window) {
            prop_assert!(0 < limits.turn && limits.turn <= limits.summary);
            prop_assert!(limits.summary as u64 <= MOST_BYTES);
        }
    }
}
