//! The default model: a small, honest interpreter of plain instructions, one step a line.
//!
//! It lets a newcomer see the whole workflow, and a program drive it, without any provider. The
//! prompt is the script; how far it has come is counted from the replies since then, so the model
//! keeps nothing. It knows its tools by name and input only, and calls them like any model.
//!
//! A prompt with a line that is not understood is refused before anything is done: half a script
//! is worse than none.

mod parse;
mod report;
mod step;

use std::iter;

use futures::stream::BoxStream;
use loggia_core::{CallOutcome, ModelName};

use self::parse::{Instruction, Problem, Reading};
use self::step::Step;
use super::play::{self, Action, Actions};
use super::{Delta, Model, ModelError, ModelErrorKind, ModelRequest, PastCall, Purpose, digest};

pub const NAME: &str = "offline";

/// Problems named in one refusal.
const PROBLEMS: usize = 5;

#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl Model for OfflineModel {
    fn name(&self) -> ModelName {
        ModelName(NAME.to_owned())
    }

    fn only_computes(&self) -> bool {
        true
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        play::stream(actions(&request))
    }
}

fn actions(request: &ModelRequest) -> Actions {
    if request.purpose == Purpose::Summary {
        let summary = digest::digest(&request.messages);
        return perform([Step::Say(summary)].into_iter());
    }
    let (prompt, replies) = play::since_prompt(&request.messages);
    match parse::read(&prompt) {
        Reading::Script(script) => {
            let done: Vec<&PastCall> = replies.iter().flat_map(|reply| &reply.calls).collect();
            next_reply(script, &done)
        }
        Reading::Partly(problems) => Box::new(iter::once(Action::Fail(refusal(&problems)))),
        Reading::Nothing(problems) => perform([Step::Say(introduction(&problems))].into_iter()),
    }
}

/// One reply: the steps after the last call that was done, up to and with the next one.
fn next_reply(script: Vec<Instruction>, done: &[&PastCall]) -> Actions {
    if let Some(text) = report::failure(&script, done) {
        return perform([Step::Say(text)].into_iter());
    }
    let results = report::results(&script, done).map(Step::Say);
    let answer = last_answer(done).map(str::to_owned);
    let position = position(&script, done.len());
    let left = script.into_iter().skip(position).map(move |instruction| match &answer {
        Some(answer) => instruction.step.with_answer(answer),
        None => instruction.step,
    });
    perform(left.chain(results))
}

/// Texts are set apart as paragraphs. A call stops the reply, so what follows it is not performed.
fn perform(steps: impl Iterator<Item = Step> + Send + 'static) -> Actions {
    let mut has_text = false;
    let stop = || Action::Emit(Delta::Stop);
    let actions = steps.flat_map(move |step| -> Actions {
        match step {
            Step::Say(text) => {
                let apart = std::mem::replace(&mut has_text, true).then(|| "\n\n".to_owned());
                let pieces = apart.into_iter().chain(play::words(text));
                Box::new(pieces.map(|piece| Action::Emit(Delta::Text(piece))))
            }
            Step::Think { subject, text } => {
                Box::new(iter::once(Action::Emit(Delta::Thought { subject, text })))
            }
            Step::Wait(duration) => Box::new(iter::once(Action::Wait(duration))),
            Step::Fail(message) => {
                let error = ModelError::new(ModelErrorKind::Refused, message);
                Box::new(iter::once(Action::Fail(error)))
            }
            Step::Call(call) => {
                let (tool, input) = call.tool();
                let call = Delta::Call { tool: tool.to_owned(), input: Ok(input) };
                Box::new([Action::Emit(call), stop()].into_iter())
            }
        }
    });
    Box::new(actions.chain(iter::once(stop())))
}

/// Index of the step after the `done`-th call.
fn position(script: &[Instruction], done: usize) -> usize {
    let mut calls = script.iter().enumerate().filter(|(_, line)| line.step.call().is_some());
    match done.checked_sub(1) {
        None => 0,
        Some(last) => calls.nth(last).map_or(script.len(), |(index, _)| index + 1),
    }
}

/// What a person last answered to an `ask` of this prompt.
fn last_answer<'a>(done: &[&'a PastCall]) -> Option<&'a str> {
    done.iter().rev().find_map(|call| match &call.outcome {
        CallOutcome::Succeeded { output } if call.tool == step::ASK => Some(output.text.trim()),
        CallOutcome::Succeeded { .. }
        | CallOutcome::Failed { .. }
        | CallOutcome::Cancelled { .. } => None,
    })
}

fn refusal(problems: &[Problem]) -> ModelError {
    let message = format!("Nothing was done. {}", listed(problems));
    ModelError::new(ModelErrorKind::Refused, message)
}

/// Who speaks, what it understands, and what to do about it.
fn introduction(problems: &[Problem]) -> String {
    let forms: Vec<String> = parse::FORMS.iter().map(|form| format!("`{}`", form.usage)).collect();
    let almost: Vec<Problem> =
        problems.iter().filter(|problem| problem.verb_known).cloned().collect();
    let almost = if almost.is_empty() { String::new() } else { format!("{}\n\n", listed(&almost)) };
    format!(
        "{almost}I am the offline model, not a language model: I follow plain instructions, one a \
         line, and I understand {}. Try `write hello.txt: hi`.\n\n\
         To use another model, set `model = \"...\"` in config.toml. Real providers are not in \
         this version yet; the other model today is `scripted:FILE`.",
        forms.join(", ")
    )
}

fn listed(problems: &[Problem]) -> String {
    let mut sentences: Vec<String> = problems
        .iter()
        .take(PROBLEMS)
        .map(|problem| format!("line {}: {}.", problem.line, problem.reason))
        .collect();
    let more = problems.len().saturating_sub(PROBLEMS);
    if more > 0 {
        sentences.push(format!("{more} more lines were not understood."));
    }
    sentences.join(" ")
}

#[cfg(test)]
#[path = "offline_tests.rs"]
mod tests;
