//! `loggia sessions`: reads stored sessions. Reading needs no lease, so open sessions can be shown
//! too.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use loggia_core::{
    CallOutcome, Cell, CellBody, Command, Details, Envelope, Millis, Origin, SessionId,
    SessionName, Summary, Surface, Transcript, TurnOutcome,
};
use loggia_session::{Hub, Listing, Store, StoreError, hub};
use serde_json::json;

use super::require_person::require_person;
use crate::cli::{ExportFormat, SessionsCommand};
use crate::clones;
use crate::compose::{self, App};
use crate::config::Flags;
use crate::exit::{FAILED, UsageError};
use crate::style::{self, one_line, printable};

pub async fn run(command: SessionsCommand, app: &App) -> anyhow::Result<ExitCode> {
    let store = app.open_store()?;
    match command {
        SessionsCommand::List { limit, all, json } => {
            return list(store.as_ref(), app, limit, all, json).await;
        }
        SessionsCommand::Show { session } => {
            let id = compose::find_session(store.as_ref(), &session).await?;
            return show(store.as_ref(), &id).await;
        }
        SessionsCommand::Export { session, format, output } => {
            let id = compose::find_session(store.as_ref(), &session).await?;
            return export(store.as_ref(), &id, format, output.as_deref()).await;
        }
        SessionsCommand::Rename { session, name } => {
            require_person("rename a session")?;
            let name = session_name(&name)?;
            let id = compose::find_session(store.as_ref(), &session).await?;
            let config = app.load_config(&Flags::default())?.config;
            let hub = app.hub(store, &config, "loggia sessions rename")?;
            let origin = Origin::new(Surface::Cli, format!("cli-{}", std::process::id()).as_str());
            // Opening the session would resume its unfinished work.
            if is_busy(hub.store().as_ref(), &id).await? {
                let why = format!(
                    "session {id} has unfinished work: resume it (`loggia --session {id}`) and rename \
                     it there (`/name`)"
                );
                return Err(UsageError(why).into());
            }
            let handle = hub.open(&id).await?;
            handle.submit(Command::Name { name: name.clone() }, origin).await?;
            drop(handle);
            hub.stop().await;
            let (id, name) = (one_line(id.as_str()), one_line(&name.to_string()));
            writeln!(std::io::stdout(), "renamed {id} to {name}")?;
        }
        SessionsCommand::Delete { sessions } => {
            require_person("delete sessions")?;
            let config = app.load_config(&Flags::default())?.config;
            let hub: Hub = app.hub(store, &config, "loggia sessions delete")?;
            for session in sessions {
                let id = SessionId::from(session.as_str());
                let clone = clones::clone_of(hub.store().as_ref(), &id).await;
                hub.delete(&id).await?;
                let removed = clones::remove(clone).await;
                removed.context("the session is deleted, its clone of the repository is not")?;
                writeln!(std::io::stdout(), "deleted {}", one_line(&session))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    store: &dyn Store,
    app: &App,
    limit: usize,
    all: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let Listing { sessions, damage } = match all {
        true => store.list_readable(usize::MAX).await?,
        false => compose::sessions_of(store, &app.workspace_text()?).await?,
    };
    let none = sessions.is_empty() && damage.is_none();
    for listed in sessions.into_iter().take(limit) {
        let summary = &listed.summary;
        if json {
            let line =
                json!({ "session": listed.session, "events": listed.head, "summary": summary });
            writeln!(std::io::stdout(), "{}", style::json_line(&line))?;
            continue;
        }
        let state = match (summary.waiting_for_answer, summary.busy) {
            (true, _) => app.style.yellow("waiting"),
            (false, true) => app.style.cyan("working"),
            (false, false) => app.style.dim("idle   "),
        };
        let turns = summary.turns;
        writeln!(
            std::io::stdout(),
            "{}  {}  {state}  {turns:>3} {}  {}",
            one_line(listed.session.as_str()),
            time(summary.updated),
            if turns == 1 { "turn " } else { "turns" },
            called(summary)
        )?;
        if all {
            writeln!(std::io::stdout(), "    {}", one_line(&summary.workspace))?;
        }
    }
    if none && !json {
        eprintln!(
            "No sessions here yet. `loggia run \"say hello\"` starts one; --all shows other directories."
        );
    }
    let Some(damage) = damage else { return Ok(ExitCode::SUCCESS) };
    style::say(&format!(
        "{damage}: there may be sessions that are not shown here.\n\
         A copy is kept in the folder `damaged` beside the file; `loggia doctor` checks it, and \
         `loggia sessions show ID` reads a session whose id you know."
    ));
    Ok(ExitCode::from(FAILED))
}

/// The transcript, and the damage at which it ended, if any.
async fn fold(
    store: &dyn Store,
    id: &SessionId,
) -> anyhow::Result<(Transcript, Option<StoreError>)> {
    let mut transcript = Transcript::default();
    let damage = read(store, id, |envelope| transcript.apply(envelope)).await?;
    Ok((transcript, damage))
}

/// Reads a log up to its end or to its damage, which is returned.
async fn read(
    store: &dyn Store,
    id: &SessionId,
    apply: impl FnMut(&Envelope) + Send,
) -> anyhow::Result<Option<StoreError>> {
    match hub::fold(store, id, apply).await {
        Ok(_) => Ok(None),
        Err(error @ StoreError::Corrupt { .. }) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}

async fn show(store: &dyn Store, id: &SessionId) -> anyhow::Result<ExitCode> {
    let (transcript, damage) = fold(store, id).await?;
    let text = printable(&whole(&transcript));
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(report(damage))
}

async fn is_busy(store: &dyn Store, id: &SessionId) -> anyhow::Result<bool> {
    let listed = store.list(usize::MAX).await?;
    Ok(listed.iter().any(|listed| listed.session == *id && listed.summary.busy))
}

/// Parses a session name.
pub(super) fn session_name(text: &str) -> anyhow::Result<SessionName> {
    SessionName::parse(text).map_err(|error| UsageError(error.to_string()).into())
}

/// The session's name, if any, and its first prompt.
fn called(summary: &Summary) -> String {
    match &summary.name {
        Some(name) => format!("{}: {}", one_line(name), one_line(&summary.title)),
        None => one_line(&summary.title),
    }
}

/// The whole transcript: name, cells, queued prompts.
fn whole(transcript: &Transcript) -> String {
    let name = transcript.name().map(|name| format!("# {name}\n\n"));
    let cells = transcript.cells().iter().chain(transcript.waiting()).map(markdown);
    name.into_iter().chain(cells).collect()
}

fn report(damage: Option<StoreError>) -> ExitCode {
    match damage {
        Some(error) => {
            style::say(&format!("{error}; everything before it is shown above"));
            ExitCode::from(FAILED)
        }
        None => ExitCode::SUCCESS,
    }
}

async fn export(
    store: &dyn Store,
    id: &SessionId,
    format: ExportFormat,
    output: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let damage;
    let text = match format {
        ExportFormat::Markdown => {
            let (transcript, found) = fold(store, id).await?;
            damage = found;
            whole(&transcript)
        }
        ExportFormat::Jsonl => {
            let mut lines = String::new();
            damage = read(store, id, |envelope| {
                // An envelope was parsed from JSON, so serializing it cannot fail.
                let line = serde_json::to_string(envelope.public().as_ref()).unwrap_or_default();
                lines.push_str(&style::json_text(&line));
                lines.push('\n');
            })
            .await?;
            lines
        }
    };
    match output {
        // Files and pipes get the raw text.
        None if std::io::stdout().is_terminal() => {
            std::io::stdout().lock().write_all(printable(&text).as_bytes())?;
        }
        None => std::io::stdout().lock().write_all(text.as_bytes())?,
        Some(path) => match std::fs::File::create_new(path) {
            Ok(mut file) => file.write_all(text.as_bytes())?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let why = format!("{} exists already: choose another name", path.display());
                return Err(UsageError(why).into());
            }
            Err(error) => return Err(error).context(format!("cannot write {}", path.display())),
        },
    }
    Ok(report(damage))
}

/// One cell as Markdown.
fn markdown(cell: &Cell) -> String {
    match &cell.body {
        CellBody::Prompt { text, queued, withdrawn } => {
            let note = match (queued, withdrawn) {
                (true, _) => " (waiting)",
                (_, true) => " (withdrawn)",
                (false, false) => "",
            };
            format!("## [{}] {}{note}\n\n{text}\n\n", cell.origin.surface.label(), time(cell.at))
        }
        CellBody::Text { discarded: true, .. } | CellBody::Thought { discarded: true, .. } => {
            String::new()
        }
        CellBody::Text { text, .. } => format!("{}\n\n", text.trim_end()),
        CellBody::Thought { subject, text, .. } => format!("> *{subject}*: {text}\n\n"),
        CellBody::Plan { steps } => {
            let mut plan = String::new();
            for step in steps {
                let _ = writeln!(plan, "- {} ({:?})", step.text, step.state);
            }
            plan + "\n"
        }
        CellBody::Sources { sources } => {
            let lines =
                sources.iter().map(|source| format!("- [{}]({})\n", source.title, source.uri));
            lines.collect::<String>() + "\n"
        }
        CellBody::Call(call) => {
            let mut text = format!("### {}\n\n", call.title);
            if let Details::Edit(diff) = &call.details {
                let _ = write!(text, "```diff\n{}```\n\n", diff.unified);
            }
            if let Some((choice, by)) = &call.answered {
                let _ = write!(text, "Answered: {choice} by {by}\n\n");
            }
            match &call.outcome {
                Some(CallOutcome::Succeeded { output }) => {
                    let _ = write!(text, "```\n{}\n```\n\n", output.text.trim_end());
                }
                Some(CallOutcome::Failed { failure }) => {
                    let _ = write!(text, "Failed: {}\n\n", failure.message);
                }
                Some(CallOutcome::Cancelled { reason }) => {
                    let _ = write!(text, "Not done: {reason}\n\n");
                }
                None => {
                    let _ = write!(text, "Not finished ({:?})\n\n", call.state);
                }
            }
            text
        }
        CellBody::Notice { text, .. } => match text.split_once('\n') {
            None => format!("_{text}_\n\n"),
            // The text of a custom command is quoted.
            Some((first, rest)) => {
                let lines: Vec<String> = rest.lines().map(|line| format!("> {line}")).collect();
                format!("_{first}_\n\n{}\n\n", lines.join("\n"))
            }
        },
        CellBody::TurnEnd { outcome } => match outcome {
            TurnOutcome::Completed => String::new(),
            TurnOutcome::Failed { message, .. } => format!("**Failed:** {message}\n\n"),
            TurnOutcome::Cancelled => "**Cancelled.**\n\n".into(),
            TurnOutcome::Interrupted => "**Interrupted:** Loggia stopped in this turn.\n\n".into(),
        },
    }
}

pub(super) fn time(at: Millis) -> String {
    let stamp = jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let zoned = stamp.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
