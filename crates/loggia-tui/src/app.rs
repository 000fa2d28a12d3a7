//! The state machine of the terminal interface: a [`Model`], messages, and [`update`], which
//! applies a message and returns effects. It uses no terminal, clock or session.

mod keys;
mod sending;

use std::sync::Arc;

use crossterm::event::{KeyEvent, KeyEventKind, MouseEvent, MouseEventKind};
use loggia_core::{
    ApprovalId, Cancel, CellBody, ChoiceId, CustomCommands, Edit, Envelope, Event, Millis,
    OnTimeout, Origin, Prices, PromptId, Seq, SessionId, Settings, Transcript, TurnOutcome,
};
use loggia_session::SubmitError;

use crate::composer::Composer;
use crate::composer::history::History;
use crate::dialog::{Dialog, Reaction};
use crate::facts::Facts;
use crate::full::FullTranscript;
use crate::highlight::Highlighter;
use crate::host::{ConnectedClient, Preview, ShareFacts};
use crate::key_timing::{ComposerState, DismissedDialog};
use crate::overlay::Overlay;
use crate::own_origins::OwnOrigins;
use crate::pager::Scene;
use crate::questions::{Questions, ResolvedQuestion};
use crate::scrollback::Scrollback;
use crate::theme::{Background, Theme};
use crate::uptime::Uptime;

/// How long a remark is shown, in milliseconds.
const REMARK: u64 = 6_000;
/// A second Ctrl-C within this time quits.
const LEAVING: u64 = 2_000;
/// The start of the session's error for an unknown command.
const NO_COMMAND: &str = "there is no command `/";
/// Milliseconds between two frames of a spinner.
const SPIN: u64 = 120;

/// Initial state.
#[derive(Debug, Clone)]
pub struct Start {
    pub me: Origin,
    /// The head of the log when the interface opens. Events up to here are history.
    pub head: Seq,
    /// Wall-clock time at screen time zero.
    pub opened: Millis,
    pub history: Vec<String>,
    pub fullscreen: bool,
    /// Use Vim keys in the composer.
    pub vim: bool,
    pub size: (u16, u16),
    /// The terminal wraps long rows when it gets narrower. Most do.
    pub reflows: bool,
    pub theme: Theme,
    /// Token prices, if configured.
    pub prices: Prices,
    /// Query the terminal for its background: it is not configured, and the terminal does not print
    /// unknown queries.
    pub asks_background: bool,
}

pub struct Model {
    pub own_origins: OwnOrigins,
    pub theme: Theme,
    pub prices: Prices,
    pub transcript: Transcript,
    pub facts: Facts,
    pub questions: Questions,
    pub scrollback: Scrollback,
    pub composer: Composer,
    pub dialog: Option<Dialog>,
    /// The dialog that another client closed just now.
    closed: Option<DismissedDialog>,
    pub overlay: Option<Overlay>,
    pub full: Option<FullTranscript>,
    pub remark: Option<(String, Uptime)>,
    pub present: Vec<ConnectedClient>,
    /// The connection problem; empty while connected.
    pub connection_problem: String,
    pub size: (u16, u16),
    head: Seq,
    opened: Millis,
    focused: bool,
    leaving: Option<Uptime>,
    /// Answers submitted here that are not yet in the log.
    answering: Vec<ApprovalId>,
    /// Prompts returned to the composer, by the id under which they were submitted.
    returned: Vec<(PromptId, String)>,
}

#[derive(Debug, Clone)]
pub enum Msg {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resize(u16, u16),
    Focus(bool),
    Event(Arc<Envelope>),
    /// Time has passed.
    Tick,
    /// A frame was drawn.
    Drawn(FrameInfo),
    Files {
        query: String,
        found: Vec<String>,
    },
    Commands(CustomCommands),
    Sessions(Result<Vec<Preview>, String>),
    Share(ShareFacts),
    Shared(Result<ShareFacts, String>),
    Present(Vec<ConnectedClient>),
    ConnectionProblem(String),
    /// This client's identity has changed.
    OwnOrigin(Origin),
    /// Result of opening another session.
    SessionOpened {
        session: SessionId,
        result: Result<(), String>,
    },
    /// The terminal reported its background.
    Background(Background),
    Edited {
        what: Edited,
        result: Result<Option<String>, String>,
    },
    Submitted {
        what: Submitted,
        result: Result<(), SubmitError>,
    },
}

/// The parts of a drawn frame that keys and clicks depend on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrameInfo {
    /// The drawn question, and whether the end of its text was visible.
    pub question: Option<(ApprovalId, bool)>,
    /// Screen rows of the dialog's answers.
    pub answers: Vec<(u16, usize)>,
}

/// A submitted command.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    Prompt { prompt: PromptId, text: String },
    Answer(ApprovalId),
    Other,
}

/// The text opened in the external editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    Composer,
    Proposal(ApprovalId),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Prompt(String),
    /// A shell command typed by the person.
    Shell(String),
    Answer {
        approval: ApprovalId,
        choice: ChoiceId,
        edit: Option<Edit>,
        digest: String,
    },
    Cancel(Cancel),
    Configure(Settings),
    Remember(String),
    FindFiles(String),
    LoadCommands,
    LoadSessions,
    /// Opens another session. This one is left only if that succeeds.
    OpenSession(SessionId),
    LoadShare,
    /// Share on a port; None stops sharing.
    ShareOn(Option<u16>),
    /// Create a one-time code with these scopes.
    Invite(String),
    EditOutside {
        what: Edited,
        name: String,
        text: String,
    },
    Copy(String),
    Bell,
    Suspend,
    Redraw,
    Leave(Exit),
}

/// Why the interface closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Asked,
    /// The person switched to another session.
    Resume(SessionId),
    Terminated,
    /// The terminal is gone.
    HungUp,
    /// The session stopped; its log is kept.
    Stopped(String),
}

impl Model {
    pub fn new(start: Start) -> Self {
        let mut composer = Composer { history: History::new(start.history), ..Composer::default() };
        if start.vim {
            composer.toggle_vim();
        }
        Self {
            own_origins: OwnOrigins::new(start.me),
            theme: start.theme,
            prices: start.prices,
            transcript: Transcript::default(),
            facts: Facts::default(),
            questions: Questions::default(),
            scrollback: Scrollback::default(),
            composer,
            dialog: None,
            closed: None,
            overlay: None,
            full: start.fullscreen.then(FullTranscript::beside_composer),
            remark: None,
            present: Vec::new(),
            connection_problem: String::new(),
            size: start.size,
            head: start.head,
            opened: start.opened,
            focused: true,
            leaving: None,
            answering: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// The running time of the turn in milliseconds.
    pub fn elapsed(&self, now: Uptime) -> Option<u64> {
        let started = self.facts.turn?;
        u64::try_from(self.wall_clock(now).0.saturating_sub(started.0)).ok().or(Some(0))
    }

    /// The timeout action for the oldest question, and the milliseconds left.
    pub fn left(&self, now: Uptime) -> Option<(OnTimeout, u64)> {
        let timeout = self.facts.settings.as_ref()?.timeout?;
        let timeout_ms = i64::try_from(timeout.duration()?.as_millis()).ok()?;
        let due = self.questions.first()?.asked.0.saturating_add(timeout_ms);
        let left = due.saturating_sub(self.wall_clock(now).0).clamp(0, timeout_ms);
        Some((timeout.then, u64::try_from(left).unwrap_or(0)))
    }

    /// Wall-clock time.
    pub fn wall_clock(&self, now: Uptime) -> Millis {
        Millis(self.opened.0.saturating_add(i64::try_from(now.0).unwrap_or(i64::MAX)))
    }

    /// The frame number of spinners.
    pub fn frame(&self, now: Uptime) -> usize {
        usize::try_from(now.0 / SPIN).unwrap_or(0)
    }

    /// The input of the cell renderer.
    pub fn scene(&self, now: Uptime) -> Scene<'_> {
        Scene {
            cells: self.transcript.cells(),
            theme: &self.theme,
            highlighter: Highlighter::when_ready(),
            now: self.wall_clock(now),
            frame: self.frame(now),
            own: Some(&self.own_origins),
        }
    }

    /// True until the log is read up to its head at the start.
    pub fn replaying(&self) -> bool {
        self.facts.head < self.head
    }

    pub fn leaving(&self, now: Uptime) -> bool {
        self.leaving.is_some_and(|since| now.since(since) < LEAVING)
    }

    /// Whether to capture the mouse. Otherwise the terminal uses it for selection.
    pub fn wants_mouse(&self) -> bool {
        self.dialog.is_some() || self.full.is_some()
    }

    /// The next time at which the screen changes without input; None if it does not.
    pub fn next_move(&self, now: Uptime) -> Option<Uptime> {
        // The spinner.
        let turning = (self.facts.running() && self.dialog.is_none()).then(|| now.plus(SPIN));
        // The clock in the status line.
        let waiting = self.facts.running().then(|| now.plus(1000));
        let asked = self.dialog.as_ref().and_then(|dialog| dialog.next_move(now));
        let remark = self.remark.as_ref().map(|(_, until)| *until);
        let leaving = self.leaving.map(|since| since.plus(LEAVING));
        [turning, waiting, asked, remark, leaving].into_iter().flatten().min()
    }

    /// Runs `work` on the full transcript.
    pub fn with_full<T>(
        &mut self,
        now: Uptime,
        work: impl FnOnce(&mut FullTranscript, &Scene<'_>) -> T,
    ) -> Option<T> {
        let mut full = self.full.take()?;
        let result = work(&mut full, &self.scene(now));
        self.full = Some(full);
        Some(result)
    }

    /// Tells the dialog what the composer contains, before it handles keys or is drawn.
    pub fn tell_dialog(&mut self) {
        let line = self.line();
        self.dialog.iter_mut().for_each(|dialog| dialog.set_composer(line));
    }

    /// The composer's state while a question is open.
    fn line(&self) -> ComposerState {
        if let Some(full) = self.full.as_ref().filter(|full| full.has_keys()) {
            return if full.is_searching() { ComposerState::Open } else { ComposerState::Empty };
        }
        let composer = &self.composer;
        if composer.history.search.is_some() {
            return ComposerState::Open;
        }
        let inserting = composer.vim.as_ref().is_some_and(|vim| !vim.is_normal());
        match composer.editor.is_empty() {
            true => ComposerState::Empty,
            false if composer.popup.is_some() || inserting => ComposerState::Open,
            false => ComposerState::Draft,
        }
    }

    fn remark(&mut self, text: impl Into<String>, now: Uptime) {
        self.remark = Some((text.into(), now.plus(REMARK)));
    }

    /// Whether the current turn is for a prompt of this person.
    fn asked_here(&self) -> bool {
        let cells = self.transcript.cells().iter().rev();
        let mut prompts = cells.filter(|cell| matches!(cell.body, CellBody::Prompt { .. }));
        prompts.next().is_some_and(|cell| self.own_origins.contains(&cell.origin))
    }

    /// The agent's last message.
    fn last_answer(&self) -> Option<&str> {
        self.transcript.cells().iter().rev().find_map(|cell| match &cell.body {
            CellBody::Text { text, discarded: false } => Some(text.trim()),
            _ => None,
        })
    }
}

pub fn update(model: &mut Model, msg: Msg, now: Uptime) -> Vec<Effect> {
    // Expire first, so that a remark disappears even during continuous activity.
    expire(model, now);
    let mut effects = due(model, now);
    effects.extend(react_to(model, msg, now));
    effects
}

/// Handles a pending letter whose waiting time is over.
fn due(model: &mut Model, now: Uptime) -> Vec<Effect> {
    let reaction = model.dialog.as_mut().and_then(|dialog| dialog.due(now));
    reaction.and_then(|reaction| react(model, reaction, now)).unwrap_or_default()
}

fn react_to(model: &mut Model, msg: Msg, now: Uptime) -> Vec<Effect> {
    match msg {
        Msg::Key(event) if event.kind == KeyEventKind::Release => {}
        Msg::Key(event) => return keys::key(model, &event, now),
        Msg::Paste(text) => return keys::paste(model, &text, now),
        Msg::Mouse(event) => return mouse(model, event, now),
        Msg::Resize(width, height) => model.size = (width, height),
        Msg::Focus(focused) => model.focused = focused,
        Msg::Event(envelope) => return event(model, &envelope, now),
        Msg::Tick => {}
        Msg::Drawn(shown) => drawn(model, shown, now),
        Msg::Files { query, found } => model.composer.files_found(&query, found),
        Msg::Commands(custom) => commands(model, custom, now),
        Msg::Sessions(Ok(previews)) => model.overlay = Some(Overlay::resume(previews)),
        Msg::Sessions(Err(why)) | Msg::Shared(Err(why)) => model.remark(why, now),
        Msg::SessionOpened { result: Err(why), .. } => model.remark(why, now),
        Msg::SessionOpened { session, .. } => return vec![Effect::Leave(Exit::Resume(session))],
        Msg::Shared(Ok(facts)) if facts.urls.is_empty() => {
            model.remark("this session is no longer shared", now);
        }
        Msg::Share(facts) | Msg::Shared(Ok(facts)) => model.overlay = Some(Overlay::share(facts)),
        Msg::Present(present) => presence(model, present, now),
        Msg::ConnectionProblem(problem) => sending::connection_problem(model, problem),
        Msg::OwnOrigin(origin) => {
            model.own_origins.set_current(origin);
            model.full.iter_mut().for_each(FullTranscript::invalidate);
        }
        Msg::Background(background) => {
            model.theme = Theme::new(model.theme.depth, background);
            model.full.iter_mut().for_each(FullTranscript::invalidate);
        }
        Msg::Edited { what, result } => edited(model, what, result, now),
        Msg::Submitted { what, result } => sending::submitted(model, what, result, now),
    }
    Vec::new()
}

fn event(model: &mut Model, envelope: &Envelope, now: Uptime) -> Vec<Effect> {
    let replayed = envelope.seq <= model.head;
    model.transcript.apply(envelope);
    model.facts.apply(envelope);
    let settled = model.questions.apply(envelope);
    if envelope.seq == model.head {
        model.scrollback.skip_history(&model.transcript);
    }
    if let Event::PromptAccepted { prompt, .. } = &envelope.event {
        sending::arrived(model, prompt, now);
    }
    let notice = settled.and_then(|settled| settle(model, &settled, replayed, now));
    if model.replaying() {
        return Vec::new();
    }
    // The dialog always shows the oldest open question.
    let first = model.questions.first();
    let shown = model.dialog.as_ref().map(|dialog| &dialog.question.approval);
    if first.map(|question| &question.approval) != shown {
        let next = first.cloned().map(Dialog::new);
        let before = std::mem::replace(&mut model.dialog, next);
        if let (Some(dialog), Some(notice)) = (before, notice)
            && let Some(closed) = DismissedDialog::new(dialog, notice, now)
        {
            model.closed = Some(closed);
        }
    }
    if let Event::TurnEnded { outcome: TurnOutcome::Failed { message, .. }, .. } = &envelope.event
        && message.starts_with(NO_COMMAND)
        && !replayed
        && model.asked_here()
    {
        // The session lists only its own commands.
        model.remark(format!("this terminal also has {}", crate::command::of_this_screen()), now);
    }
    let asked = matches!(envelope.event, Event::ApprovalAsked { .. });
    let over = matches!(envelope.event, Event::TurnEnded { .. });
    let calls = (asked || over) && !model.focused && !replayed;
    if calls { vec![Effect::Bell] } else { Vec::new() }
}

/// Reports who answered. Returns the notice if another client closed the question.
fn settle(
    model: &mut Model,
    settled: &ResolvedQuestion,
    replayed: bool,
    now: Uptime,
) -> Option<String> {
    let ours = model.answering.iter().position(|known| *known == settled.approval);
    if let Some(index) = ours {
        model.answering.remove(index);
    }
    if replayed || model.own_origins.contains(&settled.by) {
        return None;
    }
    let done = match &settled.answer {
        Some(choice) if choice.proceeds() => "approved",
        Some(_) => "refused",
        None => "withdrawn",
    };
    let (title, by) = (crate::safe::one_line(&settled.title), settled.by.to_string());
    let notice = format!("{done} by {}: {title}", crate::safe::one_line(&by));
    model.remark(notice.clone(), now);
    Some(notice)
}

fn expire(model: &mut Model, now: Uptime) {
    if model.remark.as_ref().is_some_and(|(_, until)| *until <= now) {
        model.remark = None;
    }
    if !model.leaving(now) {
        model.leaving = None;
    }
}

fn drawn(model: &mut Model, shown: FrameInfo, now: Uptime) {
    if let Some(closed) = &mut model.closed {
        closed.was_drawn_over(now);
    }
    let Some(dialog) = &mut model.dialog else { return };
    // The rows of an earlier frame are invalid now: an overlay may cover the question.
    dialog.answer_rows.clear();
    if let Some((approval, end)) = shown.question
        && dialog.question.approval == approval
    {
        dialog.was_drawn(now, end);
        dialog.answer_rows = shown.answers;
    }
}

/// Reports each invalid command file once.
fn commands(model: &mut Model, custom: CustomCommands, now: Uptime) {
    let known = &model.composer.custom.notes;
    if let Some(note) = custom.notes.iter().find(|note| !known.contains(note)) {
        let note = crate::safe::one_line(note);
        model.remark(format!("not used: {note}"), now);
    }
    if let Some(overlay) = &mut model.overlay {
        overlay.commands_found(&custom);
    }
    model.composer.commands_found(custom);
}

fn presence(model: &mut Model, present: Vec<ConnectedClient>, now: Uptime) {
    let named = |clients: &[ConnectedClient]| {
        let names = clients.iter().map(|one| crate::safe::one_line(&one.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let missing = |from: &[ConnectedClient], to: &[ConnectedClient]| -> Vec<ConnectedClient> {
        from.iter().filter(|one| !to.contains(one)).cloned().collect()
    };
    let (came, left) = (missing(&present, &model.present), missing(&model.present, &present));
    match (came.is_empty(), left.is_empty()) {
        (false, _) => model.remark(format!("{} joined", named(&came)), now),
        (true, false) => model.remark(format!("{} left", named(&left)), now),
        (true, true) => {}
    }
    model.present = present;
}

fn edited(model: &mut Model, what: Edited, result: Result<Option<String>, String>, now: Uptime) {
    match (what, result) {
        (_, Err(error)) => model.remark(error, now),
        (_, Ok(None)) => model.remark("nothing was changed", now),
        (Edited::Composer, Ok(Some(text))) => model.composer.editor.replace(text.trim_end()),
        (Edited::Proposal(approval), Ok(Some(text))) => match &mut model.dialog {
            Some(dialog) if dialog.question.approval == approval => dialog.edited_outside(&text),
            _ => model.remark("the question was already answered", now),
        },
    }
}

fn mouse(model: &mut Model, event: MouseEvent, now: Uptime) -> Vec<Effect> {
    let rows = match event.kind {
        MouseEventKind::ScrollUp => -3,
        MouseEventKind::ScrollDown => 3,
        MouseEventKind::Down(crossterm::event::MouseButton::Left) => {
            return click(model, event.row, now);
        }
        _ => return Vec::new(),
    };
    match (&mut model.overlay, &mut model.dialog) {
        (Some(overlay), _) => overlay.scroll_by(rows),
        (None, Some(dialog)) => drop(dialog.scroll_by(rows)),
        (None, None) => {
            model.with_full(now, |full, scene| full.scroll_by(rows, scene)).unwrap_or_default();
        }
    }
    Vec::new()
}

fn click(model: &mut Model, row: u16, now: Uptime) -> Vec<Effect> {
    let Some(dialog) = &mut model.dialog else { return Vec::new() };
    let hit = dialog.answer_rows.iter().find(|(at, _)| *at == row).map(|(_, index)| *index);
    match hit {
        Some(index) => {
            let reaction = dialog.click(index, now);
            react(model, reaction, now).unwrap_or_default()
        }
        None => Vec::new(),
    }
}

/// Applies the dialog's reaction; None if the key is not for the dialog.
fn react(model: &mut Model, reaction: Reaction, now: Uptime) -> Option<Vec<Effect>> {
    let dialog = model.dialog.as_ref()?;
    let approval = dialog.question.approval.clone();
    match reaction {
        Reaction::Elsewhere => None,
        Reaction::Nothing => Some(Vec::new()),
        Reaction::Hint(text) => {
            model.remark(text, now);
            Some(Vec::new())
        }
        Reaction::Answer(choice, edit) => {
            if sending::is_unsent(model, "your answer was not sent", now) {
                return Some(Vec::new());
            }
            // Submit one answer per question, even if a key repeats.
            if model.answering.contains(&approval) {
                return Some(Vec::new());
            }
            let digest = model.dialog.as_ref()?.question.details.digest();
            model.answering.push(approval.clone());
            Some(vec![Effect::Answer { approval, choice, edit, digest }])
        }
        Reaction::EditOutside { name, text } => {
            Some(vec![Effect::EditOutside { what: Edited::Proposal(approval), name, text }])
        }
    }
}

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;
