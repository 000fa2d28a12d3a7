//! One client: reads the log through the node that it is connected to, and sends commands.
//!
//! It acts on what it has read so far, so it answers questions that are already answered, and it retries
//! commands whose outcome it does not know.

use std::sync::Arc;

use loggia_core::{
    ApprovalId, CallId, Cancel, ChoiceId, CloseReason, Command, Content, Details, Edit, Envelope,
    Event, Level, Limits, Mode, ModelName, OnTimeout, Origin, Question, Refusal, Seconds, Settings,
    Surface, TaskChoice, TaskId, Timeout,
};

use super::agent;
use super::rng::Rng;

pub struct Client {
    pub origin: Origin,
    /// Runs in the same process as its node, like a terminal, and crashes with it.
    pub embedded: bool,
    /// The epoch of the node it is connected to.
    pub node: Option<u64>,
    pub seen: Vec<Arc<Envelope>>,
    asked: Vec<Asked>,
    tasks: Vec<TaskId>,
    prompts: usize,
}

struct Asked {
    approval: ApprovalId,
    call: CallId,
    choices: Vec<ChoiceId>,
    about: About,
}

#[derive(Clone, Copy, PartialEq)]
enum About {
    File,
    Command,
    Words,
    Other,
}

/// A command of a client, until its outcome is known.
#[derive(Debug)]
pub struct Request {
    pub client: usize,
    pub command: Command,
    pub state: State,
}

#[derive(Debug, PartialEq)]
pub enum State {
    /// Waits for the reply of the node with this epoch.
    Waiting(u64),
    /// The connection broke, or the node could not store the events: the outcome is unknown.
    Unknown,
    Done,
    Refused(Refusal),
}

impl Client {
    pub fn new(number: usize, rng: &mut Rng) -> Self {
        let surfaces = [Surface::Tui, Surface::A2a, Surface::Acp, Surface::Web, Surface::Sdlc];
        let mut origin =
            Origin::new(surfaces[number % surfaces.len()], format!("client-{number}").as_str());
        origin.principal = rng.percent(30).then(|| format!("person-{number}").into());
        Self {
            origin,
            embedded: number == 0,
            node: None,
            seen: Vec::new(),
            asked: Vec::new(),
            tasks: Vec::new(),
            prompts: 0,
        }
    }

    /// The machine that it ran on lost power.
    pub fn forget(&mut self) {
        self.node = None;
        self.seen.clear();
        self.asked.clear();
        self.tasks.clear();
    }

    pub fn read(&mut self, envelope: &Arc<Envelope>) {
        match &envelope.event {
            Event::PromptAccepted { task, .. } => self.tasks.push(task.clone()),
            Event::ApprovalAsked { approval, call, choices, .. } => {
                // The proposal comes directly before its question.
                let about = match self.seen.last().map(|last| &last.event) {
                    Some(Event::CallProposed { details: Details::Edit(_), .. }) => About::File,
                    Some(Event::CallProposed { details: Details::Execute { .. }, .. }) => {
                        About::Command
                    }
                    Some(Event::CallProposed { details: Details::Question { .. }, .. }) => {
                        About::Words
                    }
                    _ => About::Other,
                };
                self.asked.push(Asked {
                    approval: approval.clone(),
                    call: call.clone(),
                    choices: choices.iter().map(|choice| choice.id.clone()).collect(),
                    about,
                });
            }
            _ => {}
        }
        self.seen.push(envelope.clone());
    }

    pub fn next_command(&mut self, number: usize, rng: &mut Rng) -> Option<Command> {
        Some(match rng.below(200) {
            0..100 => return self.answer(rng),
            100..160 => self.prompt(number, rng),
            160..175 => Command::Cancel { what: self.cancel(number, rng) },
            175..185 => Command::Configure { settings: settings(rng) },
            185..192 => {
                let rule = agent::rule(rng);
                let amendment = match rng.below(3) {
                    0 => loggia_core::Amendment::Revoked { rule: rule.id },
                    _ => loggia_core::Amendment::Added { rule },
                };
                Command::Amend { amendment }
            }
            192..195 => {
                let name = *rng.pick(&["parser", "the other one"]);
                Command::Name { name: loggia_core::SessionName::parse(name).unwrap() }
            }
            195..199 => Command::Notice { level: Level::Info, text: "hello".into() },
            _ if rng.percent(30) => Command::Close { reason: CloseReason::Requested },
            _ => return None,
        })
    }

    fn prompt(&mut self, number: usize, rng: &mut Rng) -> Command {
        self.prompts += 1;
        let known = rng.maybe_pick(&self.tasks).cloned();
        let task = match (rng.below(5), known) {
            (0, _) => TaskChoice::Named(TaskId::new(format!("task-{number}-{}", self.prompts))),
            (1, Some(task)) => TaskChoice::Continue(task),
            (2, Some(task)) => TaskChoice::Reopen(task),
            _ => TaskChoice::New,
        };
        let prompt = format!("prompt-{number}-{}", self.prompts);
        if rng.percent(20) {
            return Command::Shell { prompt: prompt.as_str().into(), line: "git log".into() };
        }
        Command::Prompt { prompt: prompt.as_str().into(), task, content: Content::text("do it") }
    }

    fn cancel(&self, number: usize, rng: &mut Rng) -> Cancel {
        match (rng.below(3), rng.maybe_pick(&self.tasks)) {
            (0, Some(task)) => Cancel::Task(task.clone()),
            (1, _) => {
                let prompt = 1 + rng.below(self.prompts.max(1));
                Cancel::Prompt(format!("prompt-{number}-{prompt}").as_str().into())
            }
            _ => Cancel::Turn,
        }
    }

    fn answer(&self, rng: &mut Rng) -> Option<Command> {
        let newest = &self.asked[self.asked.len().saturating_sub(4)..];
        let asked = rng.maybe_pick(newest)?;
        let choice = match rng.per_mille(30) {
            true => "maybe".into(),
            false => rng.pick(&asked.choices).clone(),
        };
        let edit = match asked.about {
            _ if rng.per_mille(30) => Some(Edit::File { content: "unfit?\n".into() }),
            About::Words if choice.0 == ChoiceId::ANSWER => {
                Some(Edit::Text { text: "as you like".into() })
            }
            About::File if choice.proceeds() && rng.percent(20) => {
                Some(Edit::File { content: "newer\n".into() })
            }
            About::Command if choice.proceeds() && rng.percent(20) => {
                Some(Edit::Command { command: "git log -n 3".into() })
            }
            _ => None,
        };
        let digest = rng.per_mille(20).then(|| "what I saw".to_owned());
        let (approval, call) = (asked.approval.clone(), asked.call.clone());
        let to = match (rng.percent(50), rng.percent(50)) {
            (true, true) => Question::Both { approval, call },
            (true, false) => Question::Approval(approval),
            (false, _) => Question::Call(call),
        };
        Some(Command::Answer { to, choice, edit, digest, message: None })
    }
}

pub fn settings(rng: &mut Rng) -> Settings {
    let mode = *rng.pick(&[Mode::Ask, Mode::Ask, Mode::Ask, Mode::Edits, Mode::All, Mode::Plan]);
    let rules = (0..rng.below(2)).map(|_| agent::rule(rng)).collect();
    // These settings are unique, so an acknowledged change can be found in the log.
    let limits = Limits { text_bytes: rng.next() >> 16, ..Limits::default() };
    let unattended = rng.percent(10);
    let timeout = rng.percent(50).then(|| Timeout {
        after: Seconds(1 + rng.below(600) as u64),
        then: *rng.pick(&OnTimeout::ALL),
    });
    let model = ModelName("scripted".into());
    Settings { model, effort: None, mode, rules, tools: None, unattended, timeout, limits }
}
