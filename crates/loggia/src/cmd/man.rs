//! `loggia man`: manual pages from `--help` and the tables of docs/reference/configuration.md. They contain
//! no texts of their own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::Cli;
use crate::compose::App;
use crate::config;

const CONFIGURATION: &str = include_str!("../../../../docs/reference/configuration.md");

/// Sections of the page and the headings above their tables.
const TABLES: [(&str, &str); 3] = [
    ("ENVIRONMENT", "## Other variables"),
    ("FILES", "## Where files are"),
    ("EXIT STATUS", "## Exit codes"),
];

#[derive(Args)]
#[command(after_help = "Examples:
  loggia man | man -l -
  loggia man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write a page for each command into this directory instead of one to stdout
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub async fn run(args: ManArgs, _app: &App) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match args.out {
        None => std::io::stdout().lock().write_all(&page(&command)?)?,
        Some(directory) => {
            let at = || format!("cannot write into {}", directory.display());
            std::fs::create_dir_all(&directory).with_context(at)?;
            write_below(&command, &directory).with_context(at)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and of its subcommands.
fn write_below(command: &clap::Command, directory: &Path) -> std::io::Result<()> {
    let name = Man::new(command.clone()).get_filename();
    std::fs::write(directory.join(name), page(command)?)?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.into_iter().try_for_each(|below| write_below(below, directory))
}

fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("Loggia");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut more = Roff::new();
    examples(command, &mut more);
    if command.get_name() == "loggia" {
        for (section, heading) in TABLES {
            listed(section, table(heading), &mut more);
        }
    } else {
        more.control("SH", ["SEE ALSO"]).text([bold("loggia"), roman("(1)")]);
    }
    more.to_writer(&mut out)?;
    Ok(out)
}

/// The examples at the end of `--help`.
fn examples(command: &clap::Command, out: &mut Roff) {
    let Some(said) = command.get_after_help().map(ToString::to_string) else { return };
    let lines = said.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return;
    }
    out.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines {
        out.text([roman(line.trim_start())]);
    }
    out.control("fi", []);
}

fn listed(section: &str, rows: Vec<(String, String)>, out: &mut Roff) {
    out.control("SH", [section]);
    for (what, means) in rows {
        out.control("TP", []).text([bold(what)]).text([roman(means)]);
    }
    if section == "ENVIRONMENT" {
        let variables: Vec<String> = config::variables().collect();
        out.control("PP", []).text([roman(format!(
            "Keys of the configuration have variables of their own: {}.",
            variables.join(", ")
        ))]);
    }
}

/// The rows of the first table below a heading, as plain text.
fn table(heading: &str) -> Vec<(String, String)> {
    let below = CONFIGURATION.lines().skip_while(|line| *line != heading).skip(1);
    let rows = below.skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.filter_map(|row| row.trim_matches('|').split_once(" | "))
        .map(|(left, right)| (plain(left), plain(right)))
        .collect()
}

/// Strips Markdown: code marks, links, escapes.
fn plain(cell: &str) -> String {
    let text = cell.trim().replace("\\|", "|").replace('`', "");
    let mut pieces = text.split("](");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Drop the address of a link.
        out.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
    }
    out.replace('[', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_and_plain() {
        for ((_, heading), known) in TABLES.iter().zip([
            ("LOGGIA_HOME", "a full path"),
            ("your file", "config.toml"),
            ("141", "| head"),
        ]) {
            let rows = table(heading);
            let found = rows.iter().find(|(left, _)| left == known.0);
            let (_, means) = found.unwrap_or_else(|| panic!("{heading}: {rows:?}"));
            assert!(means.contains(known.1), "{means}");
            for (left, right) in &rows {
                assert!(!format!("{left}{right}").contains(['`', '[', '\\']), "{left}: {right}");
            }
        }
        let cell = "a `b` ([c.md](c.md)), \\| [d](e) f";
        assert_eq!(plain(cell), "a b (c.md), | d f");
    }
}
