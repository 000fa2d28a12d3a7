//! A session as a script: each call is one step, a fixed time after the last.

use loggia_core::{
    Access, AgentName, Artifact, CallFailure, CallOutcome, ChoiceId, Command, Content, Details,
    Edit, Envelope, Event, FileDiff, FreshIds, Level, Limits, Millis, Mode, ModelName, Origin,
    Output, Part, PlanStep, Proposal, Question, Refusal, Report, Rule, RuleId, SHELL_TOOL, Session,
    SessionName, Settings, Source, Stamped, Surface, TaskChoice, TaskId, TurnOutcome, Usage,
    Workspace,
};
use loggia_shell::Parser;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Monday, 2026-01-05, 09:00 UTC.
const MORNING: i64 = 1_767_603_600_000;

pub struct Script {
    pub session: Session,
    log: Vec<Envelope>,
    now: i64,
    seeds: u64,
}

pub fn tui() -> Origin {
    Origin::new(Surface::Tui, "terminal-1")
}

pub fn ide() -> Origin {
    Origin { principal: Some("ada".into()), ..Origin::new(Surface::A2a, "ide-1") }
}

pub fn editor() -> Origin {
    Origin::new(Surface::Acp, "editor-1")
}

pub fn browser() -> Origin {
    Origin { principal: Some("grace".into()), ..Origin::new(Surface::Web, "browser-1") }
}

pub fn reporter() -> Origin {
    Origin { principal: Some("client:reports".into()), ..Origin::new(Surface::Legacy, "reports-1") }
}

pub fn shell(command: &str) -> Proposal {
    Proposal {
        message: "".into(),
        tool: "shell".into(),
        title: format!("Run `{command}`"),
        access: Access::Execute,
        input: json!({ "command": command }),
        details: Details::Execute {
            command: command.to_owned(),
            directory: "/work/project".into(),
        },
        needs_person: false,
    }
}

/// The proposal for a typed shell line.
pub fn typed(line: &str) -> Proposal {
    Proposal { tool: SHELL_TOOL.into(), ..shell(line) }
}

pub fn edit_of(path: &str, old: &str, new: &str) -> Proposal {
    let absolute = format!("/work/project/{path}");
    let digest = Sha256::digest(old.as_bytes());
    let diff = FileDiff {
        old_digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        ..FileDiff::between(path, &absolute, Some(old), new)
    };
    Proposal {
        message: "".into(),
        tool: "edit".into(),
        title: format!("Edit {path}"),
        access: Access::Edit,
        input: json!({ "new": new, "old": old, "path": path }),
        details: Details::Edit(diff),
        needs_person: false,
    }
}

pub fn to_line(envelope: &Envelope) -> String {
    serde_json::to_string(envelope).unwrap() + "\n"
}

impl Script {
    pub fn open(mode: Mode, rules: Vec<Rule>) -> Self {
        Self::open_with(tui(), settings(mode, rules))
    }

    pub fn open_with(origin: Origin, settings: Settings) -> Self {
        Self::open_in(origin, Workspace::Local { path: "/work/project".into() }, settings)
    }

    pub fn open_in(origin: Origin, workspace: Workspace, settings: Settings) -> Self {
        let session = Session::default();
        let mut script = Self { session, log: Vec::new(), now: MORNING, seeds: 0 };
        let open = Command::Open { workspace, settings, agent: AgentName("native".into()) };
        script.submit(origin, open);
        script
    }

    pub fn to_jsonl(&self) -> String {
        self.log.iter().map(to_line).collect()
    }

    /// The task of the running turn, or of the last one.
    pub fn task(&self) -> &TaskId {
        let started = self.log.iter().rev().find_map(|envelope| match &envelope.event {
            Event::TurnStarted { task, .. } => Some(task),
            _ => None,
        });
        started.unwrap()
    }

    pub fn submit(&mut self, origin: Origin, command: Command) {
        let stamped = self.stamp(origin, command);
        let events = self.session.decide(&stamped, &Parser);
        let events = events.unwrap_or_else(|refusal| panic!("{:?}: {refusal}", stamped.command));
        self.append(stamped.at, &stamped.origin, events);
    }

    pub fn prompt(&mut self, origin: Origin, prompt: &str, task: TaskChoice, text: &str) {
        let content = Content::text(text);
        self.submit(origin, Command::Prompt { prompt: prompt.into(), task, content });
    }

    pub fn answer(&mut self, origin: Origin, call: &str, choice: &str, edit: Option<Edit>) {
        self.submit(origin, answer(call, choice, edit));
    }

    pub fn refused(&mut self, origin: Origin, call: &str, choice: &str) -> Refusal {
        self.refused_command(origin, answer(call, choice, None))
    }

    pub fn refused_command(&mut self, origin: Origin, command: Command) -> Refusal {
        let stamped = self.stamp(origin, command);
        self.session.decide(&stamped, &Parser).unwrap_err()
    }

    pub fn configure(&mut self, origin: Origin, mode: Mode) {
        let settings = settings(mode, Vec::new());
        self.submit(origin, Command::Configure { settings });
    }

    /// Ten minutes pass, and the question about a call times out.
    pub fn expire(&mut self, call: &str) {
        self.now += 600_000;
        let open = self.session.open_call(&call.into()).unwrap();
        let approval = open.approval.as_ref().unwrap().id.clone();
        self.submit(Origin::timeout(), Command::Expire { approval });
    }

    /// The process crashes, and another one opens the log eleven seconds later.
    pub fn crash(&mut self) {
        self.now += 11_000;
        self.seeds += 1;
        let at = Millis(self.now);
        let events = self.session.recover(&FreshIds::new(self.seeds, at));
        self.append(at, &Origin::system(), events);
    }

    pub fn say(&mut self, message: &str, pieces: &[&str]) {
        for piece in pieces {
            self.report(Report::Text { message: message.into(), text: (*piece).to_owned() });
        }
    }

    pub fn think(&mut self, message: &str, subject: &str, text: &str) {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        self.report(Report::Thought { message: message.into(), subject, text });
    }

    pub fn plan(&mut self, steps: Vec<PlanStep>) {
        self.report(Report::Plan { steps });
    }

    pub fn cite(&mut self, sources: Vec<Source>) {
        self.report(Report::Cite { sources });
    }

    pub fn usage(&mut self, input_tokens: u64, output_tokens: u64) {
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        self.report(Report::Usage { model: ModelName("scripted".into()), usage, window: None });
    }

    pub fn notice(&mut self, level: Level, text: &str) {
        self.report(Report::Notice { level, text: text.to_owned(), wait: None });
    }

    pub fn publish(&mut self, name: &str, part: Part) {
        let (id, name) = (name.to_owned(), name.to_owned());
        let artifact = Artifact { id, name, parts: vec![part], append: false, last: true };
        self.report(Report::Publish { artifact });
    }

    pub fn compact(&mut self, summary: &str) {
        self.report(Report::Compact {
            summary: summary.to_owned(),
            reach: loggia_core::CompactReach::Everything,
        });
    }

    /// An automatic compaction as a turn begins.
    pub fn compact_earlier(&mut self, summary: &str) {
        self.report(Report::Compact {
            summary: summary.to_owned(),
            reach: loggia_core::CompactReach::EarlierTurns,
        });
        let text = format!(
            "Compacted by itself. A summary of {} bytes stands for 1 turn (9134 bytes) from now on.",
            summary.len()
        );
        self.report(Report::Notice { level: Level::Info, text, wait: None });
    }

    pub fn expand(&mut self, command: &str, source: &str, text: &str) {
        let (command, source, text) = (command.to_owned(), source.to_owned(), text.to_owned());
        self.report(Report::Expand { command, source, text });
    }

    pub fn name(&mut self, name: SessionName) {
        self.report(Report::Name { name });
    }

    pub fn revoke(&mut self, rule: RuleId) {
        self.report(Report::Revoke { rule });
    }

    pub fn propose(&mut self, message: &str, call: &str, proposal: Proposal) {
        let proposal = Proposal { message: message.into(), ..proposal };
        self.report(Report::Propose { call: call.into(), proposal });
    }

    pub fn invalid(&mut self, message: &str, call: &str, tool: &str, why: &str) {
        self.report(Report::Invalid {
            call: call.into(),
            message: message.into(),
            tool: tool.to_owned(),
            input: json!({}),
            outcome: CallOutcome::Failed { failure: CallFailure::new("unknown_tool", why) },
        });
    }

    pub fn output(&mut self, call: &str, text: &str, skipped: u64) {
        self.report(Report::Output { call: call.into(), text: text.to_owned(), skipped });
    }

    pub fn succeed(&mut self, call: &str, output: Output) {
        self.end(call, CallOutcome::Succeeded { output });
    }

    pub fn end(&mut self, call: &str, outcome: CallOutcome) {
        self.report(Report::End { call: call.into(), outcome });
    }

    pub fn finish(&mut self) {
        self.finish_with(TurnOutcome::Completed);
    }

    pub fn finish_with(&mut self, outcome: TurnOutcome) {
        self.report(Report::Finish { outcome });
    }

    fn report(&mut self, report: Report) {
        let turn = self.session.turn().unwrap().id.clone();
        self.submit(Origin::agent(), Command::Report { turn, report });
    }

    fn stamp(&mut self, origin: Origin, command: Command) -> Stamped<Command> {
        self.seeds += 1;
        // People take longer than programs.
        self.now += if origin.surface == Surface::Agent { 120 } else { 1_800 };
        let at = Millis(self.now);
        Stamped { command, at, origin, fresh: FreshIds::new(self.seeds, at) }
    }

    fn append(&mut self, at: Millis, origin: &Origin, events: Vec<Event>) {
        for event in events {
            let seq = self.session.head().next();
            let envelope = Envelope { seq, at, origin: origin.clone(), event };
            self.session.apply(&envelope);
            self.log.push(envelope);
        }
    }
}

fn answer(call: &str, choice: &str, edit: Option<Edit>) -> Command {
    let choice: ChoiceId = choice.into();
    Command::Answer { to: Question::Call(call.into()), choice, edit, digest: None, message: None }
}

pub fn settings(mode: Mode, rules: Vec<Rule>) -> Settings {
    Settings {
        model: ModelName("scripted".into()),
        effort: None,
        mode,
        rules,
        tools: None,
        unattended: false,
        timeout: None,
        limits: Limits::default(),
    }
}
