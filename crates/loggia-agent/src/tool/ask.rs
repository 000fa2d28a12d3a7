//! `ask_user`: a question to the person, answered through an approval like everything else.

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, ChoiceId, Details, Edit, Output};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind, invalid};
use super::text::headline;
use super::{Preview, Tool, ToolError, ToolSpec};
use crate::workspace::Workspace;

const MOST_OPTIONS: usize = 20;
const LONGEST: usize = 16 * 1024;

const FIELDS: &[Field] = &[
    Field::required("question", Kind::Text, "The question."),
    Field::optional("options", Kind::Texts, "Answers to choose from; words are always possible."),
];

#[derive(Deserialize)]
struct Input {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

pub(super) struct AskUser;

impl Tool for AskUser {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "ask_user".into(),
            description: "Asks the person a question and waits for the answer.".into(),
            parameters: input::schema(FIELDS),
            access: Access::Ask,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        _workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let Input { question, options } = input::read(FIELDS, input)?;
            if question.trim().is_empty() || question.len() > LONGEST {
                return Err(invalid(format!(
                    "the field `question` must have 1 to {LONGEST} bytes"
                )));
            }
            let length: usize = options.iter().map(String::len).sum();
            if options.len() > MOST_OPTIONS || length > LONGEST {
                let message = format!("the field `options` has more than {MOST_OPTIONS} entries");
                return Err(invalid(format!("{message} or {LONGEST} bytes")));
            }
            let title = format!("ask: {}", headline(&question));
            Ok(Preview { title, details: Details::Question { text: question, options } })
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        _workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let answer = answer(permit.details(), permit.answer());
            answer.map(Output::text).ok_or_else(ToolError::unfit)
        })
    }
}

/// The words of an answer: those of the option chosen, or the person's own.
fn answer(details: &Details, given: Option<(&ChoiceId, Option<&Edit>)>) -> Option<String> {
    let Details::Question { options, .. } = details else { return None };
    let (choice, edit) = given?;
    if choice.0 == ChoiceId::ANSWER {
        return match edit? {
            Edit::Text { text } => Some(text.clone()),
            Edit::File { .. } | Edit::Command { .. } => None,
        };
    }
    let number: usize = choice.0.strip_prefix("option_")?.parse().ok()?;
    options.get(number.checked_sub(1)?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_option_or_the_words() {
        let options = vec!["red".to_owned(), "blue".to_owned()];
        let question = Details::Question { text: "which?".into(), options };
        let words = Edit::Text { text: "green".into() };
        let check =
            |choice: &str, edit: Option<&Edit>| answer(&question, Some((&choice.into(), edit)));
        assert_eq!(check("option_1", None).as_deref(), Some("red"));
        assert_eq!(check("option_2", None).as_deref(), Some("blue"));
        assert_eq!(check("option_3", None), None);
        assert_eq!(check("option_0", None), None);
        assert_eq!(check("answer", Some(&words)).as_deref(), Some("green"));
        assert_eq!(check("answer", None), None);
        assert_eq!(answer(&question, None), None);
    }
}
