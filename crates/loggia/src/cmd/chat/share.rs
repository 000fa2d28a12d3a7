//! Shares the session of a terminal interface: from the start with `--a2a-port`, or on request of
//! the person at the terminal. No protocol can request it.

use std::convert::Infallible;

use loggia_core::{Command, Level, Origin};
use loggia_server::serve::Bound;
use loggia_server::state::ServedSessions;
use loggia_session::SessionHandle;
use loggia_tui::{ConnectedClient, ShareFacts};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::host;
use crate::cmd::pair;
use crate::cmd::serve::{self, Serving, Setup, ShareArgs};
use crate::compose::App;

/// A sharing request of the terminal interface and its reply channel.
pub struct ShareRequest {
    pub action: ShareAction,
    pub answer: oneshot::Sender<Result<ShareFacts, String>>,
}

pub enum ShareAction {
    /// Share on a port.
    Port(u16),
    /// Stop sharing.
    Off,
    /// Create a one-time code with these scopes.
    Code(String),
}

/// The configuration of the server, and the server while it runs.
pub struct Sharing<'a> {
    pub setup: &'a Setup,
    pub args: &'a ShareArgs,
    pub app: &'a App,
    pub handle: SessionHandle,
    pub origin: Origin,
    pub facts: watch::Sender<ShareFacts>,
    pub present: watch::Sender<Vec<ConnectedClient>>,
    pub serving: Option<(Serving, JoinHandle<()>)>,
}

impl Sharing<'_> {
    pub async fn start(&mut self, bound: Bound) -> anyhow::Result<()> {
        let facts = super::facts(&bound, self.args);
        let sessions = ServedSessions::Shared(self.handle.id().clone());
        let roots = vec![self.app.workspace.clone()];
        let tell = |news: &str| tracing::warn!("{news}");
        let serving = self.setup.serving(bound, sessions, roots, self.args, self.app, tell).await?;
        // Clients see the terminal in the list of connected clients, and the terminal sees them.
        let place = serving.presence().join(&self.origin);
        let me = watch::channel(self.origin.clone()).1;
        let mut others = host::others(serving.presence().watch(), Some(me));
        let present = self.present.clone();
        let told = tokio::spawn(async move {
            let _place = place;
            loop {
                present.send_replace(others.borrow_and_update().clone());
                if others.changed().await.is_err() {
                    return;
                }
            }
        });
        self.facts.send_replace(facts);
        self.serving = Some((serving, told));
        Ok(())
    }

    /// Handles sharing requests for as long as the terminal interface runs.
    pub async fn handle(&mut self, requests: &mut mpsc::Receiver<ShareRequest>) -> Infallible {
        while let Some(ShareRequest { action, answer }) = requests.recv().await {
            let done = match action {
                ShareAction::Port(port) => self.open(port).await,
                ShareAction::Off => self.close().await,
                ShareAction::Code(scopes) => self.invite(&scopes).await,
            };
            // The terminal interface may be closed already.
            let _ = answer.send(done.map_err(|error| format!("{error:#}")));
        }
        std::future::pending().await
    }

    /// The code is returned only to the terminal. It is not put in the log or the watch.
    async fn invite(&self, scopes: &str) -> anyhow::Result<ShareFacts> {
        let facts = self.facts.borrow().clone();
        let Some(url) = facts.code.clone().filter(|_| self.serving.is_some()) else {
            anyhow::bail!("this session is not shared yet: /share PORT first, or /share 0");
        };
        let scopes = pair::scopes(scopes)?;
        let code = self.setup.offer(scopes).await?.reveal();
        let invitation = pair::invitation(&url, code, scopes);
        let code = Some(pair::link(&url, &invitation.code));
        Ok(ShareFacts { code, invitation: Some(invitation), ..facts })
    }

    async fn open(&mut self, port: u16) -> anyhow::Result<ShareFacts> {
        if self.serving.is_some() {
            anyhow::bail!("this session is shared already: /share shows where, /share off ends it");
        }
        let bound = serve::listen(self.args, port, &self.setup.config)?;
        let addresses = serve::addresses(&bound);
        self.start(bound).await?;
        self.say(format!("This session is shared on {addresses}.")).await;
        Ok(self.facts.borrow().clone())
    }

    async fn close(&mut self) -> anyhow::Result<ShareFacts> {
        if self.serving.is_none() {
            anyhow::bail!("this session is not shared");
        }
        // Before the clients are disconnected, so that they can read it.
        self.say("This session is no longer shared.".to_owned()).await;
        self.stop().await;
        Ok(ShareFacts::default())
    }

    /// Adds a notice to the log, which all clients see.
    async fn say(&self, text: String) {
        let notice = Command::Notice { level: Level::Info, text };
        if let Err(error) = self.handle.submit(notice, self.origin.clone()).await {
            tracing::warn!("cannot log a sharing notice: {error}");
        }
    }

    pub async fn stop(&mut self) {
        if let Some((serving, told)) = self.serving.take() {
            self.setup.withdraw().await;
            serving.stop().await;
            told.abort();
            self.facts.send_replace(ShareFacts::default());
            self.present.send_replace(Vec::new());
        }
    }
}
