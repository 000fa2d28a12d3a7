//! A message to a task: the answer to its open question, a late answer to its last one, or its next prompt.
//!
//! Which of these it is depends on the state that the message meets, so it is decided here, in the order of the
//! session's one writer, and not by a client or a server that looked at the session a moment earlier.

use crate::approval::{AnswerMessage, ChoiceId, Edit, Question};
use crate::call::Details;
use crate::command::{Late, Otherwise, Refusal, Reply, TaskChoice};
use crate::content::{Content, Part};
use crate::id::{CallId, Fresh, TaskId};
use crate::origin::Origin;
use crate::session::Session;
use crate::session::decide::{Answer, Decision};
use crate::shell::ShellParser;
use crate::words::words_to_choice;

/// What a reply is.
enum Reading {
    /// It answers the open question.
    Answer(InWords),
    /// It would have answered the last question, which is closed.
    Late(InWords),
    /// A question is open, and this is no answer to it.
    Unclear { offered: Vec<String> },
    /// It is about no question.
    Other,
}

struct InWords {
    call: CallId,
    choice: ChoiceId,
    edit: Option<Edit>,
}

impl Session {
    /// The call whose question a reply answers, or would have answered in time. None for a reply that is a prompt.
    pub fn asked_by_reply(&self, reply: &Reply) -> Option<CallId> {
        match self.read(reply) {
            Reading::Answer(words) | Reading::Late(words) => Some(words.call),
            Reading::Unclear { .. } | Reading::Other => None,
        }
    }

    pub(super) fn reply(
        &self,
        reply: &Reply,
        origin: &Origin,
        fresh: &Fresh,
        shell: &dyn ShellParser,
    ) -> Decision {
        if self.prompts.get(&reply.prompt).is_some() {
            return Ok(Vec::new());
        }
        match self.read(reply) {
            Reading::Answer(_) | Reading::Late(_) if !reply.may_answer => {
                Err(Refusal::MayNotAnswer)
            }
            Reading::Answer(InWords { call, choice, edit }) => {
                let (to, edit) = (Question::Call(call), edit.as_ref());
                let message = AnswerMessage {
                    id: reply.content.message.clone(),
                    // An answer in the client's own words holds them already.
                    text: edit.is_none().then(|| reply.content.to_text()),
                };
                let answer = Answer { to: &to, choice: &choice, edit, message: Some(&message) };
                self.answer(&answer, None, origin, fresh, shell)
            }
            Reading::Late(InWords { call, choice, edit }) => {
                self.answer_too_late(&Question::Call(call), &choice, edit.as_ref(), origin)
            }
            Reading::Unclear { offered } if reply.otherwise != Otherwise::Prompt => {
                Err(Refusal::NotAChoice { given: "this message".to_owned(), offered })
            }
            Reading::Unclear { .. } | Reading::Other => match reply.otherwise {
                Otherwise::Prompt | Otherwise::PromptUnlessAsked => {
                    self.prompt(&reply.prompt, &reply.task, &reply.content, false, origin, fresh)
                }
                Otherwise::Refused => Err(Refusal::UnknownQuestion),
            },
        }
    }

    fn read(&self, reply: &Reply) -> Reading {
        let (TaskChoice::Continue(task) | TaskChoice::Reopen(task)) = &reply.task else {
            return Reading::Other;
        };
        let text = only_words(&reply.content);
        let running = self.turn.as_ref().is_some_and(|turn| turn.task == *task);
        let asked = self.open_approvals().next().filter(|_| running);
        if let Some((call, approval)) = asked {
            let choices = &approval.choices;
            let words = text.and_then(|text| words_to_choice(&text, choices, &call.details));
            return match words {
                Some((choice, edit)) => {
                    Reading::Answer(InWords { call: call.id.clone(), choice, edit })
                }
                None => Reading::Unclear {
                    offered: choices.iter().map(|offered| offered.id.0.clone()).collect(),
                },
            };
        }
        let late = text.and_then(|text| self.late_answer(reply, task, &text, running));
        late.map_or(Reading::Other, Reading::Late)
    }

    /// The answer that these words would have been to the last question of the task.
    fn late_answer(
        &self,
        reply: &Reply,
        task: &TaskId,
        text: &str,
        running: bool,
    ) -> Option<InWords> {
        if !running && reply.late == Late::UntilTurnEnds {
            return None;
        }
        let call = self.tasks.get(task)?.last_question.as_ref()?;
        let closed = self.closed_questions.get(call)?;
        // A question to the user takes any words. Behind the end of its turn, a task that can be continued takes
        // other words than a choice as its next prompt.
        let by_choice = Details::Generic { text: String::new() };
        let may_prompt = reply.otherwise != Otherwise::Refused;
        let continues = !running && may_prompt && matches!(reply.task, TaskChoice::Reopen(_));
        let details = if continues { &by_choice } else { &closed.details };
        let (choice, edit) = words_to_choice(text, &closed.choices, details)?;
        Some(InWords { call: call.clone(), choice, edit })
    }
}

/// The text of a message that holds nothing else.
fn only_words(content: &Content) -> Option<String> {
    let only = content.parts.iter().all(|part| matches!(part, Part::Text { .. }));
    only.then(|| content.to_text())
}
