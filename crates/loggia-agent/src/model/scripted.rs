//! A model that follows a script file: rules for prompts, each with the steps of its replies.
//!
//! For demonstrations, tests and conformance kits: it can stream slowly, think, call tools, fail, and
//! repeat any of it a million times. The replies since the prompt determine its progress. Its only state
//! is how often an error step with `attempts` has fired, because a retry looks like the first request.
//!
//! Not here: the tools that it names.

mod form;
mod load;
mod perform;
mod placeholder;
mod rule;

use std::path::Path;
use std::sync::Arc;

use futures::stream::BoxStream;
use loggia_core::ModelName;

use self::load::Script;
pub use self::load::{Position, ScriptError};
use self::perform::Performance;
use self::placeholder::Placeholders;
use self::rule::Rule;
use super::actions::{self, Action, Actions};
use super::{Delta, Model, ModelError, ModelRequest, Purpose, Stop, summarize};

/// The prefix of a scripted model's name, before the file.
pub const PREFIX: &str = "scripted:";

pub struct ScriptedModel {
    /// As the user wrote it, for messages.
    file: String,
    rules: Vec<Arc<Rule>>,
    window: Option<u64>,
}

impl ScriptedModel {
    /// Reads the file at `directory`/`file`; blocks on the file system.
    pub fn open(file: &str, directory: &Path) -> Result<Self, ScriptError> {
        let text = load::read(file, &directory.join(file))?;
        Self::parse(file, &text)
    }

    /// Parses a script. The extension of `file` says whether it is TOML or JSON.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let Script { rules, window } = load::parse(file, text)?;
        let rules = rules.into_iter().map(Arc::new).collect();
        Ok(Self { file: file.to_owned(), rules, window })
    }

    fn actions(&self, request: &ModelRequest) -> Actions {
        let (prompt, replies) = actions::since_prompt(&request.messages);
        let results = replies.iter().filter_map(|reply| reply.calls.last());
        let results = results.map(|call| call.outcome.summary());
        let result = results.clone().next_back().unwrap_or("");
        let matched = self.rules.iter().find_map(|rule| {
            let captured = rule.captures(prompt.trim())?;
            let placeholders = Placeholders::new(captured, result, &request.instructions);
            Some((Arc::clone(rule), placeholders))
        });
        match matched {
            Some((rule, placeholders)) => Box::new(Performance::new(rule, results, placeholders)),
            None if request.purpose == Purpose::Summary => {
                let text = summarize::summarize(&request.messages);
                Box::new(
                    [Delta::Text(text), Delta::Stop(Stop::Finished)].into_iter().map(Action::Emit),
                )
            }
            None => {
                let text = format!("No rule of `{}` matches this prompt.", self.file);
                Box::new(
                    [Delta::Text(text), Delta::Stop(Stop::Finished)].into_iter().map(Action::Emit),
                )
            }
        }
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> ModelName {
        ModelName(format!("{PREFIX}{}", self.file))
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn reads_recent_turns_only(&self) -> bool {
        true
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        actions::stream(self.actions(&request))
    }
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
