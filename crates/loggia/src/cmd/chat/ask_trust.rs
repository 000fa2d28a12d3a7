//! Asks once whether a directory is trusted, before a session starts.
//!
//! Only in an interactive terminal: `run`, `serve`, `attach` and pipes never ask.

use std::fmt::Write as _;

use loggia_tui::{Exit, TrustDecision, TrustQuestion};

use super::{reflows, theme};
use crate::compose::App;
use crate::config::trust::Trust;
use crate::config::{Flags, PROJECT_FILE, ThemeChoice, UntrustedSetting};
use crate::exit::UsageError;
use crate::style::one_line;

/// Asks if the directory has something to trust. Some: the person left instead.
pub async fn ask_trust(app: &App) -> anyhow::Result<Option<Exit>> {
    let Some((text, choice)) = question(app) else { return Ok(None) };
    let question = TrustQuestion {
        heading: "Do you trust this directory?".to_owned(),
        text,
        theme: theme(app, choice),
        reflows: reflows(app),
    };
    let decision = loggia_tui::ask_trust(question).await;
    let trust = Trust::new(&app.paths);
    match decision.map_err(|error| UsageError(error.to_string()))? {
        TrustDecision::Trust => drop(trust.trust(&app.workspace)?),
        TrustDecision::NotNow => {}
        TrustDecision::Never => trust.refuse(&app.workspace)?,
        TrustDecision::Leave(exit) => return Ok(Some(exit)),
    }
    Ok(None)
}

/// The question. None if trust would change nothing, the directory was already decided on, or the
/// configuration has errors that are reported when it is loaded.
fn question(app: &App) -> Option<(String, ThemeChoice)> {
    let trust = Trust::new(&app.paths);
    if trust.is_trusted(&app.workspace).ok()? || trust.is_refused(&app.workspace).ok()? {
        return None;
    }
    let (environment, workspace) = (&app.environment, &app.workspace);
    let loaded = crate::config::load(environment, &app.paths, workspace, &Flags::default()).ok()?;
    let (settings, commands) = (loaded.untrusted?, app.commands.untrusted(workspace));
    if settings.is_empty() && commands.is_empty() {
        return None;
    }
    let directory = workspace.display().to_string();
    Some((listed(&directory, &settings, &commands), loaded.config.theme))
}

/// Lists all settings with their values and all commands, so that the person sees what trust
/// enables.
fn listed(directory: &str, settings: &[UntrustedSetting], commands: &[String]) -> String {
    let mut text = format!("{}\n", one_line(directory));
    if !settings.is_empty() {
        let _ = writeln!(text, "\nIts {PROJECT_FILE} would set:");
    }
    for UntrustedSetting { key, line, written } in settings {
        let _ = writeln!(text, "  {key} = {} (line {line})", one_line(written));
    }
    if !commands.is_empty() {
        let names: Vec<String> = commands.iter().map(|name| format!("/{name}")).collect();
        let _ =
            writeln!(text, "\nIts commands would be available:\n  {}", one_line(&names.join(", ")));
    }
    text.push_str(
        "\nThese files come with the project: read them first. Trust applies to this directory, \
         including later changes of its files. Without trust, its settings may only restrict.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_listed_and_nothing_is_obeyed() {
        let kept =
            |key, line, written: &str| UntrustedSetting { key, line, written: written.into() };
        let settings =
            [kept("model", 1, "\"x\u{1b}[2J\""), kept("hooks.prompt_submit", 3, "[\n\"./a\"]")];
        let text = listed("/w\n/x", &settings, &["fix".into(), "git:commit".into()]);
        let wanted = "/w\\u{a}/x\n\nIts .loggia/config.toml would set:\n  \
                      model = \"x\\u{1b}[2J\" (line 1)\n  \
                      hooks.prompt_submit = [\\u{a}\"./a\"] (line 3)\n\n\
                      Its commands would be available:\n  /fix, /git:commit\n\nThese files";
        assert!(text.starts_with(wanted), "{text}");
    }
}
