//! The event loop that owns the terminal. It sleeps while nothing changes and draws at most sixty
//! times a second.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::Event;
use loggia_session::SessionClient;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{Effect, Exit, Msg, Start};
use crate::background::{self, KeyOrReply, ReplyFilter};
use crate::engine::Engine;
use crate::host::Host;
use crate::input::Input;
use crate::renderer::Renderer;
use crate::tty::{self, Tty};
use crate::uptime::Uptime;
use crate::view;

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// Minimum time after a key, so that a stream of events does not delay its echo.
const ECHO: Duration = Duration::from_millis(4);
/// How long stopping the process may take.
const STOPPING: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    #[error("terminal I/O failed: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows a session until the person leaves. The future must run on the thread that blocks on it: a
/// panic there restores the terminal.
pub async fn run(
    client: Arc<dyn SessionClient>,
    host: Arc<dyn Host>,
    mut start: Start,
) -> Result<Exit, TuiError> {
    let tty = Tty::enter()?;
    let (reflows, asks) = (start.reflows, start.asks_background);
    let size = crossterm::terminal::size()?;
    start.size = size;
    let row = tty::cursor_row()?;
    let mut runner = Runner {
        tty,
        renderer: Renderer::new(size, row, reflows),
        engine: Engine::new(client, host, start),
        input: Some(Input::start()),
        answers: ReplyFilter::default(),
        asks,
        began: Instant::now(),
        drawn: None,
        dirty: true,
        urgent: false,
    };
    let exit = runner.run().await;
    runner.close(&exit)
}

struct Runner {
    tty: Tty,
    renderer: Renderer,
    engine: Engine,
    /// None while another program reads the terminal.
    input: Option<Input>,
    /// Filters terminal replies out of the keys, and whether to query the terminal.
    answers: ReplyFilter,
    asks: bool,
    began: Instant,
    drawn: Option<Instant>,
    dirty: bool,
    /// The pending frame shows the effect of a key.
    urgent: bool,
}

impl Runner {
    async fn run(&mut self) -> Result<Exit, TuiError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            if self.dirty && self.due() <= Instant::now() {
                self.draw()?;
            }
            let wake = self.wake();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let input = async {
                match &mut self.input {
                    Some(input) => input.events.recv().await,
                    None => std::future::pending().await,
                }
            };
            // Input first: a flood of events must not delay keys.
            let mut read = None;
            let msgs = tokio::select! {
                biased;
                _ = terminate.recv() => return Ok(Exit::Terminated),
                _ = hang_up.recv() => return Ok(Exit::HungUp),
                _ = interrupt.recv() => return Ok(Exit::Asked),
                event = input => match event {
                    Some((at, Ok(event))) => {
                        read = Some(at);
                        self.read(event)
                    }
                    Some((_, Err(_))) | None => return Ok(Exit::HungUp),
                },
                msg = self.engine.next() => match msg {
                    Ok(msg) => vec![msg],
                    Err(exit) => return Ok(exit),
                },
                () = sleep => vec![Msg::Tick],
            };
            // Use the time at which a key was read.
            let now = read.map_or_else(|| self.now(), |at| self.uptime(at));
            for msg in msgs {
                self.dirty = true;
                self.urgent |= matches!(msg, Msg::Key(_) | Msg::Paste(_) | Msg::Mouse(_));
                for effect in self.engine.update(msg, now) {
                    if let Some(exit) = self.perform(effect).await? {
                        return Ok(exit);
                    }
                }
            }
        }
    }

    fn now(&self) -> Uptime {
        self.uptime(Instant::now())
    }

    fn uptime(&self, at: Instant) -> Uptime {
        let since = at.saturating_duration_since(self.began);
        Uptime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// When the next frame may be drawn.
    fn due(&self) -> Instant {
        let pause = if self.urgent { ECHO } else { FRAME };
        self.drawn.map_or(self.began, |drawn| drawn + pause)
    }

    /// When to wake up without input.
    fn wake(&self) -> Option<Instant> {
        if self.dirty {
            return Some(self.due());
        }
        let next = self.engine.model.next_move(self.now())?;
        Some(self.began + Duration::from_millis(next.0))
    }

    fn read(&mut self, event: Event) -> Vec<Msg> {
        let msg = match event {
            Event::Key(key) => match self.answers.filter(key) {
                KeyOrReply::Keys(keys) => return keys.into_iter().map(Msg::Key).collect(),
                KeyOrReply::Background(background) => Msg::Background(background),
            },
            Event::Paste(text) => Msg::Paste(text),
            Event::Mouse(mouse) => Msg::Mouse(mouse),
            Event::FocusGained => Msg::Focus(true),
            Event::FocusLost => Msg::Focus(false),
            Event::Resize(width, height) => {
                self.renderer.resized();
                Msg::Resize(width, height)
            }
        };
        vec![msg]
    }

    fn draw(&mut self) -> Result<(), TuiError> {
        let now = self.now();
        let model = &mut self.engine.model;
        self.tty.alternate(model.full.is_some())?;
        // Before the frame, so that the mouse works once it is visible.
        self.tty.mouse(model.wants_mouse())?;
        let painted = self.renderer.draw(model, now);
        self.tty.write(&painted.bytes)?;
        if !self.tty.is_alternate() {
            self.tty.below(painted.last.unwrap_or(self.engine.model.size.1));
        }
        let now = self.now();
        self.engine.update(Msg::Drawn(painted.shown), now);
        if self.drawn.replace(Instant::now()).is_none() {
            // After the first frame, because it takes a while.
            std::thread::spawn(crate::highlight::warm);
            if self.asks {
                self.tty.ask(background::QUESTION)?;
            }
        }
        (self.dirty, self.urgent) = (false, false);
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> Result<Option<Exit>, TuiError> {
        match effect {
            Effect::Leave(exit) => return Ok(Some(exit)),
            Effect::Bell => self.tty.write(b"\x07")?,
            Effect::Copy(text) => execute_copy(&text)?,
            Effect::Redraw => self.renderer.forget(),
            Effect::Suspend => {
                self.leave().await?;
                // The signal may take effect a little later, so the terminal is not touched before
                // SIGCONT. A process that cannot be resumed is not stopped at all.
                let mut back = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TSTP);
                let _ = tokio::time::timeout(STOPPING, back.recv()).await;
                self.come_back()?;
            }
            Effect::EditOutside { what, name, text } => {
                self.leave().await?;
                let host = self.engine.host().clone();
                let edited = tokio::task::spawn_blocking(move || host.edit(&name, &text)).await;
                self.come_back()?;
                let result = edited.unwrap_or_else(|error| Err(error.to_string()));
                let now = self.now();
                self.engine.update(Msg::Edited { what, result }, now);
            }
            // The engine performs the others.
            _ => {}
        }
        Ok(None)
    }

    /// Hands the terminal to another program.
    async fn leave(&mut self) -> Result<(), TuiError> {
        if let Some(input) = self.input.take() {
            input.stop().await;
        }
        self.tty.alternate(false)?;
        let frame = self.renderer.close(&[]);
        self.tty.write(&frame)?;
        tty::restore();
        Ok(())
    }

    fn come_back(&mut self) -> Result<(), TuiError> {
        self.tty.enter_again()?;
        let size = crossterm::terminal::size()?;
        self.engine.model.size = size;
        self.renderer.begin_again(size, tty::cursor_row()?);
        self.input = Some(Input::start());
        self.dirty = true;
        Ok(())
    }

    /// Prints what is finished and removes the composer. A closed terminal is not written to.
    fn close(mut self, exit: &Result<Exit, TuiError>) -> Result<Exit, TuiError> {
        self.input = None;
        if !matches!(exit, Ok(Exit::HungUp)) {
            let _ = self.tty.alternate(false);
            let now = self.now();
            let finished = view::finished(&mut self.engine.model, now);
            let frame = self.renderer.close(&finished);
            let _ = self.tty.write(&frame);
        }
        match exit {
            Ok(exit) => Ok(exit.clone()),
            // A terminal that cannot be written to is closed, which is a normal exit.
            Err(TuiError::Terminal(_)) => Ok(Exit::HungUp),
        }
    }
}

/// Copies by an escape sequence, which also works over SSH.
fn execute_copy(text: &str) -> io::Result<()> {
    crossterm::execute!(
        io::stdout(),
        crossterm::clipboard::CopyToClipboard::to_clipboard_from(text)
    )
}
