//! `loggia config`: the values in force and where each comes from.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use loggia_core::Matcher;
use serde_json::{Value, json};

use crate::compose::App;
use crate::config::trust::Trust;
use crate::config::{self, Config, Flags, Loaded, Origin, PROJECT_FILE};
use crate::style::{Format, json_text, one_line, shown};

#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
    /// The output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print the path of your configuration file, whether or not it exists
    Path,
}

pub async fn run(args: ConfigArgs, app: &App) -> anyhow::Result<ExitCode> {
    let user_file = config::user_file(&app.environment, &app.paths)?.path;
    let mut out = std::io::stdout().lock();
    if let Some(ConfigCommand::Path) = args.command {
        // Scripts need the raw path.
        match std::io::stdout().is_terminal() {
            true => writeln!(out, "{}", shown(&user_file))?,
            false => writeln!(out, "{}", user_file.display())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = config::load(&app.environment, &app.paths, &app.workspace, &Flags::default())?;
    let trusted = Trust::new(&app.paths).is_trusted(&app.workspace)?;
    let files = [
        ("user", user_file),
        ("project", app.workspace.join(PROJECT_FILE)),
        ("data", app.paths.data.clone()),
        ("state", app.paths.state.clone()),
    ];
    let rows = rows(&loaded);
    match args.output {
        Format::Json => {
            let files: serde_json::Map<String, Value> = files
                .into_iter()
                .map(|(name, path)| (name.to_owned(), json!(path.to_string_lossy())))
                .collect();
            let values: Vec<Value> = rows.iter().map(Row::json).collect();
            let document = json!({
                "values": values, "files": files, "trusted": trusted, "notices": loaded.notices,
            });
            writeln!(out, "{}", json_text(&format!("{document:#}")))?;
        }
        Format::Text => {
            let widths = widths(&rows);
            for row in &rows {
                writeln!(out, "{}", row.text(widths, app))?;
            }
            writeln!(out)?;
            for (name, path) in &files {
                let note = match path.try_exists() {
                    Ok(true) if *name == "project" && !trusted => {
                        " (may only restrict: not trusted)"
                    }
                    Ok(true) => "",
                    _ => " (not there)",
                };
                let shown = one_line(&path.display().to_string());
                writeln!(out, "{name:<8} {shown}{}", app.style.dim(note))?;
            }
            for notice in &loaded.notices {
                writeln!(out, "\n{}", app.style.yellow(&one_line(notice)))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One value, or one element of a list.
struct Row {
    key: &'static str,
    value: Value,
    origin: Origin,
}

fn rows(loaded: &Loaded) -> Vec<Row> {
    let Config {
        model,
        mode,
        rules,
        limits,
        approvals,
        compact_at,
        server,
        tls,
        token_file: _,
        offers,
        webhook_hosts,
        clones,
        pass_env,
        shell,
        hooks,
        keys,
        prices,
        theme,
    } = &loaded.config;
    let origin = |name: &str| loaded.origins.get(name).cloned().unwrap_or(Origin::BuiltIn);
    let row = |key: &'static str, value: Value| Row { key, value, origin: origin(key) };
    let mut rows = vec![row("model", json!(model)), row("mode", json!(mode.name()))];
    for (key, allow) in [("commands.allow", true), ("commands.deny", false)] {
        for rule in rules.iter().filter(|rule| rule.allow == allow) {
            let Matcher::Command(pattern) = &rule.matcher else { continue };
            let origin = origin(rule.id.as_str());
            rows.push(Row { key, value: json!(pattern.to_string()), origin });
        }
    }
    if let Some(timeout) = approvals.timeout {
        rows.push(row("approvals.timeout", json!(timeout.to_string())));
    }
    rows.extend([
        row("approvals.on_timeout", json!(approvals.on_timeout.name())),
        row("context.compact_at", json!(share(*compact_at))),
        row("limits.replies", json!(limits.replies)),
        row("limits.calls", json!(limits.calls)),
        row("limits.text_bytes", json!(limits.text_bytes)),
        row("limits.turn_seconds", json!(limits.turn_seconds)),
        row("limits.call_seconds", json!(limits.call_seconds)),
        row("server.connections", json!(server.connections)),
        row("server.streams", json!(server.streams)),
        row("server.remote_streams", json!(server.remote_streams)),
        row("server.stall_seconds", json!(server.stall_seconds)),
        row("server.idle_seconds", json!(server.idle_seconds)),
        row("server.streaming", json!(offers.streaming)),
        row("server.push", json!(offers.push)),
        row("server.extended_card", json!(offers.extended_card)),
    ]);
    for (key, path) in [("server.tls_cert", &tls.certificate), ("server.tls_key", &tls.key)] {
        if let Some(path) = path {
            rows.push(row(key, json!(path.to_string_lossy())));
        }
    }
    for (key, element, value) in clones.rows() {
        let name = element.map_or_else(|| key.to_owned(), |element| format!("{key}.{element}"));
        rows.push(Row { key, value, origin: origin(&name) });
    }
    for host in webhook_hosts {
        let origin = origin(&format!("server.webhook_hosts.{host}"));
        rows.push(Row { key: "server.webhook_hosts", value: json!(host), origin });
    }
    rows.push(row("shell.program", json!(shell.as_ref().map(|path| path.to_string_lossy()))));
    for name in pass_env {
        let origin = origin(&format!("shell.pass_env.{name}"));
        rows.push(Row { key: "shell.pass_env", value: json!(name), origin });
    }
    if let Some(words) = &hooks.prompt_submit {
        rows.push(row("hooks.prompt_submit", json!(words)));
    }
    rows.push(row("hooks.seconds", json!(hooks.seconds)));
    rows.push(row("tui.keys", json!(keys.name())));
    if !prices.currency.is_empty() {
        rows.push(row("prices.currency", json!(prices.currency)));
    }
    for (model, price) in &prices.models {
        let cached = price.cached_input.map(|rate| format!(", {rate} cached")).unwrap_or_default();
        let value = format!("{model}: {} in, {} out{cached}", price.input, price.output);
        let origin = origin(&format!("prices.{model}"));
        rows.push(Row { key: "prices", value: json!(value), origin });
    }
    rows.push(row("tui.theme", json!(theme.name())));
    rows
}

fn share(percent: u8) -> String {
    if percent == 0 { "off".to_owned() } else { format!("{percent}%") }
}

impl Row {
    fn shown(&self) -> String {
        match &self.value {
            Value::String(text) => one_line(text),
            Value::Null => "(bash, else sh)".to_owned(),
            other => one_line(&other.to_string()),
        }
    }

    fn text(&self, (keys, values): (usize, usize), app: &App) -> String {
        let origin = app.style.dim(&one_line(&self.origin.to_string()));
        format!("{:<keys$}  {:<values$}  {origin}", self.key, self.shown())
    }

    fn json(&self) -> Value {
        let origin = match &self.origin {
            Origin::BuiltIn => json!({ "kind": "built-in" }),
            Origin::File { path, line } => {
                json!({ "kind": "file", "path": path.to_string_lossy(), "line": line })
            }
            Origin::Variable(name) => json!({ "kind": "environment", "name": name }),
            Origin::Flag(name) => json!({ "kind": "flag", "name": name }),
        };
        json!({ "key": self.key, "value": self.value, "origin": origin })
    }
}

fn widths(rows: &[Row]) -> (usize, usize) {
    const WIDEST_VALUE: usize = 40;
    let keys = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let values = rows.iter().map(|row| row.shown().chars().count()).max().unwrap_or(0);
    (keys, values.min(WIDEST_VALUE))
}
