//! Client for a session in another process.
//!
//! Uses one WebSocket to `/ws` with the `loggia` subprotocol and keeps a replica of the log. After
//! a lost connection, the next one continues at the cursor. Commands do not survive their
//! connection: an unconfirmed command is not resent, and a command without a connection fails
//! immediately, because a late answer could answer a question that the person has not seen. Only an
//! unconfirmed prompt is resent after a short interruption. Its id makes the repetition harmless.

mod pairing;
mod tls;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{SinkExt, StreamExt};
use loggia_core::{Command, CustomCommands, Envelope, Origin, Seq, SessionId};
use loggia_session::{Ack, SessionClient, StoreError, SubmitError};
use loggia_wire::attach::{ClientCommand, CommandRequest, SUBPROTOCOL, Update};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

pub use self::pairing::Registered;
use crate::exit::UsageError;

/// Maximum number of commands in flight; more fail as busy.
const COMMANDS: usize = 64;
/// Maximum number of events per read.
const BATCH: usize = 256;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// An unconfirmed prompt is resent after an interruption shorter than this. After a longer one it
/// is returned to the person.
const RESEND_WITHIN: Duration = Duration::from_secs(10);
/// The server pings every 30 s, so a connection silent for this long is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Reply = oneshot::Sender<Result<Ack, SubmitError>>;

/// The server address and credentials.
#[derive(Clone)]
pub struct Address {
    pub url: String,
    pub token: Option<String>,
    pub session: Option<SessionId>,
    pub name: Option<String>,
    /// CA certificates; None uses the system certificate store.
    pub authorities: Option<PathBuf>,
    /// Credentials for renewing the token, kept in memory only.
    pub registered: Option<Registered>,
}

#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("{0} is not a valid address: `loggia attach http://localhost:1234`")]
    Address(String),
    #[error("cannot connect to {url}: {why}")]
    Unreachable { url: String, why: String },
    #[error("{url} refused ({status}): {hint}")]
    Refused { url: String, status: u16, hint: &'static str },
    /// The token endpoint refused.
    #[error("access refused ({status}): {why}")]
    NotLetIn { status: u16, why: String },
    #[error("{0}")]
    Failed(String),
}

impl Address {
    /// Refuses to send a token or code unencrypted over a network.
    pub fn refuse_plaintext(&self, something: bool) -> Result<(), UsageError> {
        let (encrypted, rest) = parse_url(self).map_err(|error| UsageError(error.to_string()))?;
        let host = rest.split('/').next().unwrap_or(rest);
        if !something || encrypted || is_this_machine(host) {
            return Ok(());
        }
        Err(UsageError(format!(
            "the token would be sent to {host} in the clear, where others can read it: attach to \
             https://{host}, or use `ssh -L` to a server with --allow-hidden-peers; --insecure sends it anyway"
        )))
    }
}

/// Whether `host` or `host:port` is always this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(loopback)
}

/// A connection problem as text for the status line. Empty while connected.
pub type Problem = String;

#[derive(Clone)]
pub struct RemoteClient {
    /// This client's identity in the session. It changes with every connection.
    pub you: watch::Receiver<Origin>,
    /// The head of the log when this client connected.
    pub head: Seq,
    replica: Arc<Replica>,
    commands: mpsc::Sender<(ClientCommand, Reply)>,
    reached: watch::Receiver<Seq>,
    /// The connected clients.
    pub present: watch::Receiver<Vec<Origin>>,
    pub problem: watch::Receiver<Problem>,
    /// The custom commands of the server when the connection was made.
    pub custom: watch::Receiver<CustomCommands>,
}

/// The log received so far. The lock is held only to push or to copy pointers.
#[derive(Default)]
struct Replica {
    events: RwLock<Vec<Arc<Envelope>>>,
}

impl Replica {
    fn push(&self, envelope: Arc<Envelope>) -> Option<Seq> {
        let mut events = self.events.write().unwrap_or_else(PoisonError::into_inner);
        let seq = envelope.seq;
        // A repeated event after a reconnect. There are no gaps, because the log is dense and
        // ordered.
        if seq.0 != events.len() as u64 + 1 {
            return None;
        }
        events.push(envelope);
        Some(seq)
    }

    fn after(&self, seq: Seq) -> Vec<Arc<Envelope>> {
        let events = self.events.read().unwrap_or_else(PoisonError::into_inner);
        let skip = usize::try_from(seq.0).unwrap_or(usize::MAX);
        events.iter().skip(skip).take(BATCH).cloned().collect()
    }
}

impl RemoteClient {
    /// Fails if the first connection fails. Later connections are retried indefinitely.
    pub async fn connect(address: Address) -> Result<Self, AttachError> {
        let connector = connector(&address).await?;
        let (socket, welcome) = join(&address, &connector, Seq::ZERO).await?;
        let Welcome { session, you, head, commands } = welcome;
        let (custom_sender, custom) = watch::channel(commands);
        // Full: `submit` returns `Busy`.
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (head_sender, reached) = watch::channel(Seq::ZERO);
        let (present_sender, present) = watch::channel(Vec::new());
        let (problem_sender, problem) = watch::channel(Problem::new());
        let (you_sender, you) = watch::channel(you);
        let replica = Arc::new(Replica::default());
        let link = Link {
            address,
            connector,
            session,
            you: you_sender,
            replica: replica.clone(),
            head: head_sender,
            present: present_sender,
            problem: problem_sender,
            custom: custom_sender,
            commands,
            pending: BTreeMap::new(),
            next: 1,
            catch_up_to: None,
        };
        tokio::spawn(link.run(socket));
        Ok(Self { you, head, replica, commands: sender, reached, present, problem, custom })
    }
}

impl SessionClient for RemoteClient {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Ack, SubmitError>> {
        Box::pin(async move {
            let Some(command) = ClientCommand::of(command) else {
                let why = "this is only possible in the session's own process".to_owned();
                return Err(SubmitError::Store(StoreError::Io(why)));
            };
            let (reply, answer) = oneshot::channel();
            self.commands.try_send((command, reply)).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SubmitError::Busy,
                mpsc::error::TrySendError::Closed(_) => SubmitError::Stopped,
            })?;
            answer.await.map_err(|_| SubmitError::Stopped)?
        })
    }

    fn follow(&self, after: Seq) -> BoxStream<'static, Result<Arc<Envelope>, StoreError>> {
        let state = (self.replica.clone(), self.reached.clone(), after);
        futures::stream::unfold(state, |(replica, mut head, cursor)| async move {
            // Closed: the link has ended, so no more events will come.
            let _ = head.wait_for(|head| *head > cursor).await;
            let events = replica.after(cursor);
            let last = events.last()?.seq;
            let events: Vec<_> = events.into_iter().map(Ok).collect();
            Some((futures::stream::iter(events), (replica, head, last)))
        })
        .flatten()
        .boxed()
    }
}

/// Owns the socket.
struct Link {
    address: Address,
    connector: Connector,
    session: SessionId,
    you: watch::Sender<Origin>,
    replica: Arc<Replica>,
    head: watch::Sender<Seq>,
    present: watch::Sender<Vec<Origin>>,
    problem: watch::Sender<Problem>,
    custom: watch::Sender<CustomCommands>,
    commands: mpsc::Receiver<(ClientCommand, Reply)>,
    /// Sent and not yet answered, by id.
    pending: BTreeMap<u64, (ClientCommand, Reply)>,
    next: u64,
    /// The head of the log after a reconnect. Until the replica has caught up, the screen may not
    /// show the current question.
    catch_up_to: Option<Seq>,
}

/// Why a connection ended.
enum Disconnected {
    /// All clients were dropped.
    Left,
    Lost(String),
}

impl Link {
    async fn run(mut self, mut socket: Socket) {
        loop {
            let why = match self.serve(&mut socket).await {
                Disconnected::Left => {
                    // The server notices either way.
                    let _ = socket.close(None).await;
                    return;
                }
                Disconnected::Lost(why) => why,
            };
            self.problem.send_replace(format!("connection lost, trying again ({why})"));
            self.fail_pending(|command| !matches!(command, ClientCommand::Prompt { .. }));
            match self.reconnect().await {
                Some(fresh) => socket = fresh,
                None => return,
            }
            self.clear_trouble_once_current();
        }
    }

    /// Fails the selected pending commands.
    fn fail_pending(&mut self, which: impl Fn(&ClientCommand) -> bool) {
        let (failed, kept) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(_, (command, _))| which(command));
        self.pending = kept;
        let failed: BTreeMap<u64, (ClientCommand, Reply)> = failed;
        for (command, reply) in failed.into_values() {
            let (what, end) = described(&command);
            fail(reply, format!("the connection was lost before {what} was confirmed{end}"));
        }
    }

    fn clear_trouble_once_current(&mut self) {
        let head = *self.head.borrow();
        if self.catch_up_to.take_if(|catch_up_to| *catch_up_to <= head).is_some() {
            self.problem.send_replace(Problem::new());
        }
    }

    async fn serve(&mut self, socket: &mut Socket) -> Disconnected {
        // Only prompts are left here, after a short interruption. Their ids make a repetition
        // harmless.
        let unconfirmed: Vec<u64> = self.pending.keys().copied().collect();
        for id in unconfirmed {
            if let Err(broken) = self.send(socket, id).await {
                return broken;
            }
        }
        loop {
            tokio::select! {
                sent = self.commands.recv() => {
                    let Some(sent) = sent else { return Disconnected::Left };
                    let id = self.next;
                    self.next += 1;
                    self.pending.insert(id, sent);
                    if let Err(broken) = self.send(socket, id).await {
                        return broken;
                    }
                }
                message = tokio::time::timeout(READ_TIMEOUT, socket.next()) => match message {
                    Ok(Some(Ok(Message::Text(text)))) => match serde_json::from_str(&text) {
                        // Not about a single command, so the state of all commands is unknown.
                        Ok(Update::Failed { id: None, message }) => return Disconnected::Lost(message),
                        Ok(update) => self.receive(update),
                        Err(error) => return Disconnected::Lost(format!("not understood: {error}")),
                    },
                    Ok(Some(Ok(Message::Close(frame)))) => {
                        let reason = frame.map(|frame| frame.reason.to_string());
                        return Disconnected::Lost(reason.unwrap_or_else(|| "closed".to_owned()));
                    }
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(error))) => return Disconnected::Lost(error.to_string()),
                    Ok(None) => return Disconnected::Lost("closed".to_owned()),
                    Err(_) => return Disconnected::Lost("silence".to_owned()),
                },
            }
        }
    }

    async fn send(&self, socket: &mut Socket, id: u64) -> Result<(), Disconnected> {
        let Some((command, _)) = self.pending.get(&id) else { return Ok(()) };
        let request = CommandRequest { id, command: command.clone() };
        let text = serde_json::to_string(&request).unwrap_or_default();
        let sent = socket.send(Message::Text(text.into())).await;
        sent.map_err(|error| Disconnected::Lost(error.to_string()))
    }

    fn receive(&mut self, update: Update) {
        match update {
            Update::Welcome { .. } | Update::Failed { id: None, .. } => {}
            Update::Event { envelope } => {
                if let Some(seq) = self.replica.push(envelope) {
                    self.head.send_replace(seq);
                    self.clear_trouble_once_current();
                }
            }
            Update::Present { clients } => {
                self.present.send_replace(clients);
            }
            Update::Done { id, after, seq, task } => {
                self.answer(id, Ok(Ack { after, seq, task, answered: None }));
            }
            Update::Refused { id, refusal } => {
                self.answer(id, Err(SubmitError::Refused(refusal)));
            }
            Update::Failed { id: Some(id), message } => {
                self.answer(id, Err(SubmitError::Store(StoreError::Io(message))));
            }
        }
    }

    fn answer(&mut self, id: u64, result: Result<Ack, SubmitError>) {
        if let Some((_, reply)) = self.pending.remove(&id) {
            // The receiver may be gone.
            let _ = reply.send(result);
        }
    }

    /// Reconnects at the cursor and fails new commands meanwhile. None if all clients were dropped
    /// or another session is shared there.
    async fn reconnect(&mut self) -> Option<Socket> {
        let mut pause = FIRST_PAUSE;
        let broken = Instant::now();
        loop {
            if broken.elapsed() > RESEND_WITHIN {
                self.fail_pending(|_| true);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.head.closed() => return None,
                () = refuse(&mut self.commands) => return None,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            let head = *self.head.borrow();
            let attempt = tokio::select! {
                attempt = join(&self.address, &self.connector, head) => attempt,
                () = refuse(&mut self.commands) => return None,
            };
            let error = match attempt {
                Ok((socket, welcome)) if welcome.session == self.session => {
                    if broken.elapsed() > RESEND_WITHIN {
                        self.fail_pending(|_| true);
                    }
                    self.you.send_replace(welcome.you);
                    self.custom.send_replace(welcome.commands);
                    self.catch_up_to = Some(welcome.head);
                    return Some(socket);
                }
                Ok((_, Welcome { session, .. })) => {
                    let why = format!("the server now shares another session ({session})");
                    self.problem.send_replace(why);
                    return None;
                }
                Err(error) => error,
            };
            // A token is valid for an hour and can be renewed with the credentials of the pairing.
            if matches!(error, AttachError::Refused { status: 401, .. })
                && self.address.registered.is_some()
            {
                let renewed = tokio::select! {
                    renewed = self.address.renew() => renewed,
                    () = refuse(&mut self.commands) => return None,
                };
                match renewed {
                    Ok(()) => continue,
                    // Revoked or expired. Retrying would count as a failed attempt.
                    Err(AttachError::NotLetIn { status: 400 | 401 | 403, why }) => {
                        let why = format!("this device no longer has access ({why})");
                        self.problem.send_replace(why);
                        return None;
                    }
                    Err(_) => {}
                }
            }
            // Distinguishes a revoked token from an unreachable server.
            self.problem.send_replace(format!("trying again: {error}"));
        }
    }
}

/// Fails all commands while there is no connection, until all clients were dropped.
async fn refuse(commands: &mut mpsc::Receiver<(ClientCommand, Reply)>) {
    while let Some((command, reply)) = commands.recv().await {
        fail(reply, format!("not connected: {} was not sent", described(&command).0));
    }
}

fn fail(reply: Reply, why: String) {
    // The receiver may be gone.
    let _ = reply.send(Err(SubmitError::Store(StoreError::Io(why))));
}

/// The command in a message, and the end of the message if it was not confirmed.
fn described(command: &ClientCommand) -> (&'static str, &'static str) {
    match command {
        ClientCommand::Prompt { .. } => ("your prompt", ""),
        ClientCommand::Shell { .. } => ("your command", ": it may run"),
        ClientCommand::Answer { .. } => ("your answer", ": it is not sent again"),
        ClientCommand::Cancel { .. } => ("the cancellation", ": it is not sent again"),
    }
}

async fn join(
    address: &Address,
    connector: &Connector,
    after: Seq,
) -> Result<(Socket, Welcome), AttachError> {
    let mut socket = open(address, connector, after).await?;
    let welcome = welcome(&mut socket).await?;
    Ok((socket, welcome))
}

/// A plain connector, or TLS with the configured CA certificates.
async fn connector(address: &Address) -> Result<Connector, AttachError> {
    let (encrypted, _) = parse_url(address)?;
    if !encrypted {
        return Ok(Connector::Plain);
    }
    let authorities = address.authorities.clone();
    let made = tokio::task::spawn_blocking(move || tls::connector(authorities.as_deref())).await;
    made.map_err(|error| AttachError::Failed(error.to_string()))?
}

async fn open(address: &Address, connector: &Connector, after: Seq) -> Result<Socket, AttachError> {
    let url = endpoint(address, after)?;
    let bad = |_| AttachError::Address(address.url.clone());
    let mut request = url.as_str().into_client_request().map_err(bad)?;
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
    if let Some(token) = &address.token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| AttachError::Failed("the token contains invalid characters".into()))?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    let connector = Some(connector.clone());
    match connect_async_tls_with_config(request, None, false, connector).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => {
            let status = response.status().as_u16();
            let hint = match status {
                401 => "it requires a token: --token-file FILE, or --code with a one-time code",
                403 => "this user or token may not use it",
                404 => "not a Loggia server, or an old version",
                421 => "it does not accept this host name: see --allowed-host",
                503 => "too many connections",
                _ => "see its log",
            };
            Err(AttachError::Refused { url: address.url.clone(), status, hint })
        }
        Err(error) => {
            Err(AttachError::Unreachable { url: address.url.clone(), why: tls::explain(&error) })
        }
    }
}

struct Welcome {
    session: SessionId,
    you: Origin,
    head: Seq,
    commands: CustomCommands,
}

async fn welcome(socket: &mut Socket) -> Result<Welcome, AttachError> {
    let first = loop {
        match tokio::time::timeout(Duration::from_secs(10), socket.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => break text,
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            _ => {
                return Err(AttachError::Failed(
                    "the server closed the connection without a message".into(),
                ));
            }
        }
    };
    match serde_json::from_str(&first) {
        Ok(Update::Welcome { session, you, head, commands }) => {
            Ok(Welcome { session, you, head, commands })
        }
        Ok(Update::Failed { message, .. }) => Err(AttachError::Failed(message)),
        Ok(_) | Err(_) => Err(AttachError::Failed("not a Loggia server, or an old version".into())),
    }
}

/// Splits an address such as `localhost:1234`, `http://…` or `ws://…`, with or without a path, into
/// whether it is encrypted and the rest.
fn parse_url(address: &Address) -> Result<(bool, &str), AttachError> {
    let url = address.url.trim();
    let (encrypted, rest) = match url.split_once("://") {
        Some(("http" | "ws", rest)) => (false, rest),
        Some(("https" | "wss", rest)) => (true, rest),
        Some(_) => return Err(AttachError::Address(address.url.clone())),
        None => (false, url),
    };
    let rest = rest.trim_end_matches('/');
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
    if rest.is_empty() || rest.contains(['?', '#', '@']) || !plain(rest) {
        return Err(AttachError::Address(address.url.clone()));
    }
    Ok((encrypted, rest.strip_suffix("/ws").unwrap_or(rest)))
}

fn endpoint(address: &Address, after: Seq) -> Result<String, AttachError> {
    let (encrypted, rest) = parse_url(address)?;
    let scheme = if encrypted { "wss" } else { "ws" };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("after", &after.to_string());
    query.extend_pairs(address.session.as_ref().map(|session| ("session", session.as_str())));
    query.extend_pairs(address.name.as_ref().map(|name| ("name", name)));
    Ok(format!("{scheme}://{rest}/ws?{}", query.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        let url = url.into();
        let (token, session, name, authorities, registered) = (None, None, None, None, None);
        Address { url, token, session, name, authorities, registered }
    }

    #[test]
    fn a_token_stays_on_this_machine_unless_it_is_encrypted() {
        let kept = |url: &str| address(url).refuse_plaintext(true).map_err(|UsageError(why)| why);
        let here = ["localhost:1", "http://LOCALHOST", "127.0.0.1:9", "ws://[::1]:1", "127.8.8.8"];
        for url in here.into_iter().chain(["https://box.example", "wss://10.0.0.1:4"]) {
            assert_eq!(kept(url), Ok(()), "{url}");
        }
        let elsewhere = ["http://box.example", "box:41242", "10.0.0.1:4", "ws://[fd00::2]:1"];
        let tricks = ["localhost.example", "127.0.0.1.example:1", "0.0.0.0:1", "2130706433:1"];
        for url in elsewhere.into_iter().chain(tricks) {
            let why = kept(url).unwrap_err();
            assert!(why.contains("in the clear") && why.contains("--insecure"), "{url}: {why}");
            assert!(address(url).refuse_plaintext(false).is_ok(), "nothing to keep");
        }
    }

    #[test]
    fn addresses_as_people_write_them() {
        for (given, expected) in [
            ("localhost:1234", "ws://localhost:1234/ws?after=7"),
            ("http://localhost:1234/", "ws://localhost:1234/ws?after=7"),
            ("ws://[::1]:1234/ws", "ws://[::1]:1234/ws?after=7"),
            ("https://box.example/loggia", "wss://box.example/loggia/ws?after=7"),
        ] {
            assert_eq!(endpoint(&address(given), Seq(7)).unwrap(), expected);
        }
        for wrong in ["", "ftp://x", "http://", "http://user:secret@host", "http://x/?a=b", "a b"] {
            assert!(endpoint(&address(wrong), Seq(7)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_cannot_change_the_address() {
        let named = Address {
            session: Some("s-1".into()),
            name: Some("ann&after=0".into()),
            ..address("localhost:1")
        };
        let expected = "ws://localhost:1/ws?after=0&session=s-1&name=ann%26after%3D0";
        assert_eq!(endpoint(&named, Seq::ZERO).unwrap(), expected);
    }
}
