//! Performs one reply of a rule, step by step.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::placeholder::Placeholders;
use super::rule::{CallForm, Repeated, Rule, Step};
use crate::model::actions::{self, Action, Actions};
use crate::model::{Delta, ModelError, Stop};

/// The actions from a reply's first step on. The stream ends at [`Delta::Stop`].
pub struct Performance {
    rule: Arc<Rule>,
    placeholders: Placeholders,
    index: usize,
    repeats_done: u64,
    /// The rest of the current step.
    current: Actions,
    stopped: bool,
}

impl Performance {
    /// `results` are the last results of each reply with calls so far.
    pub fn new<'a>(
        rule: Arc<Rule>,
        results: impl Iterator<Item = &'a str>,
        placeholders: Placeholders,
    ) -> Self {
        let (index, repeats_done) = rule.position(results);
        let current = Box::new(iter::empty());
        Self { rule, placeholders, index, repeats_done, current, stopped: false }
    }

    fn next_step(&mut self) -> Option<Actions> {
        loop {
            let Repeated { count, step, .. } = self.rule.steps.get(self.index)?;
            if self.repeats_done < *count {
                self.repeats_done += 1;
                return Some(actions(step, &self.placeholders));
            }
            self.index += 1;
            self.repeats_done = 0;
        }
    }
}

impl Iterator for Performance {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.current.next() {
                return Some(action);
            }
            if self.stopped {
                return None;
            }
            match self.next_step() {
                Some(actions) => self.current = actions,
                None => {
                    self.stopped = true;
                    return Some(Action::Emit(Delta::Stop(Stop::Finished)));
                }
            }
        }
    }
}

fn actions(step: &Step, placeholders: &Placeholders) -> Actions {
    let fill = |text: &str| placeholders.fill(text);
    match step {
        Step::Text { text, delay, chunk } => texts(fill(text), *delay, *chunk),
        Step::Thought { subject, text, delay } => {
            let thought = Delta::Thought { subject: fill(subject), text: fill(text) };
            Box::new(delay.map(Action::Wait).into_iter().chain([Action::Emit(thought)]))
        }
        Step::Calls(calls) => {
            let calls: Vec<Delta> = calls.iter().map(|form| call(form, placeholders)).collect();
            Box::new(calls.into_iter().chain([Delta::Stop(Stop::Finished)]).map(Action::Emit))
        }
        Step::Malformed { tool, text } => {
            let call = Delta::Call { tool: fill(tool), input: Err(fill(text)), item: None };
            Box::new([call, Delta::Stop(Stop::Finished)].into_iter().map(Action::Emit))
        }
        Step::Usage(usage) => one(Action::Emit(Delta::Usage(*usage))),
        Step::Delay(duration) => one(Action::Wait(*duration)),
        Step::Error { kind, message, retry_after, fires } if fires.fires_now() => {
            let error =
                ModelError { retry_after: *retry_after, ..ModelError::new(*kind, fill(message)) };
            one(Action::Fail(error))
        }
        Step::Error { .. } => Box::new(iter::empty()),
        Step::Cut => one(Action::Cut),
        Step::Panic(message) => one(Action::Panic(fill(message))),
    }
}

fn one(action: Action) -> Actions {
    Box::new(iter::once(action))
}

/// The text in pieces of `chunk` characters, each after the delay.
fn texts(text: String, delay: Option<Duration>, chunk: Option<usize>) -> Actions {
    let size = chunk.unwrap_or(usize::MAX);
    Box::new(actions::chunks(text, size).flat_map(move |piece| {
        delay.map(Action::Wait).into_iter().chain([Action::Emit(Delta::Text(piece))])
    }))
}

fn call(form: &CallForm, placeholders: &Placeholders) -> Delta {
    let input = fill_map(&form.input, placeholders);
    Delta::Call { tool: placeholders.fill(&form.tool), input: Ok(Value::Object(input)), item: None }
}

fn fill_map(map: &Map<String, Value>, placeholders: &Placeholders) -> Map<String, Value> {
    map.iter().map(|(key, value)| (key.clone(), fill_value(value, placeholders))).collect()
}

fn fill_value(value: &Value, placeholders: &Placeholders) -> Value {
    match value {
        Value::String(text) => Value::String(placeholders.fill(text)),
        Value::Array(values) => {
            Value::Array(values.iter().map(|value| fill_value(value, placeholders)).collect())
        }
        Value::Object(map) => Value::Object(fill_map(map, placeholders)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
