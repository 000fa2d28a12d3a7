//! `write_todos`: the agent's plan, shown on every screen.

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, Output, Step};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind, invalid};
use super::text::counted;
use super::{Preview, Tool, ToolError, ToolSpec};
use crate::workspace::Workspace;

const MOST_STEPS: usize = 200;
const LONGEST_STEP: usize = 2000;

const STEP: &[Field] = &[
    Field::required("text", Kind::Text, "What is to be done."),
    Field::required(
        "state",
        Kind::Word(&["pending", "in_progress", "completed", "cancelled"]),
        "How far it is.",
    ),
];
const FIELDS: &[Field] = &[Field::required(
    "todos",
    Kind::Objects(STEP),
    "The whole list, in order; it replaces the last one.",
)];

#[derive(Deserialize)]
struct Input {
    todos: Vec<Step>,
}

pub(super) struct WriteTodos;

impl Tool for WriteTodos {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_todos".into(),
            description: "Shows the plan for the task and how far it is.".into(),
            parameters: input::schema(FIELDS),
            access: Access::Session,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        _workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let steps = steps(input)?;
            Ok(Preview::plain(format!("plan {}", counted(steps.len(), "step"))))
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        _workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let steps = steps(permit.input())?;
            let count = counted(steps.len(), "step");
            permit.plan(steps).await?;
            Ok(Output::text(format!("the plan has {count}")))
        })
    }
}

fn steps(input: &Value) -> Result<Vec<Step>, ToolError> {
    let Input { todos } = input::read(FIELDS, input)?;
    if todos.len() > MOST_STEPS {
        return Err(invalid(format!("the field `todos` has more than {MOST_STEPS} entries")));
    }
    if let Some(index) = todos.iter().position(|step| step.text.len() > LONGEST_STEP) {
        let message = format!("the field `todos[{index}].text` has more than {LONGEST_STEP} bytes");
        return Err(invalid(message));
    }
    Ok(todos)
}
