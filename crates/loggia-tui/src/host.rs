//! The services that the terminal interface needs from the binary: files, history, other sessions,
//! sharing.

use std::ops::ControlFlow;

use futures::future::BoxFuture;
use loggia_core::{CustomCommands, Origin, SessionId, Surface};
use tokio::sync::watch;

pub trait Host: Send + Sync {
    /// Relative workspace paths for completion, until `found` breaks. Called on its own thread; may
    /// take long.
    fn files(&self, found: &mut dyn FnMut(String) -> ControlFlow<()>);

    /// The custom commands. Called on its own thread.
    fn commands(&self) -> CustomCommands;

    /// Earlier prompts in this project, oldest first.
    fn history(&self) -> Vec<String>;

    /// Adds a prompt to the history.
    fn remember(&self, text: &str);

    /// Sessions that can be resumed, newest first.
    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Preview>, String>>;

    /// Opens a session, or explains why it cannot be opened.
    fn open_session<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), String>>;

    /// This client's identity, if it can change.
    fn own_origin(&self) -> Option<watch::Receiver<Origin>> {
        None
    }

    /// How other clients connect.
    fn share(&self) -> ShareFacts;

    /// Shares the session on a port (0 for a free one), or stops sharing. Only the person at this
    /// terminal can do that.
    fn share_on(&self, port: Option<u16>) -> BoxFuture<'_, Result<ShareFacts, String>>;

    /// Creates a one-time code for a device, with the given or default scopes. The session must be
    /// shared.
    fn invite<'a>(&'a self, scopes: &'a str) -> BoxFuture<'a, Result<ShareFacts, String>>;

    /// The connected clients.
    fn presence(&self) -> watch::Receiver<Vec<ConnectedClient>>;

    /// The connection problem; empty while connected.
    fn connection_problem(&self) -> watch::Receiver<String>;

    /// Opens a text in the external editor, which uses the terminal meanwhile. None if it was not
    /// changed.
    fn edit(&self, name: &str, text: &str) -> Result<Option<String>, String>;
}

/// A session in the picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub session: SessionId,
    /// Formatted time of the last use.
    pub when: String,
    /// The session's name.
    pub name: Option<String>,
    pub title: String,
    /// The last lines of its transcript.
    pub lines: Vec<String>,
    pub here: bool,
}

/// A connected client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedClient {
    pub surface: Surface,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareFacts {
    /// Empty if the session is not shared.
    pub urls: Vec<String>,
    /// The command that opens it in another terminal.
    pub attach: Option<String>,
    /// The contents of the QR code.
    pub code: Option<String>,
    /// Whether clients need a token, and how to get one.
    pub token: Option<String>,
    /// An invitation for a device.
    pub invitation: Option<Invitation>,
}

/// A one-time code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub code: String,
    /// Its lifetime and scopes, as text.
    pub terms: String,
    /// The command for the other device.
    pub command: String,
}
