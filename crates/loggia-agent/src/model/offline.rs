//! The default model: a small interpreter of plain instructions, one step per line.
//!
//! It shows a new user the whole workflow, and lets a program drive it, without a provider. The prompt is
//! the script. The replies since then determine the progress, so the model keeps no state. It knows its
//! tools only by name and input.
//!
//! A prompt with a line that is not understood is refused before anything is done, because half a script
//! is worse than none.

mod parse;
mod report;
mod step;

use std::iter;

use futures::stream::BoxStream;
use loggia_core::{CallOutcome, ModelName};

use self::parse::{Instruction, ParsedPrompt, Problem};
use self::step::Step;
use super::actions::{self, Action, Actions};
use super::{
    Delta, Model, ModelError, ModelErrorKind, ModelRequest, PastCall, Purpose, Stop, scripted,
    summarize,
};

pub const NAME: &str = "offline";

/// Problems that one refusal lists.
const PROBLEMS: usize = 5;

#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl Model for OfflineModel {
    fn name(&self) -> ModelName {
        ModelName(NAME.to_owned())
    }

    fn reads_recent_turns_only(&self) -> bool {
        true
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        actions::stream(actions(&request))
    }
}

fn actions(request: &ModelRequest) -> Actions {
    if request.purpose == Purpose::Summary {
        let summary = summarize::summarize(&request.messages);
        return perform([Step::Say(summary)].into_iter());
    }
    let (prompt, replies) = actions::since_prompt(&request.messages);
    match parse::parse(&prompt) {
        ParsedPrompt::Script(script) => {
            let done: Vec<&PastCall> = replies.iter().flat_map(|reply| &reply.calls).collect();
            next_reply(script, &done)
        }
        ParsedPrompt::Partial(problems) => Box::new(iter::once(Action::Fail(refusal(&problems)))),
        ParsedPrompt::NotUnderstood(problems) => {
            perform([Step::Say(introduction(&problems))].into_iter())
        }
    }
}

/// One reply: the steps after the last finished call, up to and including the next call.
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

/// Separates texts as paragraphs. A call ends the reply, so later steps are not performed.
fn perform(steps: impl Iterator<Item = Step> + Send + 'static) -> Actions {
    let mut has_text = false;
    let stop = || Action::Emit(Delta::Stop(Stop::Finished));
    let actions = steps.flat_map(move |step| -> Actions {
        match step {
            Step::Say(text) => {
                let apart = std::mem::replace(&mut has_text, true).then(|| "\n\n".to_owned());
                let pieces = apart.into_iter().chain(actions::words(text));
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
                let call = Delta::Call { tool: tool.to_owned(), input: Ok(input), item: None };
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

/// The last answer to an `ask` of this prompt.
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

/// Explains the offline model, the instructions it understands and how to choose another model.
fn introduction(problems: &[Problem]) -> String {
    let forms: Vec<String> = parse::FORMS.iter().map(|form| format!("`{}`", form.usage)).collect();
    let almost: Vec<Problem> =
        problems.iter().filter(|problem| problem.verb_known).cloned().collect();
    let almost = if almost.is_empty() { String::new() } else { format!("{}\n\n", listed(&almost)) };
    format!(
        "{almost}I am the offline model, not a language model: I follow plain instructions, one per \
         line, and I understand {}. Try `write hello.txt: hi`.\n\n\
         To use another model, set `model = \"...\"` in config.toml. Real providers are not in \
         this version yet; the other model today is `{}FILE`.",
        forms.join(", "),
        scripted::PREFIX
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
