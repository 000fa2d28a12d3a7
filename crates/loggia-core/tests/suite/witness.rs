//! Checks the laws on a log, independently of the core's own state.
//!
//! It reads one envelope at a time, so that the laws are checked after every append. The message about
//! a broken law begins with its name.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use loggia_core::{
    Access, ApprovalId, Authority, CallId, CallOutcome, ChoiceId, Details, Edit, Envelope, Event,
    Millis, Origin, PromptId, SHELL_TOOL, Seq, Settings, TaskId, TaskState, TurnId, TurnOutcome,
};

pub type Lawful = Result<(), String>;

/// Returns with a message unless the law holds.
macro_rules! law {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use law;

#[derive(Debug, Clone, Default)]
pub struct Witness {
    pub head: Seq,
    pub prompts: HashMap<PromptId, Prompt>,
    pub turn: Option<OpenTurn>,
    pub calls: HashMap<CallId, Call>,
    pub approvals: HashMap<ApprovalId, Approval>,
    /// The prompts of each task, in the order of acceptance.
    pub tasks: BTreeMap<TaskId, Vec<PromptId>>,
    pub settings: Option<Settings>,
    pub name: Option<String>,
    pub closed: bool,
    /// For each turn since the last compaction: the position of its prompt and of its start.
    pub read_turns: Vec<(Seq, Seq)>,
    /// Typed shell lines that have not run, by prompt.
    lines: HashMap<PromptId, String>,
    workspace: String,
    queue: VecDeque<PromptId>,
    turns: HashSet<TurnId>,
    /// Opened tasks that were closed.
    given_up: HashSet<TaskId>,
    /// Tasks with a turn since they were last idle.
    at_work: HashSet<TaskId>,
    settled: u64,
}

#[derive(Debug, Clone)]
pub struct OpenTurn {
    pub id: TurnId,
    pub prompt: PromptId,
    pub task: TaskId,
    /// Calls that have not ended.
    pub calls: Vec<CallId>,
}

#[derive(Debug, Clone)]
pub struct Prompt {
    pub accepted: Seq,
    pub task: TaskId,
    pub fate: Fate,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    Waiting,
    Running,
    /// With this state, as the n-th prompt of the session to end.
    Over(TaskState, u64),
}

#[derive(Debug, Clone)]
pub struct Call {
    pub tool: String,
    pub access: Access,
    /// With the edit of the approval.
    pub details: Details,
    pub approval: Option<ApprovalId>,
    pub started: Option<Seq>,
    pub ended: Option<CallOutcome>,
}

#[derive(Debug, Clone)]
pub struct Approval {
    pub call: CallId,
    pub choices: Vec<ChoiceId>,
    pub answer: Option<Answer>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub seq: Seq,
    pub at: Millis,
    pub by: Origin,
    pub choice: ChoiceId,
    pub edit: Option<Edit>,
}

impl Witness {
    pub fn of<'a>(log: impl IntoIterator<Item = &'a Envelope>) -> Result<Self, String> {
        let mut witness = Self::default();
        for envelope in log {
            witness.read(envelope)?;
        }
        Ok(witness)
    }

    pub fn read(&mut self, envelope: &Envelope) -> Lawful {
        let seq = envelope.seq;
        law!(seq == self.head.next(), "P5: {seq} follows {}", self.head);
        law!(!self.closed, "a closed session goes on at {seq}");
        self.head = seq;
        match &envelope.event {
            Event::SessionOpened { settings, workspace, .. } => {
                self.workspace = workspace.path().to_owned();
                law!(self.settings.is_none(), "the session is opened twice, again at {seq}");
                self.settings = Some(settings.clone());
            }
            Event::SettingsChanged { settings } => self.settings = Some(settings.clone()),
            Event::SessionClosed { .. } => {
                law!(self.turn.is_none(), "the session closes over an open turn at {seq}");
                law!(self.queue.is_empty(), "the session closes over waiting prompts at {seq}");
                self.closed = true;
            }
            Event::PromptAccepted { prompt, task, content, shell } => {
                self.accept(seq, prompt, task)?;
                if *shell {
                    self.lines.insert(prompt.clone(), content.to_text());
                }
            }
            Event::TaskOpened { task, .. } => {
                let before = self.tasks.insert(task.clone(), Vec::new());
                law!(before.is_none(), "{task} is opened at {seq} and was there before");
            }
            Event::TaskClosed { task } => {
                let ready = self.tasks.get(task).is_some_and(Vec::is_empty);
                let first = self.given_up.insert(task.clone());
                law!(ready && first, "{task} is closed at {seq} and did not wait for a message");
            }
            Event::PromptScreened { prompt, task, screening, .. } => {
                law!(!self.tasks.contains_key(task), "{task} is there, and is screened at {seq}");
                self.accept(seq, prompt, task)?;
                self.queue.retain(|queued| queued != prompt);
                self.settle(prompt, TaskState::of_screening(screening));
            }
            Event::PromptWithdrawn { prompt } => {
                law!(self.queue.contains(prompt), "{prompt} is withdrawn and did not wait");
                self.queue.retain(|queued| queued != prompt);
                self.settle(prompt, TaskState::Canceled);
            }
            Event::TurnStarted { turn, prompt, task } => {
                self.start(turn, prompt, task)?;
                self.read_turns.push((self.prompts[prompt].accepted, seq));
            }
            Event::TurnEnded { turn, outcome } => self.end_turn(turn, outcome)?,
            Event::TextAppended { turn, .. }
            | Event::ThoughtAppended { turn, .. }
            | Event::PlanUpdated { turn, .. }
            | Event::SourcesCited { turn, .. }
            | Event::UsageReported { turn, .. }
            | Event::PromptExpanded { turn, .. }
            | Event::ArtifactPublished { turn, .. } => {
                let open = self.turn.as_ref().map(|open| &open.id);
                law!(open == Some(turn), "L3: {seq} belongs to {turn}, which does not run");
            }
            Event::CallProposed { turn, call, tool, access, details, .. } => {
                let (tool, access, details) = (tool.clone(), *access, details.clone());
                let it = Call { tool, access, details, approval: None, started: None, ended: None };
                self.propose(turn, call, it)?;
            }
            Event::ApprovalAsked { approval, call, choices, .. } => {
                let offered = choices.iter().map(|choice| choice.id.clone()).collect();
                self.ask(approval, call, offered)?;
            }
            Event::ApprovalAnswered { approval, call, choice, edit, details, .. } => {
                let answer = Answer {
                    seq,
                    at: envelope.at,
                    by: envelope.origin.clone(),
                    choice: choice.clone(),
                    edit: edit.clone(),
                };
                self.answer(approval, call, answer, details.as_ref())?;
            }
            Event::CallStarted { call, authority } => self.start_call(seq, call, authority)?,
            Event::CallOutput { call, .. } => {
                let known = self.calls.get(call);
                let running = known.is_some_and(|it| it.started.is_some() && it.ended.is_none());
                law!(running, "L4: {call} prints and does not run");
            }
            Event::CallEnded { call, outcome } => self.end_call(call, outcome)?,
            Event::ContextCompacted { upto, .. } => {
                law!(self.turn.is_some(), "the context is compacted at {seq} and no turn runs");
                self.read_turns.retain(|(_, started)| started > upto);
            }
            Event::SessionNamed { name } => {
                law!(self.name.as_deref() != Some(name), "{seq} names what is called so already");
                self.name = Some(name.clone());
            }
            Event::PolicyAmended { .. }
            | Event::NoticeRaised { .. }
            | Event::ModelRecord { .. }
            | Event::ReplyDiscarded { .. }
            | Event::Unknown => {}
        }
        Ok(())
    }

    /// The state of a task, computed in the simplest way.
    pub fn task_state(&self, task: &TaskId) -> Option<TaskState> {
        let fates: Vec<&Fate> =
            self.tasks.get(task)?.iter().map(|prompt| &self.prompts[prompt].fate).collect();
        if fates.is_empty() {
            let given_up = self.given_up.contains(task);
            return Some(if given_up { TaskState::Canceled } else { TaskState::Submitted });
        }
        let asked = self.open_approvals().next().is_some();
        if fates.contains(&&Fate::Running) {
            return Some(if asked { TaskState::InputRequired } else { TaskState::Working });
        }
        if fates.contains(&&Fate::Waiting) {
            let at_work = self.at_work.contains(task);
            return Some(if at_work { TaskState::Working } else { TaskState::Submitted });
        }
        let over = fates.into_iter().filter_map(|fate| match fate {
            Fate::Over(state, when) => Some((*when, *state)),
            Fate::Waiting | Fate::Running => None,
        });
        over.max_by_key(|(when, _)| *when).map(|(_, state)| state)
    }

    pub fn open_approvals(&self) -> impl Iterator<Item = &ApprovalId> {
        let calls = self.turn.iter().flat_map(|turn| &turn.calls);
        let asked = calls.filter_map(|call| self.calls[call].approval.as_ref());
        asked.filter(|approval| self.approvals[*approval].answer.is_none())
    }

    /// Calls that were started and have not ended.
    pub fn running_calls(&self) -> Vec<CallId> {
        let calls = self.turn.iter().flat_map(|turn| &turn.calls);
        calls.filter(|call| self.calls[*call].started.is_some()).cloned().collect()
    }

    pub fn waiting_prompts(&self) -> impl Iterator<Item = &PromptId> {
        self.queue.iter()
    }

    fn accept(&mut self, accepted: Seq, prompt: &PromptId, task: &TaskId) -> Lawful {
        let prompts = self.tasks.entry(task.clone()).or_default();
        prompts.push(prompt.clone());
        let it = Prompt { accepted, task: task.clone(), fate: Fate::Waiting };
        let again = self.prompts.insert(prompt.clone(), it).is_some();
        law!(!again, "L8: {prompt} is accepted twice, again at {accepted}");
        self.queue.push_back(prompt.clone());
        Ok(())
    }

    fn start(&mut self, turn: &TurnId, prompt: &PromptId, task: &TaskId) -> Lawful {
        if let Some(open) = &self.turn {
            return Err(format!("L3: {turn} starts while {} runs", open.id));
        }
        law!(self.turns.insert(turn.clone()), "L3: {turn} starts twice");
        law!(self.queue.front() == Some(prompt), "{prompt} runs before those that waited longer");
        self.queue.pop_front();
        let Some(known) = self.prompts.get_mut(prompt) else {
            return Err(format!("{turn} starts for {prompt}, which nobody sent"));
        };
        law!(known.task == *task, "{turn} is of {task}, its prompt is of {}", known.task);
        known.fate = Fate::Running;
        self.at_work.insert(task.clone());
        self.turn = Some(OpenTurn {
            id: turn.clone(),
            prompt: prompt.clone(),
            task: task.clone(),
            calls: Vec::new(),
        });
        Ok(())
    }

    fn end_turn(&mut self, turn: &TurnId, outcome: &TurnOutcome) -> Lawful {
        let Some(open) = self.turn.take() else {
            return Err(format!("L3: {turn} ends and does not run"));
        };
        law!(open.id == *turn, "L3: {turn} ends while {} runs", open.id);
        law!(open.calls.is_empty(), "L4: {turn} ends before its calls {:?}", open.calls);
        self.settle(&open.prompt, TaskState::of_outcome(outcome));
        Ok(())
    }

    fn propose(&mut self, turn: &TurnId, call: &CallId, it: Call) -> Lawful {
        let open = self.turn.as_mut().filter(|open| open.id == *turn);
        let Some(open) = open else {
            return Err(format!("L4: {call} is proposed in {turn}, which does not run"));
        };
        open.calls.push(call.clone());
        let again = self.calls.insert(call.clone(), it).is_some();
        law!(!again, "L4: {call} is proposed twice");
        Ok(())
    }

    fn ask(&mut self, approval: &ApprovalId, call: &CallId, choices: Vec<ChoiceId>) -> Lawful {
        let Some(known) = self.open_call(call) else {
            return Err(format!("{approval} asks about {call}, which is not open"));
        };
        law!(known.started.is_none(), "{approval} asks about {call}, which runs already");
        law!(known.approval.is_none(), "{call} is asked about twice");
        known.approval = Some(approval.clone());
        let it = Approval { call: call.clone(), choices, answer: None };
        let again = self.approvals.insert(approval.clone(), it).is_some();
        law!(!again, "{approval} is asked twice");
        Ok(())
    }

    fn answer(
        &mut self,
        approval: &ApprovalId,
        call: &CallId,
        answer: Answer,
        details: Option<&Details>,
    ) -> Lawful {
        let Some(asked) = self.approvals.get_mut(approval) else {
            return Err(format!("{approval} is answered and was never asked"));
        };
        law!(asked.answer.is_none(), "L2: {approval} is answered twice");
        law!(asked.call == *call, "{approval} is about {}, not {call}", asked.call);
        law!(asked.choices.contains(&answer.choice), "{} was not offered", answer.choice);
        asked.answer = Some(answer);
        let Some(known) = self.open_call(call) else {
            return Err(format!("L2: {approval} is answered after {call} ended"));
        };
        if let Some(details) = details {
            known.details = details.clone();
        }
        Ok(())
    }

    fn start_call(&mut self, seq: Seq, call: &CallId, authority: &Authority) -> Lawful {
        let Some(known) = self.open_call(call) else {
            return Err(format!("L4: {call} starts and is not open"));
        };
        law!(known.started.is_none(), "P3: {call} starts twice");
        known.started = Some(seq);
        let asked = known.approval.clone();
        match (authority, asked) {
            (Authority::Rule { rule, .. }, None) => {
                law!(!rule.is_empty(), "L4: {call} starts by a rule without a name");
            }
            (Authority::Rule { rule, .. }, Some(asked)) => {
                return Err(format!("L4: {call} starts by `{rule}` although {asked} was asked"));
            }
            (Authority::Typed { prompt }, asked) => {
                law!(asked.is_none(), "L4: {call} is typed, and was asked about");
                self.start_typed(call, prompt)?;
            }
            (Authority::Approval { approval }, asked) => {
                law!(asked.as_ref() == Some(approval), "L4: {call} starts by {approval}");
                let answer = self.approvals[approval].answer.as_ref();
                let proceeds = answer.is_some_and(|answer| answer.choice.proceeds());
                law!(proceeds, "L4: {call} starts by {approval}, which did not allow it");
            }
        }
        Ok(())
    }

    /// P4: a typed line starts exactly that line, in the workspace, once.
    fn start_typed(&mut self, call: &CallId, prompt: &PromptId) -> Lawful {
        let running = self.turn.as_ref().map(|turn| &turn.prompt);
        law!(running == Some(prompt), "P4: {call} starts by {prompt}, which does not run");
        let Some(typed) = self.lines.remove(prompt) else {
            return Err(format!("P4: {call} starts by {prompt}, which is no line, or ran before"));
        };
        let known = &self.calls[call];
        let Details::Execute { command, directory } = &known.details else {
            return Err(format!("P4: {call} is typed and runs nothing"));
        };
        law!(typed == format!("!{command}"), "P4: `{typed}` was typed, {call} runs `{command}`");
        law!(*directory == self.workspace, "P4: {call} runs in {directory}");
        law!(known.tool == SHELL_TOOL, "P4: {call} is of {}", known.tool);
        law!(known.access == Access::Execute, "P4: {call} is {:?}", known.access);
        Ok(())
    }

    fn end_call(&mut self, call: &CallId, outcome: &CallOutcome) -> Lawful {
        let Some(known) = self.open_call(call) else {
            return Err(format!("L4: {call} ends and is not open"));
        };
        let ran = known.started.is_some();
        let succeeded = matches!(outcome, CallOutcome::Succeeded { .. });
        law!(ran || !succeeded, "L4: {call} succeeds and never ran");
        known.ended = Some(outcome.clone());
        if let Some(turn) = &mut self.turn {
            turn.calls.retain(|open| open != call);
        }
        Ok(())
    }

    /// A call of the running turn that has not ended.
    fn open_call(&mut self, call: &CallId) -> Option<&mut Call> {
        let turn = self.turn.as_ref()?;
        let open = turn.calls.contains(call);
        self.calls.get_mut(call).filter(|known| open && known.ended.is_none())
    }

    fn settle(&mut self, prompt: &PromptId, state: TaskState) {
        self.settled += 1;
        let Some(known) = self.prompts.get_mut(prompt) else { return };
        known.fate = Fate::Over(state, self.settled);
        let task = known.task.clone();
        let open = |prompt: &PromptId| !matches!(self.prompts[prompt].fate, Fate::Over(..));
        if !self.tasks[&task].iter().any(open) {
            self.at_work.remove(&task);
        }
    }
}
