//! Logs made by the real core, one command at a time, with a clock that only the test moves.

use loggia_core::{
    Access, AgentName, ApprovalId, CallFailure, CallId, CallOutcome, Cancel, ChoiceId, Command,
    Content, Details, Edit, Envelope, Event, FileDiff, FreshIds, Millis, Mode, Origin, Output,
    Proposal, Question, Refusal, Report, Session, Settings, Stamped, Surface, TaskChoice, TaskId,
    TurnOutcome, Workspace,
};
use serde_json::{Value, json};

pub struct Script {
    pub session: Session,
    pub log: Vec<Envelope>,
    at: i64,
    commands: u64,
    calls: u32,
    prompts: u32,
    message: u32,
}

/// 2026-01-01, midnight.
const BEGIN: i64 = 1_767_225_600_000;

pub fn client(name: &str) -> Origin {
    Origin::new(Surface::A2a, name)
}

impl Script {
    pub fn new() -> Self {
        Self::with_mode(Mode::Ask)
    }

    pub fn with_mode(mode: Mode) -> Self {
        let mut script = Self {
            session: Session::default(),
            log: Vec::new(),
            at: BEGIN,
            commands: 0,
            calls: 0,
            prompts: 0,
            message: 1,
        };
        let settings: Settings =
            serde_json::from_value(json!({ "model": "offline", "mode": mode })).unwrap();
        let workspace = Workspace::Local { path: "/work/demo".into() };
        let agent = AgentName("native".into());
        script
            .submit(Origin::system(), Command::Open { workspace, settings, agent })
            .expect("a new session opens");
        script
    }

    /// Moves the clock; every command also moves it by one second.
    pub fn wait(&mut self, millis: i64) -> &mut Self {
        self.at += millis;
        self
    }

    pub fn submit(&mut self, origin: Origin, command: Command) -> Result<Vec<Event>, Refusal> {
        self.commands += 1;
        let at = Millis(self.at);
        let fresh = FreshIds::new(self.commands, at);
        let stamped = Stamped { command, at, origin: origin.clone(), fresh };
        let events = self.session.decide(&stamped, &loggia_shell::Parser)?;
        for event in &events {
            let envelope = Envelope {
                seq: self.session.head().next(),
                at,
                origin: origin.clone(),
                event: event.clone(),
            };
            self.session.apply(&envelope);
            self.log.push(envelope);
        }
        Ok(events)
    }

    pub fn prompt_to(&mut self, task: TaskChoice, text: &str) -> Result<TaskId, Refusal> {
        self.wait(1000);
        self.prompts += 1;
        let prompt = format!("prompt-{}", self.prompts);
        let message = Some(format!("message-{}", self.prompts));
        let content = Content { message, ..Content::text(text) };
        self.submit(
            client("ann"),
            Command::Prompt { prompt: prompt.as_str().into(), task, content },
        )?;
        Ok(self.session.task_of(&prompt.as_str().into()).expect("accepted").clone())
    }

    pub fn prompt(&mut self, text: &str) -> TaskId {
        self.prompt_to(TaskChoice::New, text).expect("a new task is never refused")
    }

    /// A whole reply of the model.
    pub fn prompt_as(&mut self, principal: &str, task: TaskChoice, content: Content) {
        self.wait(1000);
        let origin =
            Origin { principal: Some(principal.into()), ..Origin::new(Surface::Legacy, "service") };
        let prompt = "prompt-1".into();
        self.submit(origin, Command::Prompt { prompt, task, content }).expect("accepted");
    }

    pub fn report(&mut self, report: Report) -> Result<Vec<Event>, Refusal> {
        let turn = self.session.turn().ok_or(Refusal::StaleTurn)?.id.clone();
        self.submit(Origin::agent(), Command::Report { turn, report })
    }

    fn message(&self) -> loggia_core::MessageId {
        format!("reply-{}", self.message).as_str().into()
    }

    /// The model's next reply begins.
    pub fn next_reply(&mut self) -> &mut Self {
        self.message += 1;
        self
    }

    pub fn say(&mut self, text: &str) -> &mut Self {
        self.wait(50);
        let _ = self.report(Report::Text { message: self.message(), text: text.into() });
        self
    }

    pub fn think(&mut self, subject: &str, text: &str) -> &mut Self {
        self.wait(50);
        let (message, subject, text) = (self.message(), subject.into(), text.into());
        let _ = self.report(Report::Thought { message, subject, text });
        self
    }

    pub fn propose(
        &mut self,
        tool: &str,
        access: Access,
        input: Value,
        details: Details,
    ) -> CallId {
        self.wait(50);
        self.calls += 1;
        let call = CallId::from(format!("call-{}", self.calls).as_str());
        let title = match &details {
            Details::Execute { command, .. } => format!("run {command}"),
            Details::Edit(diff) => format!("write {}", diff.path),
            Details::Mcp { server, tool } => format!("{server}: {tool}"),
            Details::Question { text, .. } => format!("ask: {text}"),
            Details::Generic { text } => text.clone(),
        };
        let proposal = Proposal {
            message: self.message(),
            tool: tool.into(),
            title,
            access,
            input,
            details,
            needs_person: false,
        };
        let _ = self.report(Report::Propose { call: call.clone(), proposal });
        call
    }

    pub fn write(&mut self, path: &str, new: &str) -> CallId {
        let details = Details::Edit(diff(path, None, new));
        let input = json!({ "path": path, "content": new });
        self.propose("write_file", Access::Edit, input, details)
    }

    pub fn shell(&mut self, command: &str) -> CallId {
        let details = Details::Execute { command: command.into(), directory: "/work/demo".into() };
        self.propose("shell", Access::Execute, json!({ "command": command }), details)
    }

    pub fn read(&mut self, path: &str) -> CallId {
        let details = Details::Generic { text: format!("read {path}") };
        self.propose("read_file", Access::Read, json!({ "path": path, "limit": 20 }), details)
    }

    pub fn ask(&mut self, question: &str, options: &[&str]) -> CallId {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let details = Details::Question { text: question.into(), options };
        self.propose("ask_user", Access::Ask, json!({ "question": question }), details)
    }

    pub fn answer(
        &mut self,
        by: &str,
        call: &CallId,
        choice: &str,
        edit: Option<Edit>,
    ) -> Result<Vec<Event>, Refusal> {
        self.wait(2000);
        let to = Question::Call(call.clone());
        let choice = ChoiceId::from(choice);
        self.submit(client(by), Command::Answer { to, choice, edit, digest: None, message: None })
    }

    pub fn output(&mut self, call: &CallId, text: &str) -> &mut Self {
        let (call, text) = (call.clone(), text.into());
        let _ = self.report(Report::Output { call, text, skipped: 0 });
        self
    }

    pub fn end(&mut self, call: &CallId, outcome: CallOutcome) -> &mut Self {
        self.wait(200);
        let _ = self.report(Report::End { call: call.clone(), outcome });
        self
    }

    pub fn succeed(&mut self, call: &CallId, output: Output) -> &mut Self {
        self.end(call, CallOutcome::Succeeded { output })
    }

    pub fn fail(&mut self, call: &CallId, kind: &str, message: &str, code: i32) -> &mut Self {
        let failure = CallFailure { code: Some(code), ..CallFailure::new(kind, message) };
        self.end(call, CallOutcome::Failed { failure })
    }

    pub fn finish(&mut self) -> &mut Self {
        self.finish_as(TurnOutcome::Completed)
    }

    pub fn finish_as(&mut self, outcome: TurnOutcome) -> &mut Self {
        self.wait(50);
        let _ = self.report(Report::Finish { outcome });
        self
    }

    pub fn cancel(&mut self, what: Cancel) -> Result<Vec<Event>, Refusal> {
        self.wait(500);
        self.submit(client("bob"), Command::Cancel { what })
    }

    pub fn open_approval(&self) -> ApprovalId {
        self.session.open_approvals().next().expect("a question is open").1.id.clone()
    }
}

pub fn diff(path: &str, old: Option<&str>, new: &str) -> FileDiff {
    FileDiff::between(path, &format!("/work/demo/{path}"), old, new)
}

/// The output of a tool that wrote a file.
pub fn written(path: &str, new: &str) -> Output {
    Output { diff: Some(diff(path, None, new)), ..Output::text(format!("wrote {path}")) }
}
