//! The `loggia` subprotocol of `/ws`: a remote terminal follows the log and sends commands.
//!
//! The messages are defined in [`loggia_wire::attach`]. Events are read by cursor, so a terminal that does not read its
//! socket delays no other client.

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use loggia_core::Seq;
use loggia_session::{SessionHandle, SubmitError};
use loggia_wire::attach::{ClientCommand, CommandRequest, PROMPT_LIMIT, Update};
use loggia_wire::{View, WireError};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::ws::message_timeout::MessagePermits;
use super::ws::socket::{self, Close, MessageReader, WebSocket, WriteProgress};
use crate::guard::{BytePermit, SMALL};
use crate::required_scopes;
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// Answers waiting for the socket. When full, this client's next command waits.
const ANSWERS: usize = 64;

pub(super) async fn serve(
    server: Arc<Server>,
    caller: Caller,
    session: Result<SessionHandle, WireError>,
    after: Seq,
    (socket, permits): (WebSocket, Arc<MessagePermits>),
    stopping: Stopping,
) {
    let (mut sink, source) = socket.split();
    let handle = match session {
        Ok(handle) => handle,
        Err(error) => {
            let message = View::WEBSOCKET.refuse(&error).message;
            // The client may be gone already.
            let _ = sink.send(text(&Update::Failed { id: None, message })).await;
            let _ = sink.send(Message::Close(None)).await;
            return;
        }
    };
    let _present = server.presence.join(&caller.origin);
    let (answers, outgoing) = mpsc::channel(ANSWERS);
    let progress = WriteProgress::new();
    let reader = MessageReader::new(source, server.limits.silence, &progress, permits);
    let (server, handle, caller) = (&*server, &handle, &caller);
    let updates = Updates { server, handle, caller, outgoing, stopping, progress: &progress };
    let commands = Commands { server, handle, caller, answers };
    let close = tokio::select! {
        close = updates.send_all(&mut sink, after) => close,
        close = commands.take_all(reader) => close,
        () = caller.principal.lifetime.clone().ended() => Close::CREDENTIAL_EXPIRED,
    };
    close.send(&mut sink).await;
}

struct Updates<'a> {
    server: &'a Server,
    handle: &'a SessionHandle,
    caller: &'a Caller,
    outgoing: mpsc::Receiver<Update>,
    stopping: Stopping,
    progress: &'a WriteProgress,
}

impl Updates<'_> {
    /// Sends events, answers and the list of connected clients until the connection ends.
    async fn send_all(mut self, sink: &mut SplitSink<WebSocket, Message>, after: Seq) -> Close {
        let welcome = Update::Welcome {
            session: self.handle.id().clone(),
            head: self.handle.head(),
            you: self.caller.origin.clone(),
            // A file that cannot be read must not prevent attaching.
            commands: self.server.custom_of(self.handle).await.unwrap_or_default(),
        };
        let mut present = self.server.presence.watch();
        present.mark_changed();
        let mut follower = self.handle.follow(after);
        let (mut after, mut counted) = (after, None::<(BytePermit, usize)>);
        let mut ping = socket::pings(self.server.limits.silence);
        let mut batch = vec![text(&welcome)];
        loop {
            for message in batch.drain(..) {
                if self.progress.during(sink.send(message)).await.is_err() {
                    return Close::Silent;
                }
            }
            tokio::select! {
                Some(answer) = self.outgoing.recv() => batch.push(text(&answer)),
                events = follower.next() => match events {
                    Ok(Some(events)) => {
                        let weight: usize = events.iter().map(|event| event.approx_bytes()).sum();
                        if weight > counted.as_ref().map_or(SMALL, |(_, counted)| *counted) {
                            let (replies, name) =
                                (&self.server.replies, &self.caller.principal.name);
                            drop(counted.take());
                            counted = replies.try_acquire(name, weight).map(|it| (it, weight));
                            if counted.is_none() {
                                // Dropped while it waits, and read again afterwards.
                                drop(events);
                                counted = tokio::select! {
                                    it = replies.acquire(name, weight) => it.map(|it| (it, weight)),
                                    () = self.stopping.requested() => return Close::STOPPING,
                                };
                                if counted.is_none() {
                                    return Close::BUSY;
                                }
                                follower = self.handle.follow(after);
                                continue;
                            }
                        }
                        for envelope in events.iter() {
                            after = envelope.seq;
                            let envelope = match envelope.public() {
                                Cow::Borrowed(_) => envelope.clone(),
                                Cow::Owned(public) => Arc::new(public),
                            };
                            let update = Update::Event { envelope };
                            let words = serde_json::to_string(&update).unwrap_or_default();
                            let parts = [words.into()];
                            let sending = async {
                                socket::feed(sink, &parts).await?;
                                sink.flush().await
                            };
                            if self.progress.during(sending).await.is_err() {
                                return Close::Silent;
                            }
                        }
                        counted = None;
                    }
                    Ok(None) | Err(_) => return Close::STOPPED,
                },
                Ok(()) = present.changed() => {
                    let clients = present.borrow_and_update().clone();
                    let clients = self.server.seen_by(self.caller, clients);
                    batch.push(text(&Update::Present { clients }));
                }
                _ = ping.tick() => batch.push(Message::Ping(bytes::Bytes::new())),
                () = self.stopping.requested() => return Close::STOPPING,
            }
        }
    }
}

struct Commands<'a> {
    server: &'a Server,
    handle: &'a SessionHandle,
    caller: &'a Caller,
    answers: mpsc::Sender<Update>,
}

impl Commands<'_> {
    /// Takes commands one after the other until the connection ends.
    async fn take_all(self, mut reader: MessageReader<'_>) -> Close {
        loop {
            // The permit lasts until the command is taken.
            let (message, _permit) = match reader.next().await {
                Ok(read) => read,
                Err(close) => return close,
            };
            let answer = match message {
                Message::Text(_) if !self.caller.principal.lifetime.is_valid().await => {
                    return Close::CREDENTIAL_EXPIRED;
                }
                Message::Text(words) => match serde_json::from_str::<CommandRequest>(&words) {
                    Ok(wanted) => self.take(wanted).await,
                    Err(error) => Update::Failed { id: None, message: error.to_string() },
                },
                Message::Binary(_) => {
                    Update::Failed { id: None, message: "a message must be text".into() }
                }
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {
                    continue;
                }
            };
            if self.answers.send(answer).await.is_err() {
                return Close::Silent;
            }
        }
    }

    async fn take(&self, CommandRequest { id, command }: CommandRequest) -> Update {
        let failed = |message| Update::Failed { id: Some(id), message };
        if let Err(error) =
            required_scopes::check(required_scopes::of_command(&command), self.caller)
        {
            return failed(View::WEBSOCKET.refuse(&error).message);
        }
        if !fits(&command) {
            return failed(format!("the prompt is larger than {PROMPT_LIMIT} bytes"));
        }
        let command = match self.server.screen_attached(command, self.handle, self.caller).await {
            Ok(command) => command,
            Err(why) => return failed(why),
        };
        match self.handle.submit(command, self.caller.origin.clone()).await {
            Ok(ack) => Update::Done { id, after: ack.after, seq: ack.seq, task: ack.task },
            Err(SubmitError::Refused(refusal)) => Update::Refused { id, refusal },
            Err(error @ (SubmitError::Busy | SubmitError::Stopped | SubmitError::Store(_))) => {
                failed(error.to_string())
            }
        }
    }
}

fn fits(command: &ClientCommand) -> bool {
    match command {
        ClientCommand::Prompt { content, .. } => content.to_text().len() <= PROMPT_LIMIT,
        ClientCommand::Shell { line, .. } => line.len() <= PROMPT_LIMIT,
        ClientCommand::Answer { .. } | ClientCommand::Cancel { .. } => true,
    }
}

fn text(update: &Update) -> Message {
    // Cannot fail: all map keys are text.
    Message::Text(serde_json::to_string(update).unwrap_or_default().into())
}
