//! A session as its clients hold it: submit a command, follow the log.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{CallId, Command, Origin, PromptId, Refusal, Seq, Session, SessionId, TaskId};
use tokio::sync::{mpsc, oneshot};

use crate::backlog::{Backlog, Reserved};
use crate::log::{Follower, Log};
use crate::ports::StoreError;

/// A message from a client or the hub to an actor. The inbox is bounded (64). When it is full, the caller gets
/// *busy*, at once or after the time it is willing to wait. Messages are boxed because an inbox allocates room for
/// dozens of them, and most sessions never need it.
pub(crate) enum Control {
    Submit {
        command: Command,
        origin: Origin,
        reply: Reply,
        reserved: Reserved,
    },
    Inspect(Inspection),
    /// The last handle is gone, or too many sessions are idle.
    CheckIdle,
    Stop,
}

pub(crate) type Reply = oneshot::Sender<Result<Ack, SubmitError>>;

/// Reads the state. The actor runs it between two steps.
pub(crate) type Inspection = Box<dyn FnOnce(&Session) + Send>;

/// The command is durable. For a prompt, `task` is the task it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The head before the command. The events it caused come after this.
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

/// Bytes that a command keeps in memory until it is done.
fn weight_of(command: &Command) -> usize {
    match command {
        Command::Prompt { content, .. } | Command::Screened { content, .. } => {
            content.approx_bytes()
        }
        Command::Shell { line, .. } => line.len(),
        _ => 0,
    }
}

/// Reaches the actor of one opening of a session. Does not keep the session open.
pub(crate) struct ActorAddress {
    pub id: SessionId,
    pub epoch: u64,
    pub control: mpsc::Sender<Box<Control>>,
    pub log: Log,
    pub backlog: Arc<Backlog>,
}

impl ActorAddress {
    pub fn is_stopped(&self) -> bool {
        self.control.is_closed()
    }

    /// True when the actor and its agent are gone and the lease is free.
    pub fn is_gone(&self) -> bool {
        self.log.is_closed()
    }

    pub async fn gone(&self) {
        self.log.closed().await;
    }

    pub async fn stop(&self) {
        // An error means that the actor has stopped already.
        let _ = self.control.send(Box::new(Control::Stop)).await;
        self.gone().await;
    }

    pub fn check_idle(&self) {
        // A full inbox needs no message: the actor checks when it has emptied it.
        let _ = self.control.try_send(Box::new(Control::CheckIdle));
    }
}

/// Keeps a session open while a client uses it. All handles and followers of an opening share one.
pub(crate) struct InUse {
    address: Arc<ActorAddress>,
}

impl InUse {
    pub fn new(address: Arc<ActorAddress>) -> Self {
        Self { address }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.address.check_idle();
    }
}

/// A client's handle of a session. While one exists, the session is not idle.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) in_use: Arc<InUse>,
}

impl SessionHandle {
    fn address(&self) -> &ActorAddress {
        &self.in_use.address
    }

    pub fn id(&self) -> &SessionId {
        &self.address().id
    }

    /// Counts the openings of this session.
    pub fn epoch(&self) -> u64 {
        self.address().epoch
    }

    pub fn head(&self) -> Seq {
        self.address().log.head()
    }

    pub fn is_stopped(&self) -> bool {
        self.address().is_stopped()
    }

    /// Returns once the command is durable, or with the reason why it changed nothing.
    pub async fn submit(&self, command: Command, origin: Origin) -> Result<Ack, SubmitError> {
        self.submit_within(Duration::ZERO, command, origin).await
    }

    /// The same, but waits for up to `wait` for space in the inbox before it returns *busy*, in order of arrival. So if
    /// a hundred clients answer one question at once, each of them learns which answer won and none has to retry.
    pub async fn submit_within(
        &self,
        wait: Duration,
        command: Command,
        origin: Origin,
    ) -> Result<Ack, SubmitError> {
        let address = self.address();
        let reserved = address.backlog.reserve(&origin.principal, weight_of(&command));
        let reserved = reserved.map_err(|bound| Refusal::QueueFull { queued: 0, bound })?;
        let permit = match address.control.try_reserve() {
            Ok(permit) => permit,
            Err(mpsc::error::TrySendError::Closed(())) => return Err(self.stopped()),
            Err(mpsc::error::TrySendError::Full(())) if wait.is_zero() => {
                return Err(SubmitError::Busy);
            }
            Err(mpsc::error::TrySendError::Full(())) => {
                let permit = tokio::time::timeout(wait, address.control.reserve()).await;
                let permit = permit.map_err(|_| SubmitError::Busy)?;
                permit.map_err(|_| self.stopped())?
            }
        };
        let (reply, answer) = oneshot::channel();
        permit.send(Box::new(Control::Submit { command, origin, reply, reserved }));
        answer.await.map_err(|_| self.stopped())?
    }

    /// Why the session has stopped, if the reason is known.
    pub fn failure(&self) -> Option<&StoreError> {
        self.address().log.failure()
    }

    fn stopped(&self) -> SubmitError {
        self.failure().cloned().map_or(SubmitError::Stopped, SubmitError::Store)
    }

    /// A new prompt id.
    pub fn fresh_prompt() -> PromptId {
        uuid::Uuid::now_v7().into()
    }

    /// All events after `after`, then new ones as they are appended. A follower keeps the session open as a handle
    /// does.
    pub fn follow(&self, after: Seq) -> Follower {
        self.address().log.follow(after, Some(self.in_use.clone()))
    }

    /// The same for a reader that must not keep the session open. It ends when the session is closed.
    pub fn follow_while_open(&self, after: Seq) -> Follower {
        self.address().log.follow(after, None)
    }

    /// Reads the durable state between two steps of the actor.
    pub async fn inspect<T: Send + 'static>(
        &self,
        inspection: impl FnOnce(&Session) -> T + Send + 'static,
    ) -> Result<T, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let inspection = Box::new(move |session: &Session| {
            // An error means that the caller is gone.
            let _ = reply.send(inspection(session));
        });
        let sent = self.address().control.send(Box::new(Control::Inspect(inspection))).await;
        sent.map_err(|_| self.stopped())?;
        answer.await.map_err(|_| self.stopped())
    }

    /// Stops the actor after its current step and waits until it is gone. The log stays as it is, and the next
    /// opening continues from there.
    pub async fn stop(&self) {
        self.address().stop().await;
    }
}
