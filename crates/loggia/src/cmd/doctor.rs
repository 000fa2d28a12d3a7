//! `loggia doctor`: tests what works on this machine, with a next step for what does not.
//!
//! Each row reports what was observed, never an assumption.

mod isolation;
mod program;
mod storage;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use loggia_agent::model::registry;
use loggia_models::providers::Freshness;
use serde::Serialize;
use serde_json::json;

use crate::compose::App;
use crate::config::clones::keep_text;
use crate::config::{self, Config, Flags};
use crate::exit;
use crate::style::{Format, Style, json_text, one_line};

#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 if Loggia works here, 1 if something that it needs is broken."
)]
pub struct DoctorArgs {
    /// The output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// Also ask each provider of models that has a key for its list
    #[arg(long)]
    pub online: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckResult {
    Works,
    /// Loggia works, with less comfort or protection than possible.
    Limited,
    /// Loggia cannot work.
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    topic: &'static str,
    verdict: CheckResult,
    text: String,
    /// How to fix it.
    next: Option<String>,
}

impl Check {
    fn works(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, verdict: CheckResult::Works, text: text.into(), next: None }
    }

    fn limited(topic: &'static str, text: impl Into<String>, next: &str) -> Self {
        let next = (!next.is_empty()).then(|| next.to_owned());
        Self { topic, verdict: CheckResult::Limited, text: text.into(), next }
    }

    fn broken(topic: &'static str, text: impl Into<String>, next: &str) -> Self {
        Self { verdict: CheckResult::Broken, ..Self::limited(topic, text, next) }
    }
}

pub async fn run(args: DoctorArgs, app: &App) -> anyhow::Result<ExitCode> {
    let loaded = config::load(&app.environment, &app.paths, &app.workspace, &Flags::default());
    let mut checks = Vec::new();
    match &loaded {
        Ok(loaded) => {
            checks.push(configuration(&loaded.notices));
            checks.push(model(&loaded.config, app).await);
            checks.extend(providers(&loaded.config, app, args.online).await);
        }
        Err(error) => checks.push(Check::broken("configuration", error.to_string(), "")),
    }
    let (shell, pass) = match &loaded {
        Ok(loaded) => (loaded.config.shell.clone(), loaded.config.pass_env.clone()),
        Err(_) => (None, Vec::new()),
    };
    checks.extend(storage::checks(&app.paths.data).await);
    let programs = program::Programs::new(&app.environment, &pass);
    checks.push(program::git(&programs).await);
    checks.push(program::shell(&programs, shell.as_deref()).await);
    if let Ok(loaded) = &loaded {
        checks.push(copies(&loaded.config, app));
    }
    let isolation = isolation::find(&programs).await;
    checks.extend(isolation.checks);
    checks.push(terminal(app));

    let broken = checks.iter().any(|check| check.verdict == CheckResult::Broken);
    let mut out = std::io::stdout().lock();
    match args.output {
        Format::Json => {
            let document = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "works": !broken,
                "checks": checks,
                "sandbox": isolation.sandbox,
            });
            writeln!(out, "{}", json_text(&format!("{document:#}")))?;
        }
        Format::Text => write!(out, "{}", text(&checks, &app.style))?,
    }
    Ok(ExitCode::from(if broken { exit::FAILED } else { 0 }))
}

fn text(checks: &[Check], style: &Style) -> String {
    let widest = checks.iter().map(|check| check.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            CheckResult::Works => style.green("ok     "),
            CheckResult::Limited => style.yellow("limited"),
            CheckResult::Broken => style.red("broken "),
        };
        text += &format!("{mark}  {:<widest$}  {}\n", check.topic, one_line(&check.text));
        if let Some(next) = &check.next {
            text += &format!("{:9}{:<widest$}  {}\n", "", "", style.bold(&one_line(next)));
        }
    }
    let broken = checks.iter().filter(|check| check.verdict == CheckResult::Broken).count();
    text + &match broken {
        0 => "\nLoggia can work here.\n".to_owned(),
        1 => "\nOne thing that Loggia needs is broken.\n".to_owned(),
        count => format!("\n{count} things that Loggia needs are broken.\n"),
    }
}

fn configuration(notices: &[String]) -> Check {
    match notices {
        [] => Check::works("configuration", "valid; `loggia config` shows it"),
        [notice] => Check::limited("configuration", notice, ""),
        [first, rest @ ..] => {
            let text = format!("{first} (and {} more: see `loggia config`)", rest.len());
            Check::limited("configuration", text, "")
        }
    }
}

async fn model(config: &Config, app: &App) -> Check {
    let (name, directory) = (config.model.clone(), app.workspace.clone());
    let providers = app.providers(config);
    let checked =
        tokio::task::spawn_blocking(move || registry::check(&name, &directory, &providers));
    match checked.await {
        Ok(Ok(())) => Check::works("model", format!("{} can be opened", config.model)),
        Ok(Err(error)) => Check::broken("model", error.to_string(), "See `loggia config`."),
        Err(error) => Check::broken("model", error.to_string(), ""),
    }
}

/// The providers that the user configured or has a key for. They are asked only with `--online`.
async fn providers(config: &Config, app: &App, online: bool) -> Vec<Check> {
    let providers = app.providers(config);
    let mut checks = Vec::new();
    for provider in providers.all() {
        let name = &provider.name;
        let configured = config.providers.contains_key(name);
        if provider.key.is_none() && !configured {
            continue;
        }
        let address = provider.base_url.as_deref().unwrap_or("no address");
        let key = app.find_key(name, config).map(|key| key.origin.describe());
        let key = match key {
            Some(origin) => format!("key in {origin}"),
            None if provider.needs_key => "no key".to_owned(),
            None => "no key is needed".to_owned(),
        };
        let text = format!("{name}: {address}, {key}");
        let error = match online {
            true => match providers.list(name, Freshness::Now).await {
                Ok(listed) => listed.problem,
                Err(error) => Some(error),
            },
            false => providers.check(&format!("{name}/any")).err(),
        };
        checks.push(match error {
            None if online => Check::works("provider", format!("{text}; it answers")),
            None => Check::works("provider", text),
            Some(error) => Check::limited("provider", text, &error.message),
        });
    }
    checks
}

/// The repository clones.
fn copies(config: &Config, app: &App) -> Check {
    let directory = app.clones_directory(config);
    let schemes = config.clones.sources.schemes.iter().map(|scheme| scheme.name());
    let schemes = schemes.collect::<Vec<_>>().join(", ");
    match loggia_agent::clone::list_clones(&directory) {
        Ok(copies) => Check::works(
            "clones",
            format!(
                "{} of at most {} in {}, from {schemes}; kept: {}",
                copies.len(),
                config.clones.limits.count,
                directory.display(),
                keep_text(config.clones.keep)
            ),
        ),
        Err(error) => {
            let text = format!("{} cannot be read: {error}", directory.display());
            Check::limited("clones", text, "No session can work in a clone of a repository.")
        }
    }
}

fn terminal(app: &App) -> Check {
    let seen = |terminal: bool| if terminal { "a terminal" } else { "no terminal" };
    let input = seen(std::io::stdin().is_terminal());
    let output = seen(std::io::stdout().is_terminal());
    let kind = app.environment.get("TERM").unwrap_or("not set");
    let color = match (app.style.color(), app.environment.get_os("NO_COLOR")) {
        (true, _) => "colours",
        (false, Some(_)) => "no colours (NO_COLOR)",
        (false, None) => "no colours",
    };
    let text = format!("input is {input}, output is {output}, TERM is {kind}, {color}");
    Check::works("terminal", text)
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
