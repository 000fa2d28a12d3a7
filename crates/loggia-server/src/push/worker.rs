//! The worker of a webhook: delivers from its cursor to the head, one notification at a time, in order.
//!
//! Its state is in the store. Each pass reads the registration and the cursor, opens the session and delivers; a
//! notification that fails ends the pass, and the next pass begins at the cursor after a delay. No session is held
//! open between passes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loggia_core::{Command, Level, Origin, Seq, SessionId, TaskState};
use loggia_session::{Follower, HubError, SessionHandle, StoreError};
use loggia_wire::{End, FrameId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::record::{Cursor, Failing, Key, Registration};
use super::sender::Outcome;
use super::target;
use super::{Inner, backoff};
use crate::projection::{EncodedFrame, Frames, ProjectionReader};
use crate::time::now;

/// Until a session that another process has open, or a store that failed, is tried again.
const RETRY_OPEN: Duration = Duration::from_secs(30);
/// Until a session that just stopped is opened again.
const REOPEN: Duration = Duration::from_millis(200);
/// How often a waiting worker reads the head of its session.
const CHECK_HEAD: Duration = Duration::from_secs(300);

pub(super) struct Worker {
    pub outbox: Arc<Inner>,
    pub key: Key,
    pub number: u64,
    pub woken: Arc<Notify>,
    pub cancel: CancellationToken,
}

/// How a pass ended.
enum Next {
    /// The task is over and delivered, or the webhook was removed.
    Nothing,
    /// The task waits for an answer: there is nothing to deliver until its session moves on.
    Wait {
        follower: Follower,
        session: SessionId,
        head: Seq,
    },
    Later(Duration),
    Stop,
}

/// One pass.
struct Pass<'a> {
    outbox: &'a Inner,
    registration: Registration,
    cursor: Cursor,
    handle: SessionHandle,
    projection: ProjectionReader,
    /// The next frame is the first of the task, or the first after its end: it may be the whole task.
    takes_task: bool,
}

impl Worker {
    pub async fn run(self) {
        // A notification under way at a cancellation counts as not delivered.
        let cancel = self.cancel.clone();
        cancel.run_until_cancelled(self.work()).await;
    }

    async fn work(&self) {
        loop {
            let next = self.pass().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a webhook is retried later");
                Next::Later(RETRY_OPEN)
            });
            let go_on = async {
                match next {
                    Next::Nothing => !self.outbox.retire(&self.key, self.number),
                    Next::Stop => false,
                    Next::Later(delay) => {
                        tokio::time::sleep(delay).await;
                        true
                    }
                    Next::Wait { follower, session, head } => {
                        self.wait(follower, &session, head).await;
                        true
                    }
                }
            };
            match self.outbox.stopping.run_until_cancelled(go_on).await {
                Some(true) => {}
                Some(false) | None => return,
            }
        }
    }

    /// Waits until the session has moved on from `head`. Holds no handle, so the session may be closed
    /// meanwhile; a request that opens it for this task wakes the worker.
    async fn wait(&self, mut follower: Follower, session: &SessionId, head: Seq) {
        let moved = async {
            // None: the session was closed, and moves on only after it is opened again.
            if !matches!(follower.next().await, Ok(Some(_))) {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(moved);
        loop {
            tokio::select! {
                () = &mut moved => return,
                () = self.woken.notified() => return,
                () = tokio::time::sleep(CHECK_HEAD) => {}
            }
            if self.outbox.hub.store().head(session).await != Ok(Some(head)) {
                return;
            }
        }
    }

    async fn pass(&self) -> Result<Next, StoreError> {
        let outbox = &self.outbox;
        let Some(registration) = outbox.records.registration(&self.key).await? else {
            return Ok(Next::Nothing);
        };
        let cursor = outbox.records.cursor(&registration).await?;
        let head = outbox.hub.store().head(&registration.session).await?;
        if cursor.settled.is_some() && cursor.settled == head {
            return Ok(Next::Nothing);
        }
        let handle = match outbox.hub.open(&registration.session).await {
            Ok(handle) => handle,
            Err(HubError::Store(StoreError::Unknown(_))) => {
                outbox.records.forget(&self.key).await?;
                outbox.records.forget_cursor(&self.key).await?;
                return Ok(Next::Nothing);
            }
            Err(HubError::Store(StoreError::Busy { .. })) => return Ok(Next::Later(RETRY_OPEN)),
            Err(HubError::Store(error)) => return Err(error),
            Err(HubError::Submit(_)) => return Ok(Next::Later(REOPEN)),
        };
        let projection = outbox.projections.reader(&handle, registration.view());
        if !projection.reach(handle.head()).await {
            return Ok(Next::Later(REOPEN));
        }
        let takes_task = cursor.delivered.is_none() || cursor.settled.is_some();
        let pass = Pass { outbox, registration, cursor, handle, projection, takes_task };
        match pass.run().await {
            Err(Ended(next)) => next,
            Ok(next) => Ok(next),
        }
    }
}

/// Ends a pass early.
struct Ended(Result<Next, StoreError>);

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Ended(Err(error))
    }
}

impl Pass<'_> {
    async fn run(mut self) -> Result<Next, Ended> {
        let mut frames = match self.cursor.after(self.registration.start) {
            Some(after) => self.projection.frames(after),
            None => match self.send_task().await? {
                Some(frames) => frames,
                None => return Ok(Next::Nothing),
            },
        };
        loop {
            if self.outbox.stopping.is_cancelled() {
                return Ok(Next::Stop);
            }
            // Read before the frames, so that a later event is among them.
            let (head, state) = self.head_and_state();
            if frames.has_all_up_to(head)
                && let Some(next) = self.after_delivery(head, state).await?
            {
                return Ok(next);
            }
            let next = self.outbox.stopping.run_until_cancelled(frames.next());
            let batch = match next.await {
                Some(Ok(Some(batch))) => batch,
                Some(Ok(None)) => return Ok(Next::Later(REOPEN)),
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(Next::Stop),
            };
            if self.registration.view().pushes_updates() {
                self.send_each(&batch).await?;
            } else if self.has_news(&batch) {
                match self.send_task().await? {
                    Some(after) => frames = after,
                    None => return Ok(Next::Nothing),
                }
            }
        }
    }

    fn head_and_state(&self) -> (Seq, Option<TaskState>) {
        let task = &self.registration.task;
        self.projection.with_projector(|projector| {
            (projector.head(), projector.tasks().get(task).map(|view| view.state))
        })
    }

    /// What follows after everything up to `head` is delivered.
    async fn after_delivery(
        &mut self,
        head: Seq,
        state: Option<TaskState>,
    ) -> Result<Option<Next>, StoreError> {
        let over = state.is_none_or(TaskState::is_over);
        if over {
            self.cursor.settled = Some(head);
            self.keep().await?;
            return Ok(Some(Next::Nothing));
        }
        Ok((state == Some(TaskState::InputRequired)).then(|| Next::Wait {
            follower: self.handle.follow_while_open(head),
            session: self.registration.session.clone(),
            head,
        }))
    }

    /// 1.0: sends every frame of the task, as a stream would: at most one whole task, as the first frame
    /// ([`loggia_wire::TaskStream`]).
    async fn send_each(&mut self, batch: &[Arc<EncodedFrame>]) -> Result<(), Ended> {
        let task = self.registration.task.clone();
        for frame in batch.iter().filter(|frame| frame.task == task) {
            let mark = frame.mark();
            if mark.whole && !self.takes_task {
                continue;
            }
            self.send(frame.id, frame.body.clone(), None).await?;
            self.takes_task = mark.ends == Some(End::Terminal);
            if self.outbox.stopping.is_cancelled() {
                return Err(Ended(Ok(Next::Stop)));
            }
        }
        Ok(())
    }

    /// 0.3 sends tasks and not frames: whether the task has changed since the last one.
    fn has_news(&self, batch: &[Arc<EncodedFrame>]) -> bool {
        let task = &self.registration.task;
        let mut own = batch.iter().filter(|frame| frame.task == *task).peekable();
        let any = own.peek().is_some();
        any && (own.any(|frame| frame.ends.is_some())
            || self.head_and_state().1 != self.cursor.state)
    }

    /// Sends the task as it is now, and returns the frames after it; None if there is no such task.
    async fn send_task(&mut self) -> Result<Option<Frames>, Ended> {
        let task = &self.registration.task;
        let opening = self.projection.with_projector(|projector| {
            let state = projector.tasks().get(task).map(|view| view.state);
            projector.opening(task).map(|frame| (frame, state))
        });
        let Some((frame, state)) = opening else { return Ok(None) };
        let frame = EncodedFrame::new(&self.registration.session, frame);
        self.send(frame.id, frame.body, state).await?;
        self.takes_task = state.is_some_and(TaskState::is_over);
        Ok(Some(self.projection.frames(frame.id)))
    }

    async fn send(
        &mut self,
        id: FrameId,
        body: Bytes,
        state: Option<TaskState>,
    ) -> Result<(), Ended> {
        let name = format!("{}-{id}", self.registration.serial);
        let outbox = self.outbox;
        if let Some(oauth) = outbox.oauth.get()
            && !oauth.still_knows(&self.registration.principal).await?
        {
            tracing::info!(webhook = self.origin(), "a webhook is removed with its client");
            self.forget().await?;
            return Err(Ended(Ok(Next::Nothing)));
        }
        let outcome = {
            let slots = match self.cursor.failing {
                None => &outbox.first_attempts,
                Some(_) => &outbox.further_attempts,
            };
            let principal = &self.registration.principal;
            let server = format!("{principal} {}", self.origin());
            let _slot = slots.acquire([&server, principal, ""]).await;
            outbox.sender.post(&self.registration, &name, body).await
        };
        match outcome {
            Outcome::Delivered => {
                self.cursor.delivered = Some(id.to_string());
                self.cursor.state = state;
                self.cursor.failing = None;
                self.cursor.settled = None;
                self.keep().await?;
                Ok(())
            }
            Outcome::Gone => {
                tracing::info!(
                    webhook = self.origin(),
                    "a webhook replied that it is gone, and is removed"
                );
                self.forget().await?;
                Err(Ended(Ok(Next::Nothing)))
            }
            Outcome::Failed { why, retry_after } => {
                let delay = self.failed(&why, retry_after).await?;
                Err(Ended(Ok(delay.map_or(Next::Nothing, Next::Later))))
            }
        }
    }

    /// How long to wait; None after the last attempt.
    async fn failed(
        &mut self,
        why: &str,
        retry_after: Option<Duration>,
    ) -> Result<Option<Duration>, StoreError> {
        let options = &self.outbox.options;
        let at = now();
        let first = Failing { since: at, attempts: 0 };
        let Failing { since, attempts } = self.cursor.failing.unwrap_or(first);
        let waited = u64::try_from(at.0.saturating_sub(since.0)).unwrap_or(0);
        tracing::info!(webhook = self.origin(), why, attempts, "a notification was not delivered");
        if u128::from(waited) >= options.give_up.as_millis() {
            self.give_up(why).await?;
            return Ok(None);
        }
        let attempts = attempts.saturating_add(1);
        self.cursor.failing = Some(Failing { since, attempts });
        self.keep().await?;
        let (first, longest) = (options.first_delay, options.longest_delay);
        let delay = backoff::delay(attempts, first, longest, backoff::random());
        Ok(Some(delay.max(retry_after.unwrap_or_default().min(longest))))
    }

    /// Writes a notice into the session, then removes the webhook.
    async fn give_up(&self, why: &str) -> Result<(), StoreError> {
        let hours = self.outbox.options.give_up.as_secs() / 3_600;
        let text = format!(
            "Push notifications to {} were given up after {hours} hours: {why}. Register the \
             webhook again to continue.",
            self.origin()
        );
        let notice = Command::Notice { level: Level::Warning, text };
        if let Err(error) = self.handle.submit(notice, Origin::system()).await {
            tracing::warn!(%error, "the notice that a webhook was given up was not written");
        }
        self.forget().await
    }

    /// Not through the outbox, which would wait for this worker.
    async fn forget(&self) -> Result<(), StoreError> {
        let key = self.registration.key();
        self.outbox.records.forget(&key).await?;
        self.outbox.records.forget_cursor(&key).await
    }

    async fn keep(&self) -> Result<(), StoreError> {
        self.outbox.records.keep_cursor(&self.registration.key(), &self.cursor).await
    }

    fn origin(&self) -> String {
        target::origin(&self.registration.url)
    }
}
