//! The terminal's modes. They are set together and restored however the process ends, including a
//! panic.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};

/// What a panic must restore. Statics, because a panic hook has no other state.
static ENTERED: AtomicBool = AtomicBool::new(false);
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// The row below the frame, counted from one.
static BELOW: AtomicU16 = AtomicU16::new(1);
static HOOK: Once = Once::new();

/// Keeps the modes set until it is dropped.
pub struct Tty {
    mouse: bool,
}

impl Tty {
    pub fn enter() -> io::Result<Self> {
        leave_on_panic();
        let mut tty = Self { mouse: false };
        tty.enter_again()?;
        Ok(tty)
    }

    /// Sets the modes again after [`restore`].
    pub fn enter_again(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        ENTERED.store(true, Ordering::SeqCst);
        // Terminals without the keyboard protocol ignore it; querying them first would take two
        // seconds.
        let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
        execute!(
            io::stdout(),
            EnableBracketedPaste,
            EnableFocusChange,
            PushKeyboardEnhancementFlags(flags)
        )?;
        self.mouse = false;
        Ok(())
    }

    /// Captures the mouse only while it is needed; otherwise the terminal uses it to select and
    /// scroll.
    pub fn mouse(&mut self, wanted: bool) -> io::Result<()> {
        if self.mouse == wanted {
            return Ok(());
        }
        self.mouse = wanted;
        match wanted {
            true => execute!(io::stdout(), EnableMouseCapture),
            false => execute!(io::stdout(), DisableMouseCapture),
        }
    }

    pub fn is_alternate(&self) -> bool {
        ALTERNATE.load(Ordering::SeqCst)
    }

    pub fn alternate(&mut self, wanted: bool) -> io::Result<()> {
        if self.is_alternate() == wanted {
            return Ok(());
        }
        ALTERNATE.store(wanted, Ordering::SeqCst);
        match wanted {
            true => execute!(io::stdout(), EnterAlternateScreen),
            false => execute!(io::stdout(), LeaveAlternateScreen),
        }
    }

    /// The row for the shell prompt if the process ended now.
    pub fn below(&self, row: u16) {
        BELOW.store(row.saturating_add(1), Ordering::SeqCst);
    }

    /// Sends a query. The reply arrives among the keys, or never.
    pub fn ask(&mut self, question: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(question)?;
        out.flush()
    }

    /// Writes a frame as one synchronized update.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        const BEGIN: &[u8] = b"\x1b[?2026h";
        const END: &[u8] = b"\x1b[?2026l";
        if frame.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&[BEGIN, frame, END].concat())?;
        out.flush()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

/// The cursor's row, if the terminal reports it. Moves to the start of a line.
pub fn cursor_row() -> io::Result<Option<u16>> {
    static SILENT: AtomicBool = AtomicBool::new(false);
    // An earlier reader may have left a wake-up that would end the wait; a poll consumes it. A zero
    // timeout would not see it.
    let _ = crossterm::event::poll(Duration::from_millis(1));
    // Only clicks need the row. A terminal that did not reply is not queried again, because the
    // late reply could then arrive.
    let place = match SILENT.load(Ordering::SeqCst) {
        true => None,
        false => crossterm::cursor::position().ok(),
    };
    SILENT.store(place.is_none(), Ordering::SeqCst);
    let column = place.map_or(0, |(column, _)| column);
    if column > 0 {
        // Do not overwrite an unfinished line.
        io::stdout().write_all(b"\r\n")?;
        io::stdout().flush()?;
        return Ok(None);
    }
    Ok(place.map(|(_, row)| row))
}

/// Restores everything. Errors are ignored: the terminal may be closed.
pub fn restore() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    if ALTERNATE.swap(false, Ordering::SeqCst) {
        let _ = queue!(out, LeaveAlternateScreen);
    }
    let _ = queue!(
        out,
        DisableMouseCapture,
        PopKeyboardEnhancementFlags,
        DisableFocusChange,
        DisableBracketedPaste,
        cursor::Show
    );
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// A panic on the interface's thread restores the terminal before it is reported. Panics of other
/// threads are caught and recorded in the session, so they are not printed over the screen.
fn leave_on_panic() {
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        let screen = std::thread::current().id();
        std::panic::set_hook(Box::new(move |panic| {
            if !ENTERED.load(Ordering::SeqCst) {
                report(panic);
            } else if std::thread::current().id() == screen {
                restore();
                let below = BELOW.load(Ordering::SeqCst);
                let _ = write!(io::stdout(), "\x1b[{below};1H\r\n");
                report(panic);
            } else {
                tracing::error!("{panic}");
            }
        }));
    });
}
