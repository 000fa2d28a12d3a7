//! `ask_user`: asks the person a question. The answer is the answer to an approval.

use std::sync::Arc;

use loggia_core::{Access, ChoiceId, Details, Edit, Output};

use super::input::{input, invalid};
use super::text::headline;
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult};
use crate::workspace::Workspace;

const MOST_OPTIONS: usize = 20;
const LONGEST: usize = 16 * 1024;

input! {
    pub(super) struct Input {
        /// The question.
        question: String,
        /// Answers to choose from. The person can always type another one.
        options: Option<Vec<String>>,
    }
}

pub(super) struct AskUser;

impl TypedTool for AskUser {
    const NAME: &'static str = "ask_user";
    const DESCRIPTION: &'static str = "Asks the person a question and waits for the answer.";
    const ACCESS: Access = Access::Ask;
    type Input = Input;

    async fn preview(&self, input: Input, _: &Arc<Workspace>) -> ToolResult<Preview> {
        let (question, options) = (input.question, input.options.unwrap_or_default());
        if question.trim().is_empty() || question.len() > LONGEST {
            return Err(invalid(format!("the field `question` must have 1 to {LONGEST} bytes")));
        }
        let length: usize = options.iter().map(String::len).sum();
        if options.len() > MOST_OPTIONS || length > LONGEST {
            return Err(invalid(format!(
                "the field `options` has more than {MOST_OPTIONS} entries or {LONGEST} bytes"
            )));
        }
        let title = format!("ask: {}", headline(&question));
        Ok(Preview::new(title, Details::Question { text: question, options }))
    }

    async fn run(&self, _: Input, call: Call<'_>) -> ToolResult<Output> {
        let answer = answer(call.permit.details(), call.permit.answer());
        answer.map(Output::text).ok_or_else(ToolError::wrong_permit)
    }
}

/// The text of the chosen option, or the text that the person typed.
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
    fn an_answer_is_the_option_or_the_typed_text() {
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
