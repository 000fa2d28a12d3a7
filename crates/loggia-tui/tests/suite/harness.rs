//! A terminal interface in this process: an engine on a real session, a terminal emulator, and a
//! clock controlled by the test.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use futures::future::BoxFuture;
use loggia_core::{CustomCommands, Millis, Origin, Prices, SessionId, Surface};
use loggia_session::{Hub, LocalClient, SessionHandle};
use loggia_testkit::ScriptAgent;
use loggia_testkit::client::{create, memory_hub};
use loggia_tui::app::Effect;
use loggia_tui::app::{Msg, Start};
use loggia_tui::engine::Engine;
use loggia_tui::terminal::Inline;
use loggia_tui::uptime::Uptime;
use loggia_tui::{ConnectedClient, Host, Invitation, Preview, ShareFacts, view};
use tokio::sync::watch;

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// A host that keeps everything in memory.
pub struct MemoryHost {
    pub files: Vec<String>,
    pub written: Mutex<Vec<String>>,
    pub present: watch::Sender<Vec<ConnectedClient>>,
    pub previews: Vec<Preview>,
    pub commands: Mutex<CustomCommands>,
    pub prices: Prices,
    /// Why other sessions cannot be opened.
    pub unreachable: Option<String>,
    pub me: Option<watch::Sender<Origin>>,
    pub connection_problem: watch::Sender<String>,
}

impl Default for MemoryHost {
    fn default() -> Self {
        let (present, _) = watch::channel(Vec::new());
        let (connection_problem, _) = watch::channel(String::new());
        Self {
            files: Vec::new(),
            written: Mutex::default(),
            present,
            previews: Vec::new(),
            commands: Mutex::default(),
            prices: Prices::default(),
            unreachable: None,
            me: None,
            connection_problem,
        }
    }
}

impl Host for MemoryHost {
    fn files(&self, found: &mut dyn FnMut(String) -> ControlFlow<()>) {
        for file in &self.files {
            if found(file.clone()).is_break() {
                return;
            }
        }
    }

    fn commands(&self) -> CustomCommands {
        self.commands.lock().unwrap().clone()
    }

    fn history(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }

    fn remember(&self, text: &str) {
        self.written.lock().unwrap().push(text.to_owned());
    }

    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Preview>, String>> {
        Box::pin(async { Ok(self.previews.clone()) })
    }

    fn open_session<'a>(&'a self, _session: &'a SessionId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { self.unreachable.clone().map_or(Ok(()), Err) })
    }

    fn own_origin(&self) -> Option<watch::Receiver<Origin>> {
        self.me.as_ref().map(watch::Sender::subscribe)
    }

    fn share(&self) -> ShareFacts {
        ShareFacts {
            urls: vec!["ws://localhost:1234/ws".into()],
            attach: Some("loggia attach http://localhost:1234".into()),
            code: Some("http://localhost:1234".into()),
            ..ShareFacts::default()
        }
    }

    fn share_on(&self, port: Option<u16>) -> BoxFuture<'_, Result<ShareFacts, String>> {
        Box::pin(async move {
            let Some(port) = port else { return Ok(ShareFacts::default()) };
            if port == 1 {
                return Err("port 1 is taken".to_owned());
            }
            Ok(ShareFacts {
                urls: vec![format!("ws://localhost:{port}/ws")],
                ..ShareFacts::default()
            })
        })
    }

    fn invite<'a>(&'a self, scopes: &'a str) -> BoxFuture<'a, Result<ShareFacts, String>> {
        Box::pin(async move {
            if scopes == "admin" {
                return Err("a code cannot give admin".to_owned());
            }
            let invitation = Invitation {
                code: "ABCD-EFGH".into(),
                terms: format!("Good once, for {scopes}."),
                command: "loggia attach localhost:1234 --code ABCD-EFGH".into(),
            };
            Ok(ShareFacts { invitation: Some(invitation), ..self.share() })
        })
    }

    fn presence(&self) -> watch::Receiver<Vec<ConnectedClient>> {
        self.present.subscribe()
    }

    fn connection_problem(&self) -> watch::Receiver<String> {
        self.connection_problem.subscribe()
    }

    fn edit(&self, _name: &str, text: &str) -> Result<Option<String>, String> {
        Ok(Some(format!("{text} edited")))
    }
}

pub struct Harness {
    /// Kept alive with the harness.
    _hub: Hub,
    pub handle: SessionHandle,
    pub engine: Engine,
    pub host: Arc<MemoryHost>,
    inline: Inline,
    parser: vt100::Parser,
    now: u64,
    pub effects: Vec<Effect>,
}

impl Harness {
    pub async fn new(agent: Arc<ScriptAgent>) -> Self {
        Self::sized(agent, MemoryHost::default(), (80, 24)).await
    }

    pub async fn sized(agent: Arc<ScriptAgent>, host: MemoryHost, size: (u16, u16)) -> Self {
        let hub = memory_hub(agent);
        let handle = create(&hub).await;
        let me = Origin::new(Surface::Tui, "me");
        let client = Arc::new(LocalClient::new(handle.clone(), me.clone()));
        let host = Arc::new(host);
        let start = Start {
            me,
            head: handle.head(),
            opened: Millis(0),
            history: Vec::new(),
            fullscreen: false,
            vim: false,
            size,
            reflows: true,
            theme: loggia_tui::theme::Theme::default(),
            prices: host.prices.clone(),
            asks_background: false,
        };
        let some = |number| NonZero::new(number).unwrap();
        Self {
            _hub: hub,
            handle,
            engine: Engine::new(client, host.clone(), start),
            host,
            inline: Inline::new(size, Some(0)),
            parser: vt100::Parser::new(some(size.1), some(size.0), 10_000),
            now: 0,
            effects: Vec::new(),
        }
    }

    fn send(&mut self, msg: Msg) {
        let effects = self.engine.update(msg, Uptime(self.now));
        self.effects.extend(effects);
    }

    /// Draws like the runner after every message.
    fn draw(&mut self) {
        let model = &mut self.engine.model;
        let finished = view::finished(model, Uptime(self.now));
        let frame = view::inline(model, Uptime(self.now));
        self.inline.draw(&finished, &frame);
        self.parser.process(&self.inline.take());
        let shown = frame.shown(self.inline.top());
        self.send(Msg::Drawn(shown));
    }

    /// Types letters and keys in angle brackets, and draws after each.
    pub fn types(&mut self, script: &str) -> &mut Self {
        let mut rest = script;
        while let Some(letter) = rest.chars().next() {
            let event = match rest.strip_prefix('<').and_then(|named| named.split_once('>')) {
                Some((name, after)) => {
                    rest = after;
                    named(name)
                }
                None => {
                    rest = rest.strip_prefix(letter).unwrap();
                    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)
                }
            };
            self.send(Msg::Key(event));
            self.draw();
        }
        // Let the waiting time of a pending letter pass.
        let holds =
            self.engine.model.dialog.as_ref().is_some_and(|dialog| dialog.has_pending_letter());
        if holds { self.waits(loggia_tui::key_timing::ALONE) } else { self }
    }

    pub fn pastes(&mut self, text: &str) -> &mut Self {
        self.send(Msg::Paste(text.to_owned()));
        self.draw();
        self
    }

    /// Waits until the screen shows a text; the clock advances as the interface requests.
    pub async fn sees(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| screen.contains(text)).await
    }

    pub async fn sees_no(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| !screen.contains(text)).await
    }

    async fn until(&mut self, text: &str, fits: impl Fn(&str) -> bool) -> &mut Self {
        loop {
            self.draw();
            if fits(&self.screen()) {
                return self;
            }
            let next = tokio::time::timeout(TIMEOUT, self.engine.next()).await;
            match next {
                Ok(Ok(msg)) => self.send(msg),
                Ok(Err(exit)) => panic!("{exit:?} before {text:?}:\n{}", self.screen()),
                Err(_) => panic!("never {text:?}:\n{}", self.screen()),
            }
        }
    }

    /// Waits for an action for the owner of the terminal.
    pub async fn effects(&mut self) -> &[Effect] {
        while self.effects.is_empty() {
            let msg = tokio::time::timeout(TIMEOUT, self.engine.next()).await;
            self.send(msg.expect("a wish").expect("a session"));
        }
        &self.effects
    }

    /// Lets the dialog's guard time pass.
    pub fn reads(&mut self) -> &mut Self {
        self.draw();
        self.now += loggia_tui::key_timing::GUARD;
        self.send(Msg::Tick);
        self.draw();
        self
    }

    pub fn waits(&mut self, milliseconds: u64) -> &mut Self {
        self.now += milliseconds;
        self.send(Msg::Tick);
        self.draw();
        self
    }

    pub fn screen(&self) -> String {
        self.parser.screen().contents()
    }
}

fn named(name: &str) -> KeyEvent {
    let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
    match name {
        "enter" => plain(KeyCode::Enter),
        "esc" => plain(KeyCode::Esc),
        "tab" => plain(KeyCode::Tab),
        "up" => plain(KeyCode::Up),
        "down" => plain(KeyCode::Down),
        "backspace" => plain(KeyCode::Backspace),
        other => {
            let letter = other.strip_prefix("ctrl-").expect("a key's name");
            KeyEvent::new(KeyCode::Char(letter.chars().next().unwrap()), KeyModifiers::CONTROL)
        }
    }
}
