//! The plan, on a log that is only counted.

use super::*;

/// A log that is written to: `each` frames a commit, and a copy lasts for some commits.
struct Machine {
    plan: Plan,
    frames: u64,
    each: u64,
    lasts: u64,
    works: bool,
    /// For how many commits the thread is at work, and how far it will have come.
    at_work: Option<(u64, u64)>,
    copied: u64,
    begun_anew: usize,
    largest: u64,
    /// The most that the one who writes had to copy.
    most_left: u64,
}

impl Machine {
    fn new(each: u64, lasts: u64, works: bool) -> Self {
        Self {
            plan: Plan::default(),
            frames: 0,
            each,
            lasts,
            works,
            at_work: None,
            copied: 0,
            begun_anew: 0,
            largest: 0,
            most_left: 0,
        }
    }

    fn commit(&mut self) {
        self.frames += self.each;
        self.largest = self.largest.max(self.frames);
        self.at_work = match self.at_work {
            Some((0, goal)) => {
                self.copied = goal;
                None
            }
            Some((left, goal)) => Some((left - 1, goal)),
            None => None,
        };
        if self.at_work.is_some() {
            return;
        }
        match self.plan.next(self.frames, self.copied) {
            Move::Wait => {}
            Move::Ask if self.works => self.at_work = Some((self.lasts, self.frames)),
            Move::Ask => {}
            Move::Finish => {
                self.most_left = self.most_left.max(self.frames.saturating_sub(self.copied));
                (self.frames, self.copied) = (0, 0);
                self.begun_anew += 1;
            }
        }
    }
}

#[test]
fn a_log_begins_anew_however_fast_it_grows() {
    for each in [1, 6, 19, 300, 5_000] {
        for lasts in [0, 3, 40, 400] {
            let mut machine = Machine::new(each, lasts, true);
            (0..200_000 / each + 20 * (lasts + 1)).for_each(|_| machine.commit());
            let in_a_copy = each * (lasts + 2);
            let most = FULL + MANY + (u64::from(ROUNDS) + 2) * in_a_copy;
            assert!(machine.begun_anew > 1, "{each} a commit, {lasts} a copy: never");
            assert!(machine.largest <= most, "{each}, {lasts}: {}", machine.largest);
        }
    }
}

#[test]
fn little_is_left_to_the_one_who_writes() {
    let mut machine = Machine::new(6, 3, true);
    (0..10_000).for_each(|_| machine.commit());
    assert!(machine.begun_anew > 10);
    assert!(machine.most_left <= FEW, "{}", machine.most_left);
}

#[test]
fn without_the_thread_it_is_done_all_the_same() {
    let mut machine = Machine::new(6, 0, false);
    (0..10_000).for_each(|_| machine.commit());
    assert!(machine.begun_anew > 1);
    assert!(machine.largest <= TOO_MANY + 6);
}

#[test]
fn a_log_that_somebody_read_at_its_end_is_tried_again_and_not_at_once() {
    let mut plan = Plan::default();
    assert_eq!(plan.next(FULL, 0), Move::Ask);
    assert_eq!(plan.next(FULL + 6, FULL), Move::Finish);
    let next = (FULL + 7..).find(|frames| plan.next(*frames, FULL) != Move::Wait);
    assert_eq!(next, Some(FULL + 6 + AGAIN));
}
