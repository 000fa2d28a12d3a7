//! Exit codes, and error messages with a next step.

use std::process::ExitCode;

use loggia_session::{HubError, StoreError, SubmitError};

pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
pub const NEEDS_APPROVAL: u8 = 3;
/// The turn ended because an action was rejected and asking was turned off.
pub const REFUSED: u8 = 4;
pub const INTERRUPTED: u8 = 130;
pub const TERMINATED: u8 = 143;
/// Standard output was closed, as by `loggia sessions list | head`.
const OUTPUT_CLOSED: u8 = 141;

/// A usage error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Reports a command-line error. Many agents take the prompt as their first argument, so a hint
/// shows how to pass one here.
pub fn report_usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{InvalidSubcommand, UnknownArgument};
    let is_plain = |word: std::ffi::OsString| {
        let word = word.to_string_lossy();
        crate::style::one_line(&word) == word
    };
    // Ignored: there is no other place to report it.
    let _ = match std::env::args_os().all(is_plain) {
        true => error.print(),
        // The message repeats the arguments.
        false => {
            let shown = crate::style::indented(&error.render().to_string());
            std::io::Write::write_all(&mut std::io::stderr(), shown.as_bytes())
        }
    };
    if matches!(error.kind(), InvalidSubcommand | UnknownArgument) {
        eprintln!("\nTo run a prompt: loggia run \"what to do\"");
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE))
}

/// Prints the error with a hint and chooses the exit code.
pub fn explain(error: &anyhow::Error) -> ExitCode {
    if is_output_closed(error) {
        return ExitCode::from(OUTPUT_CLOSED);
    }
    let hint = store_error(error).and_then(hint);
    let hint = hint.map(|hint| format!("\n{}", crate::style::one_line(&hint)));
    crate::style::say(&format!("{error:#}{}", hint.unwrap_or_default()));
    let usage = error.is::<UsageError>() || error.is::<crate::config::ConfigError>();
    ExitCode::from(if usage { USAGE } else { FAILED })
}

/// Whether standard output was closed. Errors of our own sockets and pipes are wrapped, so they do
/// not match.
fn is_output_closed(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn store_error(error: &anyhow::Error) -> Option<&StoreError> {
    error.chain().find_map(|cause| {
        let hub = cause.downcast_ref::<HubError>().and_then(|hub| match hub {
            HubError::Store(error) | HubError::Submit(SubmitError::Store(error)) => Some(error),
            HubError::Submit(_) => None,
        });
        hub.or_else(|| cause.downcast_ref::<StoreError>())
    })
}

fn hint(error: &StoreError) -> Option<String> {
    Some(match error {
        StoreError::Busy { owner, .. } => format!(
            "Join it with `loggia attach ADDRESS` if it is shared (--a2a-port; `/share` shows the \
             address), wait until it is done, or stop it (`kill {}`); nothing was changed.",
            owner.pid
        ),
        StoreError::Unknown(_) => "`loggia sessions list` shows the sessions there are.".into(),
        StoreError::Corrupt { session, seq, .. } => format!(
            "Events before {seq} can be read: `loggia sessions show {session}`. \
             A copy of the file is kept in the folder `damaged` beside it."
        ),
        StoreError::Damaged { .. } => {
            "A copy is kept in the folder `damaged` beside it; `loggia doctor` checks the file."
                .into()
        }
        StoreError::Locked { .. } => {
            "Close the other program and try again; nothing was lost.".into()
        }
        StoreError::Full { .. } => "Free some space and try again; nothing was lost.".into(),
        StoreError::Newer { .. } => "Use the newer Loggia for these sessions.".into(),
        StoreError::Conflict { .. } | StoreError::Io(_) => return None,
    })
}
