//! The terminal's modes: entered together, left together, and left however the process ends, by a
//! panic as well.

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

/// What a panic has to undo. Statics, because a panic hook has nothing else to look at.
static ENTERED: AtomicBool = AtomicBool::new(false);
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// The row below the picture, counted from one.
static BELOW: AtomicU16 = AtomicU16::new(1);
static HOOK: Once = Once::new();

/// The modes, as long as it lives.
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

    /// After [`restore`]: the terminal is ours once more.
    pub fn enter_again(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        ENTERED.store(true, Ordering::SeqCst);
        // Terminals that do not know the keyboard protocol ignore it; asking first would cost them
        // two seconds.
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

    /// The pointer is ours only while there is something to point at; otherwise the terminal
    /// selects and scrolls.
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

    /// Where a shell would go on, should the process end now.
    pub fn below(&self, row: u16) {
        BELOW.store(row.saturating_add(1), Ordering::SeqCst);
    }

    /// Asks the terminal something. It answers among the keys, or never.
    pub fn ask(&mut self, question: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(question)?;
        out.flush()
    }

    /// Writes a finished picture in one piece, which terminals that know how show in one piece.
    pub fn write(&mut self, picture: &[u8]) -> io::Result<()> {
        const BEGIN: &[u8] = b"\x1b[?2026h";
        const END: &[u8] = b"\x1b[?2026l";
        if picture.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&[BEGIN, picture, END].concat())?;
        out.flush()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

/// The row of the cursor, as far as the terminal says so, at the start of a line in any case.
pub fn cursor_row() -> io::Result<Option<u16>> {
    static SILENT: AtomicBool = AtomicBool::new(false);
    // Whoever read before us may have left a wake-up behind, which would end the wait. Who waits for
    // no time at all is not told of it.
    let _ = crossterm::event::poll(Duration::from_millis(1));
    // Only a pointer needs it, so a terminal that does not answer loses nothing else. It is not
    // asked again: the answer to this question could come then.
    let place = match SILENT.load(Ordering::SeqCst) {
        true => None,
        false => crossterm::cursor::position().ok(),
    };
    SILENT.store(place.is_none(), Ordering::SeqCst);
    let column = place.map_or(0, |(column, _)| column);
    if column > 0 {
        // A line that was not ended is not ours to write over.
        io::stdout().write_all(b"\r\n")?;
        io::stdout().flush()?;
        return Ok(None);
    }
    Ok(place.map(|(_, row)| row))
}

/// Puts everything back. Errors have nowhere to go: the terminal may be gone.
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

/// A panic of the screen's own thread leaves the terminal as it was before it is reported. What
/// other threads do is theirs: their panics are caught and become facts of the session, and must
/// not be written across the screen.
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
