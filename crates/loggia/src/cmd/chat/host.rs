//! Implements the terminal interface's [`Host`]: files, history, other sessions, the editor.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_agent::CommandFiles;
use loggia_core::{CellBody, CustomCommands, Origin, Seq, SessionId, Transcript};
use loggia_session::{Hub, HubError, Store, StoreError};
use loggia_tui::{ConnectedClient, Host, Preview, ShareFacts};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::share::{ShareAction, ShareRequest};
use crate::compose::App;
use crate::style::printable;

/// Maximum number of sessions in the picker.
const SESSIONS: usize = 50;
/// Number of last events that a preview is built from.
const PREVIEWED: u64 = 60;
/// Above this size, the older half of the history file is dropped.
const HISTORY: u64 = 4 * 1024 * 1024;
/// Longer prompts are not added to the history.
const REMEMBERED: usize = 64 * 1024;

/// Default editors, in order of preference.
const EDITORS: [&str; 2] = ["vi", "nano"];

pub struct ChatHost {
    workspace: PathBuf,
    here: String,
    history: PathBuf,
    /// None for a remote session, which cannot switch to another one.
    sessions: Option<Sessions>,
    me: Option<watch::Receiver<Origin>>,
    commands: Commands,
    share: watch::Receiver<ShareFacts>,
    /// None for a remote session.
    requests: Option<mpsc::Sender<ShareRequest>>,
    editor: Option<String>,
    present: watch::Receiver<Vec<ConnectedClient>>,
    problem: watch::Receiver<String>,
}

/// The local sessions.
#[derive(Clone)]
pub struct Sessions {
    pub store: Arc<dyn Store>,
    pub hub: Arc<Hub>,
}

/// The source of custom commands.
pub enum Commands {
    Here(Arc<CommandFiles>),
    Elsewhere(watch::Receiver<CustomCommands>),
}

/// Connection state and other clients.
pub struct Connection {
    /// This client's identity, if it can change.
    pub me: Option<watch::Receiver<Origin>>,
    pub share: watch::Receiver<ShareFacts>,
    pub present: watch::Receiver<Vec<ConnectedClient>>,
    pub problem: watch::Receiver<String>,
    /// Requests to share the session; None for a remote session.
    pub requests: Option<mpsc::Sender<ShareRequest>>,
}

/// The other connected clients, without this one.
pub fn others(
    mut origins: watch::Receiver<Vec<Origin>>,
    me: Option<watch::Receiver<Origin>>,
) -> watch::Receiver<Vec<ConnectedClient>> {
    let shown = move |origins: &[Origin]| -> Vec<ConnectedClient> {
        let me = me.as_ref().map(|me| me.borrow().clone());
        let others = origins.iter().filter(|origin| Some(*origin) != me.as_ref());
        others.map(present).collect()
    };
    let (sender, receiver) = watch::channel(shown(&origins.borrow_and_update()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                changed = origins.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
            sender.send_replace(shown(&origins.borrow_and_update()));
        }
    });
    receiver
}

/// A client's display name, without its connection number.
fn present(origin: &Origin) -> ConnectedClient {
    let client = origin.client.as_str();
    let client = client.rsplit_once('@').map_or(client, |(name, _)| name);
    let client = client.strip_prefix("local:").map_or(client, |_| "a local client");
    let name = format!("{}:{}", origin.surface.label(), origin.name().unwrap_or(client));
    ConnectedClient { surface: origin.surface, name }
}

/// One prompt in the history file.
#[derive(Serialize, Deserialize)]
struct HistoryEntry {
    workspace: String,
    text: String,
}

impl ChatHost {
    pub fn new(
        app: &App,
        sessions: Option<Sessions>,
        commands: Commands,
        connection: Connection,
    ) -> Self {
        let Connection { me, share, present, problem, requests } = connection;
        let environment = &app.environment;
        let said = environment.get("VISUAL").or_else(|| environment.get("EDITOR"));
        let editor = said.or_else(|| {
            let on_path = |name: &&str| {
                let path = environment.get_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
            };
            EDITORS.into_iter().find(on_path)
        });
        Self {
            workspace: app.workspace.clone(),
            here: app.workspace.display().to_string(),
            history: app.paths.state.join("history.jsonl"),
            sessions,
            me,
            commands,
            share,
            requests,
            editor: editor.map(str::to_owned),
            present,
            problem,
        }
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        if let Some(directory) = self.history.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let entry = HistoryEntry { workspace: self.here.clone(), text: text.to_owned() };
        let line = serde_json::to_string(&entry)?;
        let mut file =
            OpenOptions::new().create(true).append(true).mode(0o600).open(&self.history)?;
        // One write per line, because several terminals may append to the file.
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn lines(&self) -> std::io::Result<Vec<HistoryEntry>> {
        let file = File::open(&self.history)?;
        let large = file.metadata()?.len() > HISTORY;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let mut entries: Vec<HistoryEntry> =
            lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
        if large {
            entries.drain(..entries.len() / 2);
            let kept: Vec<String> = entries.iter().flat_map(serde_json::to_string).collect();
            let fresh = self.history.with_extension("new");
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .mode(0o600)
                .open(&fresh)?;
            file.write_all((kept.join("\n") + "\n").as_bytes())?;
            std::fs::rename(&fresh, &self.history)?;
        }
        Ok(entries)
    }
}

impl ChatHost {
    /// Sends a sharing request and waits for the result.
    async fn request(&self, action: ShareAction) -> Result<ShareFacts, String> {
        let Some(requests) = &self.requests else {
            return Err("a session can only be shared by the process that runs it".to_owned());
        };
        let (answer, answered) = oneshot::channel();
        let busy = |_| "the previous /share request is still running".to_owned();
        requests.try_send(ShareRequest { action, answer }).map_err(busy)?;
        answered.await.map_err(|_| "the terminal interface is closing".to_owned())?
    }
}

impl Host for ChatHost {
    fn files(&self, found: &mut dyn FnMut(String) -> ControlFlow<()>) {
        if self.sessions.is_none() {
            return; // the session's files are elsewhere
        }
        let walk = ignore::WalkBuilder::new(&self.workspace)
            .hidden(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
            let path =
                entry.path().strip_prefix(&self.workspace).ok().and_then(|path| path.to_str());
            let Some(path) = path else { continue };
            let directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let path = if directory { format!("{path}/") } else { path.to_owned() };
            if found(path).is_break() {
                return;
            }
        }
    }

    fn commands(&self) -> CustomCommands {
        match &self.commands {
            Commands::Here(files) => files.list(&self.workspace),
            Commands::Elsewhere(listed) => listed.borrow().clone(),
        }
    }

    fn history(&self) -> Vec<String> {
        // A missing or unreadable file is an empty history.
        let entries = self.lines().unwrap_or_default();
        let here = entries.into_iter().filter(|entries| entries.workspace == self.here);
        here.map(|entries| entries.text).collect()
    }

    fn remember(&self, text: &str) {
        // As in a shell, a line that starts with a space is not saved.
        if text.starts_with(' ') || text.len() > REMEMBERED {
            return;
        }
        if let Err(error) = self.append(text) {
            tracing::warn!("cannot write the history: {error}");
        }
    }

    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Preview>, String>> {
        Box::pin(async {
            let Some(Sessions { store, .. }) = &self.sessions else {
                return Err("other sessions are only available in the process that runs this one"
                    .to_owned());
            };
            let listed = store.list(usize::MAX).await.map_err(|error| error.to_string())?;
            let wanted = listed.into_iter().filter(|listed| {
                listed.summary.turns > 0
                    && !listed.summary.closed
                    && listed.summary.workspace == self.here
            });
            let mut previews = Vec::new();
            for listed in wanted.take(SESSIONS) {
                previews.push(Preview {
                    lines: end_of(store.as_ref(), &listed.session, listed.head).await,
                    session: listed.session,
                    when: crate::cmd::sessions::time(listed.summary.updated),
                    name: listed.summary.name,
                    title: listed.summary.title,
                    here: true,
                });
            }
            Ok(previews)
        })
    }

    fn open_session<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(Sessions { hub, .. }) = &self.sessions else {
                return Err("other sessions are only available in the process that runs this one"
                    .to_owned());
            };
            match hub.open(session).await {
                Ok(_) => Ok(()),
                Err(error @ HubError::Store(StoreError::Busy { .. })) => {
                    Err(format!("{error}; `loggia attach URL` joins it, where it is shared"))
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn own_origin(&self) -> Option<watch::Receiver<Origin>> {
        self.me.clone()
    }

    fn share(&self) -> ShareFacts {
        self.share.borrow().clone()
    }

    fn share_on(&self, port: Option<u16>) -> BoxFuture<'_, Result<ShareFacts, String>> {
        Box::pin(self.request(port.map_or(ShareAction::Off, ShareAction::Port)))
    }

    fn invite<'a>(&'a self, scopes: &'a str) -> BoxFuture<'a, Result<ShareFacts, String>> {
        Box::pin(self.request(ShareAction::Code(scopes.to_owned())))
    }

    fn presence(&self) -> watch::Receiver<Vec<ConnectedClient>> {
        self.present.clone()
    }

    fn connection_problem(&self) -> watch::Receiver<String> {
        self.problem.clone()
    }

    fn edit(&self, name: &str, text: &str) -> Result<Option<String>, String> {
        let Some(editor) = &self.editor else {
            return Err(
                "there is no editor: set VISUAL or EDITOR, or install vi or nano".to_owned()
            );
        };
        let edited = crate::cmd::run::edit_text(editor, name, text, |command| {
            command.status().map_err(Into::into)
        });
        edited.map_err(|error| printable(&format!("{error:#}")))
    }
}

/// The last lines of a session. Empty if they cannot be read.
async fn end_of(store: &dyn Store, session: &SessionId, head: Seq) -> Vec<String> {
    let after = Seq(head.0.saturating_sub(PREVIEWED));
    let events = store.read(session, after, 256).await.unwrap_or_default();
    let mut transcript = Transcript::default();
    events.iter().for_each(|event| transcript.apply(event));
    let said = transcript.cells().iter().filter_map(|cell| match &cell.body {
        CellBody::Prompt { text, .. } => Some(format!("› {text}")),
        CellBody::Text { text, discarded: false } => Some(text.clone()),
        CellBody::Call(call) => Some(format!("• {}", call.title)),
        _ => None,
    });
    let lines: Vec<String> =
        said.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let skip = lines.len().saturating_sub(8);
    lines.into_iter().filter(|line| !line.trim().is_empty()).skip(skip).collect()
}
