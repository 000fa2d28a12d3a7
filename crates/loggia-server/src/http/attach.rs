//! The `loggia` subprotocol of `/ws`: a terminal elsewhere follows the log and sends commands.
//!
//! The forms are in [`loggia_wire::attach`]. Read by cursor like everything else: a terminal that
//! does not read its socket holds up nobody.

use std::sync::Arc;

use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use loggia_core::Seq;
use loggia_session::{SessionHandle, SubmitError};
use loggia_wire::attach::{ClientCommand, CommandRequest, PROMPT_LIMIT, Update};
use loggia_wire::{Dialect, WireError, refuse};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::ws::line::{self, Close, Hearing, Taking, WebSocket};
use super::ws::whole::Arrivals;
use crate::auth::Scopes;
use crate::dispatch::out_of_scope;
use crate::guard::{BytePermit, SMALL};
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// Answers waiting for the socket. Full: this client's next command waits.
const ANSWERS: usize = 64;

pub(super) async fn serve(
    server: Arc<Server>,
    caller: Caller,
    session: Result<SessionHandle, WireError>,
    after: Seq,
    (socket, arrivals): (WebSocket, Arc<Arrivals>),
    stopping: Stopping,
) {
    let (mut sink, source) = socket.split();
    let handle = match session {
        Ok(handle) => handle,
        Err(error) => {
            let message = refuse(&error, Dialect::A2a03).message;
            // The client may be gone already.
            let _ = sink.send(text(&Update::Failed { id: None, message })).await;
            let _ = sink.send(Message::Close(None)).await;
            return;
        }
    };
    let _present = server.presence.join(&caller.origin);
    let (answers, outgoing) = mpsc::channel(ANSWERS);
    let taking = Taking::new();
    let hearing = Hearing::new(source, server.limits.silence, &taking, arrivals);
    let show = Show {
        server: &server,
        handle: &handle,
        caller: &caller,
        outgoing,
        stopping,
        taking: &taking,
    };
    let hear = Hear { server: &server, handle: &handle, caller: &caller, answers };
    let close = tokio::select! {
        close = show.run(&mut sink, after) => close,
        close = hear.run(hearing) => close,
        () = caller.principal.tenure.clone().over() => Close::TENURE_OVER,
    };
    close.say(&mut sink).await;
}

struct Show<'a> {
    server: &'a Server,
    handle: &'a SessionHandle,
    caller: &'a Caller,
    outgoing: mpsc::Receiver<Update>,
    stopping: Stopping,
    taking: &'a Taking,
}

impl Show<'_> {
    /// Facts, answers and who is there, until either end goes.
    async fn run(mut self, sink: &mut SplitSink<WebSocket, Message>, after: Seq) -> Close {
        let welcome = Update::Welcome {
            session: self.handle.id().clone(),
            head: self.handle.head(),
            you: self.caller.origin.clone(),
            // Nobody is kept out because a file could not be read.
            commands: self.server.custom_of(self.handle).await.unwrap_or_default(),
        };
        let mut present = self.server.presence.watch();
        present.mark_changed();
        let mut follower = self.handle.follow(after);
        let (mut after, mut counted) = (after, None::<(BytePermit, usize)>);
        let mut ping = line::pings(self.server.limits.silence);
        let mut batch = vec![text(&welcome)];
        loop {
            for message in batch.drain(..) {
                // It is gone, or has taken nothing for too long.
                if self.taking.during(sink.send(message)).await.is_err() {
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
                                // Nothing of it stays in memory while it waits: it is read once more.
                                drop(events);
                                counted = tokio::select! {
                                    it = replies.acquire(name, weight) => it.map(|it| (it, weight)),
                                    () = self.stopping.told() => return Close::STOPPING,
                                };
                                if counted.is_none() {
                                    return Close::NO_ROOM;
                                }
                                follower = self.handle.follow(after);
                                continue;
                            }
                        }
                        for envelope in events.iter() {
                            after = envelope.seq;
                            let update = Update::Event { envelope: envelope.clone() };
                            let words = serde_json::to_string(&update).unwrap_or_default();
                            let parts = [words.into()];
                            let sending = async {
                                line::feed(sink, &parts).await?;
                                sink.flush().await
                            };
                            if self.taking.during(sending).await.is_err() {
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
                () = self.stopping.told() => return Close::STOPPING,
            }
        }
    }
}

struct Hear<'a> {
    server: &'a Server,
    handle: &'a SessionHandle,
    caller: &'a Caller,
    answers: mpsc::Sender<Update>,
}

impl Hear<'_> {
    /// Commands, one after the other, until the client goes or is silent for too long.
    async fn run(self, mut hearing: Hearing<'_>) -> Close {
        loop {
            // Counted until its command is taken.
            let (message, _counted) = match hearing.next().await {
                Ok(heard) => heard,
                Err(close) => return close,
            };
            let answer = match message {
                // Who was taken back is heard no more.
                Message::Text(_) if !self.caller.principal.tenure.holds().await => {
                    return Close::TENURE_OVER;
                }
                Message::Text(words) => match serde_json::from_str::<CommandRequest>(&words) {
                    Ok(wanted) => self.take(wanted).await,
                    Err(error) => Update::Failed { id: None, message: error.to_string() },
                },
                Message::Binary(_) => {
                    Update::Failed { id: None, message: "a frame must be text".into() }
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

    async fn take(&self, CommandRequest { id, command: wish }: CommandRequest) -> Update {
        let failed = |message| Update::Failed { id: Some(id), message };
        if let Some(scope) = missing(self.caller.principal.scopes, &wish) {
            return failed(refuse(&out_of_scope(scope), Dialect::A2a03).message);
        }
        if !fits(&wish) {
            return failed(format!("the prompt is larger than {PROMPT_LIMIT} bytes"));
        }
        let command = match self.server.screen_attached(wish, self.handle, self.caller).await {
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

fn fits(wish: &ClientCommand) -> bool {
    match wish {
        ClientCommand::Prompt { content, .. } => content.to_text().len() <= PROMPT_LIMIT,
        ClientCommand::Shell { line, .. } => line.len() <= PROMPT_LIMIT,
        ClientCommand::Answer { .. } | ClientCommand::Cancel { .. } => true,
    }
}

/// The scope that a wish lacks.
fn missing(scopes: Scopes, wish: &ClientCommand) -> Option<&'static str> {
    let (prompt, approve) = ((scopes.prompt, "prompt"), (scopes.approve, "approve"));
    let needed = match wish {
        ClientCommand::Prompt { .. } | ClientCommand::Cancel { .. } => [prompt; 2],
        ClientCommand::Answer { .. } => [approve; 2],
        // Whoever may not let a command run may not run one.
        ClientCommand::Shell { .. } => [prompt, approve],
    };
    needed.into_iter().find(|(given, _)| !given).map(|(_, scope)| scope)
}

fn text(update: &Update) -> Message {
    // Nothing in an update can fail to be written: its maps have text for keys.
    Message::Text(serde_json::to_string(update).unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use loggia_core::{Cancel, Content, Question};

    use super::*;

    #[test]
    fn what_a_terminal_may_want_by_what_its_person_may_do() {
        let nothing = Scopes { read: true, prompt: false, approve: false, admin: true };
        let prompts = Scopes { prompt: true, ..nothing };
        let approves = Scopes { approve: true, ..nothing };
        let prompt = ClientCommand::Prompt { prompt: "p".into(), content: Content::text("hi") };
        let shell = ClientCommand::Shell { prompt: "p".into(), line: "ls".into() };
        let to = Question::Call("c".into());
        let answer =
            ClientCommand::Answer { to, choice: "cancel".into(), edit: None, digest: None };
        let cancel = ClientCommand::Cancel { what: Cancel::Turn };
        let table = [
            // reads only, may prompt, may approve, both
            (prompt, [false, true, false, true]),
            (shell, [false, false, false, true]),
            (answer, [false, false, true, true]),
            (cancel, [false, true, false, true]),
        ];
        for (wish, wanted) in table {
            let may =
                [nothing, prompts, approves, Scopes::CLIENT].map(|it| missing(it, &wish).is_none());
            assert_eq!(may, wanted, "{wish:?}");
        }
    }
}
