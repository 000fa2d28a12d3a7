//! A session as its clients hold it: submit a command, follow the log.

use std::time::Duration;

use loggia_core::{Command, Origin, PromptId, Refusal, Seq, Session, SessionId, TaskId};
use tokio::sync::{mpsc, oneshot};

use crate::log::{Follower, Log};
use crate::ports::StoreError;

/// From clients to the writer. Bounded (64): when it is full the caller is told *busy* at once, or
/// after the time it is willing to wait.
pub(crate) enum Control {
    Submit { command: Command, origin: Origin, reply: oneshot::Sender<Result<Ack, SubmitError>> },
    Inspect(Look),
    Stop,
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

#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) id: SessionId,
    pub(crate) control: mpsc::Sender<Control>,
    pub(crate) log: Log,
}

impl SessionHandle {
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn head(&self) -> Seq {
        self.log.head()
    }

    pub fn is_stopped(&self) -> bool {
        self.control.is_closed()
    }

    /// True when the writer is gone, its agent too, and the session is free for the next owner.
    pub(crate) fn is_gone(&self) -> bool {
        self.log.is_closed()
    }

    pub(crate) async fn gone(&self) {
        self.log.closed().await;
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
        let place = match self.control.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Closed(())) => return Err(SubmitError::Stopped),
            Err(mpsc::error::TrySendError::Full(())) if patience.is_zero() => {
                return Err(SubmitError::Busy);
            }
            Err(mpsc::error::TrySendError::Full(())) => {
                let place = tokio::time::timeout(patience, self.control.reserve()).await;
                let place = place.map_err(|_| SubmitError::Busy)?;
                place.map_err(|_| SubmitError::Stopped)?
            }
        };
        let (reply, answer) = oneshot::channel();
        place.send(Control::Submit { command, origin, reply });
        answer.await.map_err(|_| SubmitError::Stopped)?
    }

    /// A prompt with an id of its own.
    pub fn fresh_prompt() -> PromptId {
        uuid::Uuid::now_v7().into()
    }

    pub fn follow(&self, after: Seq) -> Follower {
        self.log.follow(after)
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
        self.control.send(Control::Inspect(look)).await.map_err(|_| SubmitError::Stopped)?;
        answer.await.map_err(|_| SubmitError::Stopped)
    }

    /// Stops the writer after what it has in hand, and waits until it is gone. The log stays as
    /// it is; whoever opens the session next goes on from there.
    pub async fn stop(&self) {
        // Closed already means stopped already.
        let _ = self.control.send(Control::Stop).await;
        self.gone().await;
    }
}
