//! `write_todos`: the agent's plan, shown on every screen.

use std::sync::Arc;

use loggia_core::{Access, Output, PlanStep, StepState};

use super::input::{FieldType, Kind, input, invalid};
use super::text::counted;
use super::typed::{Call, TypedTool};
use super::{Preview, ToolResult};
use crate::workspace::Workspace;

const MOST_STEPS: usize = 200;
const LONGEST_STEP: usize = 2000;

impl FieldType for StepState {
    const KIND: Kind = Kind::Enum(&["pending", "in_progress", "completed", "cancelled"]);
}

input! {
    struct Todo {
        /// The work to do.
        text: String,
        /// The state of the work.
        state: StepState,
    }
}

input! {
    pub(super) struct Input {
        /// The complete list, in order. It replaces the last one.
        todos: Vec<Todo>,
    }
}

impl Input {
    fn check(&self) -> ToolResult<()> {
        if self.todos.len() > MOST_STEPS {
            return Err(invalid(format!("the field `todos` has more than {MOST_STEPS} entries")));
        }
        match self.todos.iter().position(|todo| todo.text.len() > LONGEST_STEP) {
            Some(index) => Err(invalid(format!(
                "the field `todos[{index}].text` has more than {LONGEST_STEP} bytes"
            ))),
            None => Ok(()),
        }
    }
}

pub(super) struct WriteTodos;

impl TypedTool for WriteTodos {
    const NAME: &'static str = "write_todos";
    const DESCRIPTION: &'static str = "Shows the plan for the task and its progress.";
    const ACCESS: Access = Access::Session;
    type Input = Input;

    async fn preview(&self, input: Input, _: &Arc<Workspace>) -> ToolResult<Preview> {
        input.check()?;
        Ok(Preview::plain(format!("plan {}", counted(input.todos.len(), "step"))))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        input.check()?;
        let count = counted(input.todos.len(), "step");
        let steps = input.todos.into_iter().map(|Todo { text, state }| PlanStep { text, state });
        call.permit.plan(steps.collect()).await?;
        Ok(Output::text(format!("the plan has {count}")))
    }
}
