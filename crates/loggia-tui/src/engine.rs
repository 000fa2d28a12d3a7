//! Connects the state machine to the session and host: follows the log, performs effects, and
//! returns results as messages.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, FuturesUnordered};
use loggia_core::{Command, Content, Envelope, Origin, Question, SHELL_PREFIX, Seq, TaskChoice};
use loggia_session::{SessionClient, SessionHandle, StoreError, SubmitError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::app::{self, Effect, Exit, Model, Msg, Start, Submitted};
use crate::files::FileFinder;
use crate::host::{ConnectedClient, Host};
use crate::uptime::Uptime;

/// Maximum number of commands in flight; more fail as busy.
const UNSENT: usize = 64;
/// Capacity for results; senders wait when it is full.
const RESULTS: usize = 64;

pub struct Engine {
    pub model: Model,
    host: Arc<dyn Host>,
    events: Option<BoxStream<'static, Result<Arc<Envelope>, StoreError>>>,
    results: mpsc::Receiver<Msg>,
    sender: mpsc::Sender<Msg>,
    commands: mpsc::Sender<(Submitted, Command)>,
    files: Option<FileFinder>,
    present: watch::Receiver<Vec<ConnectedClient>>,
    problem: watch::Receiver<String>,
    /// None if this client's identity cannot change.
    own_origin: Option<watch::Receiver<Origin>>,
    /// Aborted with the engine.
    tasks: JoinSet<()>,
}

impl Engine {
    pub fn new(client: Arc<dyn SessionClient>, host: Arc<dyn Host>, start: Start) -> Self {
        let events = Some(client.follow(Seq::ZERO));
        let (sender, results) = mpsc::channel(RESULTS);
        let (commands, wanted) = mpsc::channel(UNSENT);
        let mut tasks = JoinSet::new();
        tasks.spawn(submit(client, wanted, sender.clone()));
        let (present, problem, own_origin) =
            (host.presence(), host.connection_problem(), host.own_origin());
        let mut model = Model::new(start);
        model.present = present.borrow().clone();
        let files = None;
        Self {
            model,
            host,
            events,
            results,
            sender,
            commands,
            files,
            present,
            problem,
            own_origin,
            tasks,
        }
    }

    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The next event from outside the terminal. Cancel safe.
    pub async fn next(&mut self) -> Result<Msg, Exit> {
        let events = async {
            match &mut self.events {
                Some(events) => events.next().await,
                None => std::future::pending().await,
            }
        };
        let own_origin = async {
            if let Some(origin) = &mut self.own_origin
                && origin.changed().await.is_ok()
            {
                return origin.borrow_and_update().clone();
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            Some(msg) = self.results.recv() => Ok(msg),
            Ok(()) = self.present.changed() => {
                Ok(Msg::Present(self.present.borrow_and_update().clone()))
            }
            Ok(()) = self.problem.changed() => {
                Ok(Msg::ConnectionProblem(self.problem.borrow_and_update().clone()))
            }
            origin = own_origin => Ok(Msg::OwnOrigin(origin)),
            event = events => match event {
                Some(Ok(envelope)) => Ok(Msg::Event(envelope)),
                Some(Err(error)) => Err(Exit::Stopped(error.to_string())),
                None => Err(Exit::Stopped(why_stopped(&self.problem.borrow()))),
            },
        }
    }

    /// Handles a message. Returns the effects that need the terminal.
    pub fn update(&mut self, msg: Msg, now: Uptime) -> Vec<Effect> {
        let effects = app::update(&mut self.model, msg, now);
        effects.into_iter().filter_map(|effect| self.perform(effect, now)).collect()
    }

    fn perform(&mut self, effect: Effect, now: Uptime) -> Option<Effect> {
        match effect {
            Effect::Prompt(text) => {
                let prompt = SessionHandle::fresh_prompt();
                let content = Content::text(text.clone());
                let what = Submitted::Prompt { prompt: prompt.clone(), text };
                let command = Command::Prompt { prompt, task: TaskChoice::New, content };
                self.send(what, command, now);
            }
            Effect::Shell(line) => {
                let prompt = SessionHandle::fresh_prompt();
                let text = format!("{SHELL_PREFIX}{line}");
                let what = Submitted::Prompt { prompt: prompt.clone(), text };
                self.send(what, Command::Shell { prompt, line }, now);
            }
            Effect::Answer { approval, choice, edit, digest } => {
                let to = Question::Approval(approval.clone());
                let command =
                    Command::Answer { to, choice, edit, digest: Some(digest), message: None };
                self.send(Submitted::Answer(approval), command, now);
            }
            Effect::Cancel(what) => self.send(Submitted::Other, Command::Cancel { what }, now),
            Effect::Configure(settings) => {
                self.send(Submitted::Other, Command::Configure { settings }, now);
            }
            Effect::Remember(text) => self.host.remember(&text),
            Effect::FindFiles(query) => {
                let start = || FileFinder::start(self.host.clone(), self.sender.clone());
                self.files.get_or_insert_with(start).ask(&query);
            }
            Effect::LoadCommands => self.ask(|host| async move {
                let listed = tokio::task::spawn_blocking(move || host.commands()).await;
                Msg::Commands(listed.unwrap_or_default())
            }),
            Effect::LoadSessions => {
                self.ask(|host| async move { Msg::Sessions(host.sessions().await) });
            }
            Effect::OpenSession(session) => self.ask(|host| async move {
                let result = host.open_session(&session).await;
                Msg::SessionOpened { session, result }
            }),
            Effect::LoadShare => {
                let share = Msg::Share(self.host.share());
                app::update(&mut self.model, share, now);
            }
            Effect::ShareOn(port) => {
                self.ask(move |host| async move { Msg::Shared(host.share_on(port).await) });
            }
            Effect::Invite(scopes) => {
                self.ask(|host| async move { Msg::Shared(host.invite(&scopes).await) });
            }
            Effect::EditOutside { .. }
            | Effect::Copy(_)
            | Effect::Bell
            | Effect::Suspend
            | Effect::Redraw
            | Effect::Leave(_) => return Some(effect),
        }
        None
    }

    /// Asks the host in a task, whose result arrives as a message.
    fn ask<F>(&mut self, work: impl FnOnce(Arc<dyn Host>) -> F)
    where
        F: Future<Output = Msg> + Send + 'static,
    {
        let (work, sender) = (work(self.host.clone()), self.sender.clone());
        self.tasks.spawn(async move {
            // Sending fails only after the interface has closed.
            let _ = sender.send(work.await).await;
        });
    }

    fn send(&mut self, what: Submitted, command: Command, now: Uptime) {
        if let Err(error) = self.commands.try_send((what, command)) {
            let (what, _) = error.into_inner();
            let busy = Msg::Submitted { what, result: Err(SubmitError::Busy) };
            app::update(&mut self.model, busy, now);
        }
    }
}

/// Submits commands in order without waiting for earlier results, because a command must not be
/// delayed behind an unconfirmed one.
async fn submit(
    client: Arc<dyn SessionClient>,
    mut wanted: mpsc::Receiver<(Submitted, Command)>,
    results: mpsc::Sender<Msg>,
) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let (what, result) = tokio::select! {
            biased;
            // Poll a new submission before taking the next one, to keep the order.
            Some(done) = under_way.next() => done,
            Some((what, command)) = wanted.recv(), if under_way.len() < UNSENT => {
                let submitted = client.submit(command);
                under_way.push(async move { (what, submitted.await.map(|_| ())) });
                continue;
            }
            else => return,
        };
        if results.send(Msg::Submitted { what, result }).await.is_err() {
            return;
        }
    }
}

/// Why the session ended: the last connection problem, if any.
fn why_stopped(problem: &str) -> String {
    match problem {
        "" => "the session stopped; its log is kept".to_owned(),
        problem => problem.to_owned(),
    }
}
