//! The events that a reader gets are correct, do not change, and are bounded.

use loggia_core::{Event, Level, Millis, Origin};
use proptest::prelude::*;

use super::*;

fn event(seq: u64, length: usize) -> Arc<Envelope> {
    let event = Event::NoticeRaised { level: Level::Info, text: "x".repeat(length), wait: None };
    Arc::new(Envelope { seq: Seq(seq), at: Millis(0), origin: Origin::system(), event })
}

/// Appends events with the given number of bytes.
struct Writer {
    tail: Tail,
    head: u64,
}

impl Writer {
    /// The first `before` events are only in the store.
    fn after(before: u64) -> Self {
        Self { tail: Tail::default(), head: before }
    }

    fn append(&mut self, count: usize, length: usize) {
        let events: Vec<_> = (self.head + 1..).take(count).map(|seq| event(seq, length)).collect();
        self.head += count as u64;
        drop(self.tail.push(&events));
    }
}

fn assert_follows(events: &Events, after: u64) {
    let expected = (after + 1..).take(events.len());
    assert!(events.iter().map(|envelope| envelope.seq.0).eq(expected), "after {after}");
}

proptest! {
    #[test]
    fn events_after_a_cursor_have_no_gap_and_do_not_change(
        before in 0..10_u64,
        appends in prop::collection::vec((1..400_usize, 0..3_000_usize, any::<prop::sample::Index>()), 1..60),
    ) {
        let mut writer = Writer::after(before);
        let mut held: Vec<(u64, usize, Events)> = Vec::new();
        for (count, length, cursor) in appends {
            writer.append(count, length);
            let after = cursor.index(usize::try_from(writer.head).unwrap() + 2) as u64;
            match writer.tail.after(Seq(after)) {
                Some(events) => {
                    prop_assert_eq!(events.is_empty(), after >= writer.head);
                    prop_assert!(events.len() <= BATCH);
                    held.push((after, events.len(), events));
                }
                None => prop_assert!(after < writer.head),
            }
            prop_assert!(writer.tail.after(Seq(writer.head - 1)).is_some(), "the newest is there");
        }
        for (after, length, events) in &held {
            prop_assert_eq!(events.len(), *length);
            assert_follows(events, *after);
        }
    }

    #[test]
    fn it_is_bounded_by_events_and_by_bytes(
        appends in prop::collection::vec((1..400_usize, 0..3_000_usize), 1..80),
    ) {
        let mut writer = Writer::after(0);
        for (count, length) in appends {
            writer.append(count, length);
            let Tail { blocks, events, bytes } = &writer.tail;
            let all = || blocks.iter().flat_map(|block| block.events.iter());
            prop_assert_eq!(*events, all().count());
            prop_assert_eq!(*bytes, all().map(|envelope| envelope.approx_bytes()).sum::<usize>());
            prop_assert!(*bytes <= TAIL_BYTES && *events < TAIL + BATCH);
            let full = blocks.iter().take(blocks.len() - 1).all(Block::is_full);
            prop_assert!(full, "small appends share a block");
        }
    }
}

#[test]
fn a_reader_less_than_a_tail_behind_needs_no_store() {
    let mut writer = Writer::after(0);
    for _ in 0..3 * TAIL {
        writer.append(1, 10);
    }
    let mut after = Seq(writer.head - TAIL as u64);
    let mut pieces = 0;
    while after < Seq(writer.head) {
        let events = writer.tail.after(after).unwrap();
        assert_follows(&events, after.0);
        after = events.last().unwrap().seq;
        pieces += 1;
    }
    assert!(pieces <= TAIL / BATCH + 1, "single appends came in {pieces} pieces");
    assert_eq!(writer.tail.after(Seq(writer.head - 2 * TAIL as u64)), None);
}

/// A reader that stands still keeps its block in memory, so that a block must be small.
#[test]
fn large_events_make_short_blocks_and_a_short_tail() {
    let mut writer = Writer::after(0);
    writer.append(1_000, 20_000);
    let Tail { blocks, bytes, .. } = &writer.tail;
    assert!(blocks.iter().all(|block| block.events.len() <= 7));
    assert!(*bytes <= TAIL_BYTES);
    writer.append(1, 3 * TAIL_BYTES);
    assert_eq!(writer.tail.after(Seq(1_000)).unwrap().len(), 1, "the newest is kept");
    assert_eq!(writer.tail.after(Seq(900)), None);
}

/// Readers at the same position share one block.
#[test]
fn readers_share_the_events_they_read() {
    let mut writer = Writer::after(0);
    writer.append(100, 10);
    let [one, two] = [40, 90].map(|after| writer.tail.after(Seq(after)).unwrap());
    assert!(one.last().zip(two.last()).is_some_and(|(one, two)| std::ptr::eq(one, two)));
}
