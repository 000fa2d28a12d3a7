//! Laws about the part of a call's output that is logged, for any bytes in any pieces.

use std::time::{Duration, Instant};

use loggia_session::output::{HEAD, OutputBudget, Piece, TAIL};
use proptest::prelude::*;

const LIMIT: usize = 512 * 1024;

/// Output in pieces, with the time that passes before each.
#[derive(Debug, Clone)]
struct Printed {
    pieces: Vec<(Vec<u8>, Duration)>,
}

impl Printed {
    fn bytes(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect()
    }
}

/// Cuts `bytes` at pseudo-random places, mostly into pieces of about `size`.
fn cut(bytes: &[u8], size: usize, seed: u64, pause: Duration) -> Printed {
    let mut pieces = Vec::new();
    let (mut rest, mut state) = (bytes, seed);
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let take = ((state >> 33) as usize % (2 * size) + 1).min(rest.len());
        let (piece, after) = rest.split_at(take);
        pieces.push((piece.to_vec(), pause));
        rest = after;
    }
    Printed { pieces }
}

fn repeat_to(unit: &[u8], length: usize) -> Vec<u8> {
    // Each repetition is numbered, so that a piece taken from the wrong place is noticed.
    let mut bytes = Vec::with_capacity(length + 64);
    for number in 0.. {
        if bytes.len() >= length {
            break;
        }
        bytes.extend_from_slice(unit);
        bytes.extend_from_slice(format!("<{number}>").as_bytes());
    }
    bytes
}

fn lengths() -> impl Strategy<Value = usize> {
    let near = |at: usize| at.saturating_sub(40)..at + 40;
    prop_oneof![0..4_000usize, near(HEAD), near(HEAD + TAIL), 0..1_500_000usize]
}

fn pauses() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), Just(1), 50..2_000u64].prop_map(Duration::from_millis)
}

fn printed(unit: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Printed> {
    let sizes = prop_oneof![40..4_000usize, 4_000..300_000usize];
    (unit, lengths(), sizes, any::<u64>(), pauses()).prop_map(
        |(unit, length, size, seed, pause)| {
            let size = size.max(length / 4_000);
            cut(&repeat_to(&unit, length), size, seed, pause)
        },
    )
}

fn run(printed: &Printed) -> Vec<Piece> {
    let mut budget = OutputBudget::default();
    let mut now = Instant::now();
    let mut logged = Vec::new();
    for (bytes, pause) in &printed.pieces {
        now += *pause;
        logged.extend(budget.take(bytes, now));
    }
    logged.extend(budget.finish());
    logged
}

/// Checks that the logged texts and the counted gaps together are the whole output. Returns the number of bytes that
/// were left out.
fn walk(original: &[u8], logged: &[Piece]) -> Result<u64, TestCaseError> {
    let mut rest = original;
    for (number, piece) in logged.iter().enumerate() {
        let skipped = usize::try_from(piece.skipped).unwrap();
        prop_assert!(skipped <= rest.len(), "piece {number} skips {skipped} of {}", rest.len());
        rest = &rest[skipped..];
        for shown in piece.text.chars() {
            // The first character, or the first invalid bytes, are among the next four bytes.
            let chunk = rest[..rest.len().min(4)].utf8_chunks().next();
            let Some(chunk) = chunk else {
                return Err(TestCaseError::fail(format!("piece {number} is longer than the rest")));
            };
            let taken = match chunk.valid().chars().next() {
                Some(real) => {
                    prop_assert_eq!(real, shown, "piece {}", number);
                    real.len_utf8()
                }
                None => {
                    prop_assert_eq!(char::REPLACEMENT_CHARACTER, shown, "piece {}", number);
                    chunk.invalid().len()
                }
            };
            rest = &rest[taken..];
        }
    }
    prop_assert!(rest.is_empty(), "{} bytes are neither logged nor counted", rest.len());
    Ok(logged.iter().map(|piece| piece.skipped).sum())
}

fn check(printed: &Printed) -> Result<(), TestCaseError> {
    let (original, logged) = (printed.bytes(), run(printed));
    let text: usize = logged.iter().map(|piece| piece.text.len()).sum();
    prop_assert!(text <= LIMIT, "{text} bytes of text are logged");
    let skipped = walk(&original, &logged)?;
    if original.len() <= HEAD / 3 {
        prop_assert_eq!(skipped, 0, "small output is logged in full");
    }
    if skipped > 0 {
        // The head is full, except for less than one character.
        let head: usize = logged
            .iter()
            .take_while(|piece| piece.skipped == 0)
            .map(|piece| piece.text.len())
            .sum();
        prop_assert!(head >= HEAD - 3, "only {head} bytes of the beginning");
        prop_assert!(logged.iter().all(|piece| !piece.text.is_empty()));
    }
    Ok(())
}

/// Valid text stays valid: no character is cut in two.
fn check_text(printed: &Printed) -> Result<(), TestCaseError> {
    check(printed)?;
    let replaced = run(printed).iter().any(|piece| piece.text.contains('\u{fffd}'));
    prop_assert!(!replaced, "a character was split");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_is_logged_as_prefix_gaps_and_suffix(
        printed in printed("[a-zé日🦀\n]{1,12}".prop_map(String::into_bytes))
    ) {
        check_text(&printed)?;
    }

    #[test]
    fn any_bytes_are_logged_as_prefix_gaps_and_suffix(
        printed in printed(prop::collection::vec(any::<u8>(), 1..24))
    ) {
        check(&printed)?;
    }

    #[test]
    fn invalid_bytes_stay_within_the_limits(
        printed in printed(prop::collection::vec(0x80..=0xffu8, 1..24))
    ) {
        check(&printed)?;
    }
}

#[test]
fn a_character_at_the_end_of_the_head_stays_whole() {
    for shift in 0..4 {
        let mut bytes = vec![b'x'; shift];
        bytes.extend("🦀".repeat(HEAD / 4 + 10).bytes());
        for size in [1_000_000, 4_096, 1_021] {
            check_text(&cut(&bytes, size, 7, Duration::ZERO)).unwrap();
        }
    }
}

#[test]
fn single_bytes_make_whole_characters() {
    let bytes = "é日🦀x".repeat(50);
    let pieces = bytes.bytes().map(|byte| (vec![byte], Duration::ZERO)).collect();
    check_text(&Printed { pieces }).unwrap();
}

#[test]
fn samples_show_the_newest_bytes_and_become_rarer() {
    let mut budget = OutputBudget::default();
    let start = Instant::now();
    let line = "x".repeat(64 * 1024);
    let mut samples = Vec::new();
    for second in 0..3_600 {
        for quarter in 0..4 {
            let at = Duration::from_millis(second * 1_000 + quarter * 250);
            if let Some(piece) = budget.take(line.as_bytes(), start + at)
                && piece.skipped > 0
            {
                samples.push((at, piece.text.len()));
            }
        }
    }
    assert!(samples.len() <= 30, "{}", samples.len());
    assert!(samples.len() >= 20, "an hour of output is watched: {}", samples.len());
    assert!(samples.iter().all(|(_, length)| *length <= 4 * 1024));
    let pauses: Vec<_> = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(pauses.first() < pauses.last(), "{pauses:?}");
}

#[test]
fn a_silent_call_logs_nothing() {
    let mut budget = OutputBudget::default();
    assert!(budget.take(b"", Instant::now()).is_none());
    assert!(budget.finish().is_none());
}
