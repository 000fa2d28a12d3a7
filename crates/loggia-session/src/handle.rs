//! A session as its clients hold it: submit a command, follow the log.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{CallId, Command, Origin, PromptId, Refusal, Seq, Session, SessionId, TaskId};
use tokio::sync::{mpsc, oneshot};

use crate::actor::bed::Bed;
use crate::backlog::{Backlog, Reserved};
use crate::hub::seats::Hold;
use crate::log::{Follower, Log};
use crate::ports::StoreError;

/// From clients to the writer. Bounded (64): when it is full the caller is told *busy* at once, or
/// after the time it is willing to wait. Boxed on its way, as what the agent sends.
pub(crate) enum Control {
    Submit { command: Command, origin: Origin, told: Told, reply: Reply, reserved: Reserved },
    Inspect(Look),
    Stop,
}

pub(crate) type Reply = oneshot::Sender<Result<Ack, SubmitError>>;

/// When whoever submitted a command is told that it was taken. What is refused is said at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Durable,
    Settled,
}

/// A look at the state, run by the writer between two steps.
pub(crate) type Look = Box<dyn FnOnce(&Session) + Send>;

/// The command is on disk. For a prompt, `task` is where it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The head before the command: what it caused comes after this.
    pub after: Seq,
    pub seq: Seq,
    pub task: Option<TaskId>,
    /// For a reply that answered a question, the call that the question was about.
    pub answered: Option<CallId>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the session is busy: try again in a moment")]
    Busy,
    #[error("the session has stopped")]
    Stopped,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Of what a command keeps in memory until it is done.
fn weight_of(command: &Command) -> usize {
    match command {
        Command::Prompt { content, .. } | Command::Screened { content, .. } => {
            content.approx_bytes()
        }
        Command::Shell { line, .. } => line.len(),
        _ => 0,
    }
}

/// The way to one opening of a session. The hub's own; it keeps nothing from being closed.
pub(crate) struct Line {
    pub id: SessionId,
    pub epoch: u64,
    pub control: mpsc::Sender<Box<Control>>,
    pub log: Log,
    pub bed: Arc<Bed>,
    pub backlog: Arc<Backlog>,
}

impl Line {
    pub fn is_stopped(&self) -> bool {
        self.control.is_closed()
    }

    /// True when the writer is gone, its agent too, and the session is free for the next owner.
    pub fn is_gone(&self) -> bool {
        self.log.is_closed()
    }

    pub async fn gone(&self) {
        self.log.closed().await;
    }

    pub async fn stop(&self) {
        // Closed already means stopped already.
        let _ = self.control.send(Box::new(Control::Stop)).await;
        self.bed.rouse();
        self.gone().await;
    }
}

/// A session in somebody's hands. While one exists, the session is not closed for being idle.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) line: Arc<Line>,
    pub(crate) hold: Arc<Hold>,
}

impl SessionHandle {
    pub fn id(&self) -> &SessionId {
        &self.line.id
    }

    /// Which opening of the session this is; grows with every one.
    pub fn epoch(&self) -> u64 {
        self.line.epoch
    }

    pub fn head(&self) -> Seq {
        self.line.log.head()
    }

    pub fn is_stopped(&self) -> bool {
        self.line.is_stopped()
    }

    /// Returns once the command is durable, or with the reason why it changed nothing.
    pub async fn submit(&self, command: Command, origin: Origin) -> Result<Ack, SubmitError> {
        self.submit_within(Duration::ZERO, command, origin).await
    }

    /// The same for a caller that would rather wait than be told *busy*: of a hundred clients that
    /// answer one question at once, the last is told who won and not to come back. First come,
    /// first served.
    pub async fn submit_within(
        &self,
        patience: Duration,
        command: Command,
        origin: Origin,
    ) -> Result<Ack, SubmitError> {
        self.send(patience, command, origin, Told::Durable).await
    }

    /// The same for a prompt of which only the outcome is waited for: returns once its task is
    /// over or asks. The log has all of it by then.
    pub async fn submit_until_settled(
        &self,
        patience: Duration,
        command: Command,
        origin: Origin,
    ) -> Result<Ack, SubmitError> {
        self.send(patience, command, origin, Told::Settled).await
    }

    async fn send(
        &self,
        patience: Duration,
        command: Command,
        origin: Origin,
        told: Told,
    ) -> Result<Ack, SubmitError> {
        let reserved = self.line.backlog.reserve(&origin.principal, weight_of(&command));
        let reserved = reserved.map_err(|bound| Refusal::QueueFull { queued: 0, bound })?;
        let place = match self.line.control.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Closed(())) => return Err(self.stopped()),
            Err(mpsc::error::TrySendError::Full(())) if patience.is_zero() => {
                return Err(SubmitError::Busy);
            }
            Err(mpsc::error::TrySendError::Full(())) => {
                let place = tokio::time::timeout(patience, self.line.control.reserve()).await;
                let place = place.map_err(|_| SubmitError::Busy)?;
                place.map_err(|_| self.stopped())?
            }
        };
        let (reply, answer) = oneshot::channel();
        place.send(Box::new(Control::Submit { command, origin, told, reply, reserved }));
        self.line.bed.step().await;
        answer.await.map_err(|_| self.stopped())?
    }

    /// Why the session has stopped, where that is known.
    pub fn failure(&self) -> Option<&StoreError> {
        self.line.log.failure()
    }

    fn stopped(&self) -> SubmitError {
        self.failure().cloned().map_or(SubmitError::Stopped, SubmitError::Store)
    }

    /// A prompt with an id of its own.
    pub fn fresh_prompt() -> PromptId {
        uuid::Uuid::now_v7().into()
    }

    /// Everything after `after`, then whatever comes. A follower counts as a handle.
    pub fn follow(&self, after: Seq) -> Follower {
        self.line.log.follow(after, Some(self.hold.clone()))
    }

    /// The same for a reader that must not keep the session open: it ends when the session is
    /// closed for being idle.
    pub fn follow_while_open(&self, after: Seq) -> Follower {
        self.line.log.follow(after, None)
    }

    /// Looks at the durable state between two steps of the writer.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Session) -> T + Send + 'static,
    ) -> Result<T, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let look = Box::new(move |session: &Session| {
            // The asker may have gone; then nobody wants the answer.
            let _ = reply.send(look(session));
        });
        self.line
            .control
            .send(Box::new(Control::Inspect(look)))
            .await
            .map_err(|_| self.stopped())?;
        self.line.bed.step().await;
        answer.await.map_err(|_| self.stopped())
    }

    /// Stops the writer after what it has in hand, and waits until it is gone. The log stays as
    /// it is; whoever opens the session next goes on from there.
    pub async fn stop(&self) {
        self.line.stop().await;
    }
}
