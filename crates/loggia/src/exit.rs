//! How the process ends: the documented exit codes, and errors as sentences with a next step.

use std::process::ExitCode;

use loggia_session::{HubError, StoreError, SubmitError};

pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
pub const NEEDS_APPROVAL: u8 = 3;
pub const INTERRUPTED: u8 = 130;
pub const TERMINATED: u8 = 143;

/// A mistake in what the user typed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Prints what went wrong and what to do, and picks the exit code.
pub fn explain(error: &anyhow::Error) -> ExitCode {
    eprintln!("loggia: {}", crate::style::printable(&format!("{error:#}")));
    if let Some(hint) = store_error(error).and_then(hint) {
        eprintln!("        {hint}");
    }
    let usage = error.is::<Usage>() || error.is::<crate::config::ConfigError>();
    ExitCode::from(if usage { USAGE } else { FAILED })
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
            "Wait until it is done, or stop it (`kill {}`); nothing was changed.",
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
