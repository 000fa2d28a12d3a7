//! `loggia config`: the values in force and where each comes from.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::compose::App;
use crate::config::trust::Trust;
use crate::config::{self, Flags, KEYS, Loaded, PROJECT_FILE, ValueSource};
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
    let mut loaded = config::load(&app.environment, &app.paths, &app.workspace, &Flags::default())?;
    let trusted = Trust::new(&app.paths).is_trusted(&app.workspace)?;
    let files = [
        ("user", user_file),
        ("project", app.workspace.join(PROJECT_FILE)),
        ("data", app.paths.data.clone()),
        ("state", app.paths.state.clone()),
    ];
    let rows = rows(&mut loaded);
    match args.output {
        Format::Json => {
            let files: serde_json::Map<String, Value> = files
                .into_iter()
                .map(|(name, path)| (name.to_owned(), json!(path.to_string_lossy())))
                .collect();
            let values: Vec<Value> = rows.iter().map(ConfigRow::json).collect();
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
struct ConfigRow {
    key: &'static str,
    value: Value,
    origin: ValueSource,
}

fn rows(loaded: &mut Loaded) -> Vec<ConfigRow> {
    let Loaded { config, origins, .. } = loaded;
    let origin = |name: &str| origins.get(name).cloned().unwrap_or(ValueSource::BuiltIn);
    let mut rows = Vec::new();
    for key in KEYS {
        let mut values = key.values(config);
        if values.is_empty() && key.name == "shell.program" {
            values.push((key.name.to_owned(), Value::Null));
        }
        let row = |(name, value): (String, Value)| ConfigRow {
            key: key.name,
            value,
            origin: origin(&name),
        };
        rows.extend(values.into_iter().map(row));
    }
    rows
}

impl ConfigRow {
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
            ValueSource::BuiltIn => json!({ "kind": "built-in" }),
            ValueSource::File { path, line } => {
                json!({ "kind": "file", "path": path.to_string_lossy(), "line": line })
            }
            ValueSource::Variable(name) => json!({ "kind": "environment", "name": name }),
            ValueSource::Flag(name) => json!({ "kind": "flag", "name": name }),
            ValueSource::Key(key) => json!({ "kind": "key", "name": key.describe() }),
        };
        json!({ "key": self.key, "value": self.value, "origin": origin })
    }
}

fn widths(rows: &[ConfigRow]) -> (usize, usize) {
    const WIDEST_VALUE: usize = 40;
    let keys = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let values = rows.iter().map(|row| row.shown().chars().count()).max().unwrap_or(0);
    (keys, values.min(WIDEST_VALUE))
}
