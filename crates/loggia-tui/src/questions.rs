//! The open questions, a fold of the log. The dialog shows the first one; no message closes it.

use std::collections::HashMap;

use loggia_core::{
    ApprovalId, CallId, Choice, ChoiceId, Details, Envelope, Event, Millis, Origin, Risk,
};

#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    pub approval: ApprovalId,
    pub call: CallId,
    pub tool: String,
    pub title: String,
    pub details: Details,
    pub choices: Vec<Choice>,
    pub risk: Risk,
    pub asked: Millis,
}

/// How a question was closed.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedQuestion {
    pub approval: ApprovalId,
    pub title: String,
    /// None: withdrawn because its turn ended.
    pub answer: Option<ChoiceId>,
    pub by: Origin,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Questions {
    /// Proposed calls that have not ended.
    calls: HashMap<CallId, (String, String, Details)>,
    open: Vec<OpenQuestion>,
}

impl Questions {
    /// Oldest first.
    pub fn open(&self) -> &[OpenQuestion] {
        &self.open
    }

    pub fn first(&self) -> Option<&OpenQuestion> {
        self.open.first()
    }

    pub fn apply(&mut self, envelope: &Envelope) -> Option<ResolvedQuestion> {
        match &envelope.event {
            Event::CallProposed { call, tool, title, details, .. } => {
                let shown = (tool.clone(), title.clone(), details.clone());
                self.calls.insert(call.clone(), shown);
                None
            }
            Event::ApprovalAsked { approval, call, choices, risk } => {
                let (tool, title, details) = self.calls.get(call)?.clone();
                self.open.push(OpenQuestion {
                    approval: approval.clone(),
                    call: call.clone(),
                    tool,
                    title,
                    details,
                    choices: choices.clone(),
                    risk: *risk,
                    asked: envelope.at,
                });
                None
            }
            Event::ApprovalAnswered { approval, choice, .. } => {
                let answer = Some(choice.clone());
                self.close(|question| question.approval == *approval, answer, &envelope.origin)
            }
            Event::CallEnded { call, .. } => {
                self.calls.remove(call);
                self.close(|question| question.call == *call, None, &envelope.origin)
            }
            _ => None,
        }
    }

    fn close(
        &mut self,
        gone: impl Fn(&OpenQuestion) -> bool,
        answer: Option<ChoiceId>,
        by: &Origin,
    ) -> Option<ResolvedQuestion> {
        let index = self.open.iter().position(gone)?;
        let question = self.open.remove(index);
        let OpenQuestion { approval, title, .. } = question;
        Some(ResolvedQuestion { approval, title, answer, by: by.clone() })
    }
}
