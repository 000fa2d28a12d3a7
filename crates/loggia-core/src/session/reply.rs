//! A message to a task: the answer to its open question, a late answer to its last one, or its next prompt.
//!
//! Which of these it is depends on the state when the message is decided. So it is decided here, in the order of the
//! session's one writer, and not by a client or server that read the session a moment earlier.

use crate::approval::{AnswerMessage, ChoiceId, Edit, Question};
use crate::call::Details;
use crate::command::{IfNotAnswer, LateUntil, Refusal, Reply, TaskChoice};
use crate::content::{Content, Part};
use crate::id::{CallId, TaskId};
use crate::origin::Origin;
use crate::session::decide::{Answer, Context, Decision, offered_to};
use crate::session::{Closing, Session};
use crate::words::words_to_choice;

/// How a reply is understood.
enum ReplyKind {
    /// It answers the open question.
    Answer(WordAnswer),
    /// It answers the last question, which is closed.
    Late(WordAnswer),
    /// A question is open, and the reply does not answer it.
    Unclear { offered: Vec<String> },
    /// No question is open, and it does not answer the last one.
    Other,
}

struct WordAnswer {
    call: CallId,
    choice: ChoiceId,
    edit: Option<Edit>,
}

impl Session {
    /// The call whose question a reply answers, in time or late. None for a reply that is a prompt.
    pub fn asked_by_reply(&self, reply: &Reply, origin: &Origin) -> Option<CallId> {
        match self.read(reply, origin) {
            ReplyKind::Answer(words) | ReplyKind::Late(words) => Some(words.call),
            ReplyKind::Unclear { .. } | ReplyKind::Other => None,
        }
    }

    pub(super) fn reply(&self, reply: &Reply, context: &Context<'_>) -> Decision {
        if self.prompts.get(&reply.prompt).is_some() {
            return Ok(Vec::new());
        }
        match self.read(reply, context.origin) {
            ReplyKind::Answer(_) | ReplyKind::Late(_) if !reply.may_answer => {
                Err(Refusal::MayNotAnswer)
            }
            ReplyKind::Answer(WordAnswer { call, choice, edit }) => {
                let (to, edit) = (Question::Call(call), edit.as_ref());
                let message = AnswerMessage {
                    id: reply.content.message.clone(),
                    // An edit contains the text already.
                    text: edit.is_none().then(|| reply.content.to_text()),
                };
                let answer = Answer { to: &to, choice: &choice, edit, message: Some(&message) };
                self.answer(&answer, None, context)
            }
            ReplyKind::Late(WordAnswer { call, choice, edit }) => {
                let to = Question::Call(call);
                let late = self.answer_too_late(&to, &choice, edit.as_ref(), context.origin);
                late.map_err(|refusal| match refusal {
                    Refusal::AlreadyAnswered { choice, by, at } if reply.can_continue() => {
                        Refusal::ReplyTooLate { choice, by, at }
                    }
                    other => other,
                })
            }
            ReplyKind::Unclear { offered } if reply.otherwise != IfNotAnswer::Prompt => {
                let given = match reply.content.to_text() {
                    text if text.trim().is_empty() => "a message without text".to_owned(),
                    text => text.chars().take(64).collect(),
                };
                Err(Refusal::NotAChoice { given, offered })
            }
            ReplyKind::Unclear { .. } | ReplyKind::Other => match reply.otherwise {
                IfNotAnswer::Prompt | IfNotAnswer::PromptUnlessAsked => {
                    self.prompt(&reply.prompt, &reply.task, &reply.content, false, context)
                }
                IfNotAnswer::Refused => Err(Refusal::UnknownQuestion),
            },
        }
    }

    fn read(&self, reply: &Reply, origin: &Origin) -> ReplyKind {
        let (TaskChoice::Continue(task) | TaskChoice::Reopen(task)) = &reply.task else {
            return ReplyKind::Other;
        };
        let text = only_text(&reply.content);
        let running = self.turn.as_ref().is_some_and(|turn| turn.task == *task);
        let mut asked = self.open_approvals().filter(|_| running).peekable();
        if let Some((_, first)) = asked.peek() {
            let offered = offered_to(origin, &first.choices);
            // The first question that the words can answer.
            let answer = asked.find_map(|(call, approval)| {
                let words = words_to_choice(text.as_deref()?, &approval.choices, &call.details);
                words.map(|(choice, edit)| WordAnswer { call: call.id.clone(), choice, edit })
            });
            return answer.map_or(ReplyKind::Unclear { offered }, ReplyKind::Answer);
        }
        let late = text.and_then(|text| self.late_answer(reply, origin, task, &text, running));
        late.map_or(ReplyKind::Other, ReplyKind::Late)
    }

    /// The late answer to the last question of the task that this text stands for.
    fn late_answer(
        &self,
        reply: &Reply,
        origin: &Origin,
        task: &TaskId,
        text: &str,
        running: bool,
    ) -> Option<WordAnswer> {
        if !running && reply.late == LateUntil::UntilTurnEnds {
            return None;
        }
        let call = self.tasks.get(task)?.last_question.as_ref()?;
        let closed = self.closed_questions.get(call)?;
        // A question to the user accepts any text, so any text may be a late answer. After the turn, text that names no
        // choice continues the task, unless another client gave the answer or withdrew the question: then the text was
        // probably meant as an answer.
        let by_choice = Details::Generic { text: String::new() };
        let (Closing::Answered { by, .. } | Closing::Withdrawn { by, .. }) = &closed.how;
        let lost = by != origin;
        let continues = !running && !lost && reply.can_continue();
        let details = if continues { &by_choice } else { &closed.details };
        let (choice, edit) = words_to_choice(text, &closed.choices, details)?;
        Some(WordAnswer { call: call.clone(), choice, edit })
    }
}

impl Reply {
    /// Whether the message could be the next prompt of a task that is over.
    fn can_continue(&self) -> bool {
        self.otherwise != IfNotAnswer::Refused && matches!(self.task, TaskChoice::Reopen(_))
    }
}

/// The text of a message that contains only text.
fn only_text(content: &Content) -> Option<String> {
    let only = content.parts.iter().all(|part| matches!(part, Part::Text { .. }));
    only.then(|| content.to_text())
}
