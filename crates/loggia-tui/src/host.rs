//! What the screen needs that is not the session: files to complete, what was written before,
//! other sessions, how this one is shared. The binary knows; the screen only asks.

use futures::future::BoxFuture;
use loggia_core::{CustomCommands, ModelName, Origin, SessionId, Surface};
use tokio::sync::watch;

pub trait Host: Send + Sync {
    /// Paths of the workspace, relative, for completion; `found` says when it has enough. Called on
    /// a thread of its own, and may take long.
    fn files(&self, found: &mut dyn FnMut(String) -> Enough);

    /// Commands that people wrote in files. Called on a thread of its own.
    fn commands(&self) -> CustomCommands;

    /// What was written before in this project, the oldest first.
    fn history(&self) -> Vec<String>;

    /// Keeps one prompt for the next time.
    fn remember(&self, text: &str);

    /// Sessions to go on in, the newest first.
    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Preview>, String>>;

    /// The model of this name, by its full one; where there is none, or none is named, what there is.
    /// May read files.
    fn model(&self, name: &str) -> Result<ModelName, String>;

    /// Opens one of them, so that the screen can go on in it. Not opened: why, and what can be done.
    fn reach<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), String>>;

    /// Under which name the session knows this screen, where that changes.
    fn me(&self) -> Option<watch::Receiver<Origin>> {
        None
    }

    /// How others reach this session.
    fn share(&self) -> ShareFacts;

    /// Lets others reach this session on a port, 0 for a free one, or not any more. Only here, by
    /// whoever sits at this screen.
    fn share_on(&self, port: Option<u16>) -> BoxFuture<'_, Result<ShareFacts, String>>;

    /// Lets one device in by a one-time code, for the scopes that are named, or the usual ones. Only
    /// here, and only where the session is shared.
    fn invite<'a>(&'a self, scopes: &'a str) -> BoxFuture<'a, Result<ShareFacts, String>>;

    /// Who is connected, kept up to date.
    fn presence(&self) -> watch::Receiver<Vec<Present>>;

    /// What is wrong with the way to the session, in words; empty while nothing is.
    fn trouble(&self) -> watch::Receiver<String>;

    /// The person's editor on a text; None if nothing was changed. The terminal is theirs meanwhile.
    fn edit(&self, name: &str, text: &str) -> Result<Option<String>, String>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    More,
    Stop,
}

/// A session as the picker shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub session: SessionId,
    /// When it was last used, for people.
    pub when: String,
    /// What somebody calls it.
    pub name: Option<String>,
    pub title: String,
    /// The end of what was said in it.
    pub lines: Vec<String>,
    pub here: bool,
}

/// A client that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub surface: Surface,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareFacts {
    /// Empty where the session is not shared.
    pub urls: Vec<String>,
    /// The line that opens it in another terminal.
    pub attach: Option<String>,
    /// What the QR code holds.
    pub code: Option<String>,
    /// Whether clients need a token, and from where they get it.
    pub token: Option<String>,
    /// Where a device is to be let in.
    pub invitation: Option<Invitation>,
}

/// A code that opens the session, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub code: String,
    /// For how long and for what it is good, in words.
    pub terms: String,
    /// What is typed on the other device.
    pub command: String,
}
