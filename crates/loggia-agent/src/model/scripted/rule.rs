//! A parsed rule: when it applies, its steps, and where each reply starts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loggia_core::Usage;
use regex::Regex;
use serde_json::{Map, Value};

use super::placeholder::CaptureGroups;
use crate::model::ModelErrorKind;

#[derive(Debug)]
pub struct Rule {
    pub when: When,
    pub steps: Vec<Repeated>,
}

#[derive(Debug)]
pub enum When {
    Always,
    /// The whole text, without surrounding space.
    Prompt(String),
    Contains(String),
    Regex(Regex),
}

/// A step and how often it is performed. Nested repeats are multiplied, not unrolled.
#[derive(Debug)]
pub struct Repeated {
    pub count: u64,
    /// A call is repeated only while its result matches.
    pub again: Option<Regex>,
    pub step: Step,
}

#[derive(Debug)]
pub enum Step {
    Text {
        text: String,
        delay: Option<Duration>,
        chunk: Option<usize>,
    },
    Thought {
        subject: String,
        text: String,
        delay: Option<Duration>,
    },
    Calls(Vec<CallForm>),
    /// A call with an input that cannot be read.
    Malformed {
        tool: String,
        text: String,
    },
    Usage(Usage),
    Delay(Duration),
    Error {
        kind: ModelErrorKind,
        message: String,
        retry_after: Option<Duration>,
        fires: Fires,
    },
    Cut,
    Panic(String),
}

#[derive(Debug)]
pub struct CallForm {
    pub tool: String,
    pub input: Map<String, Value>,
}

/// How often an error fires before the step lets the reply pass once.
#[derive(Debug)]
pub enum Fires {
    Always,
    /// Counted over the model's lifetime. Starts again after each pass, so that every prompt gets the
    /// same errors.
    Times {
        times: u64,
        reached: AtomicU64,
    },
}

impl Fires {
    pub fn times(times: u64) -> Self {
        Fires::Times { times, reached: AtomicU64::new(0) }
    }

    /// Counts the call, so it must be called once each time the step is reached.
    pub fn fires_now(&self) -> bool {
        match self {
            Fires::Always => true,
            Fires::Times { times, reached } => {
                let earlier = reached.fetch_add(1, Ordering::Relaxed);
                earlier % times.saturating_add(1) < *times
            }
        }
    }
}

impl Rule {
    /// The groups of the prompt if the rule applies to it.
    pub fn captures(&self, prompt: &str) -> Option<CaptureGroups> {
        let applies = match &self.when {
            When::Always => true,
            When::Prompt(text) => text.trim() == prompt,
            When::Contains(text) => prompt.contains(text.as_str()),
            When::Regex(regex) => {
                return regex.captures(prompt).map(|found| CaptureGroups::of(regex, &found));
            }
        };
        applies.then(CaptureGroups::default)
    }

    /// The step at which the next reply starts, and how many of its repeats are done, given the last
    /// result of each reply with calls so far.
    pub fn position<'a>(&self, results: impl Iterator<Item = &'a str>) -> (usize, u64) {
        let (mut index, mut done) = (0, 0);
        for result in results {
            let steps = self.steps.iter().enumerate().skip(index);
            let Some((at, repeated)) = steps.into_iter().find(|(_, one)| one.step.ends_reply())
            else {
                return (self.steps.len(), 0);
            };
            done = if at == index { done + 1 } else { 1 };
            let again = repeated.again.as_ref().is_none_or(|again| again.is_match(result));
            (index, done) = if again && done < repeated.count { (at, done) } else { (at + 1, 0) };
        }
        (index, done)
    }
}

impl Step {
    /// Whether the model waits for results after this step.
    pub fn ends_reply(&self) -> bool {
        match self {
            Step::Calls(_) | Step::Malformed { .. } => true,
            Step::Text { .. }
            | Step::Thought { .. }
            | Step::Usage(_)
            | Step::Delay(_)
            | Step::Error { .. }
            | Step::Cut
            | Step::Panic(_) => false,
        }
    }
}
