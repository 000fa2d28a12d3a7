//! Everything that has to hold before a change is done.

use std::process::Command;

use anyhow::{Context, bail};

use crate::step::{self, Steps};
use crate::tool;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Everything,
    /// For between two edits.
    Quick,
}

pub fn run(extent: Extent) -> anyhow::Result<()> {
    let checked = |steps: Steps| {
        steps.cargo("formatting", &["fmt", "--all", "--check"]).cargo(
            "lints",
            &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
        )
    };
    match extent {
        Extent::Quick => checked(Steps::default().add("tools", || tool::NEXTEST.ensure()))
            .cargo(
                "tests, quick ones",
                &["nextest", "run", "--workspace", "--locked", "--profile", "quick"],
            )
            .run(),
        Extent::Everything => checked(Steps::default().add("tools", tool::ensure_all))
            .cargo("supply chain", &["deny", "check", "bans", "licenses", "sources"])
            .cargo("documentation tests", &["test", "--workspace", "--doc", "--locked"])
            .cargo("tests", &["nextest", "run", "--workspace", "--locked"])
            .add("official clients", official_clients)
            .run(),
    }
}

/// The A2A project's own clients against the binary that the tests have built.
fn official_clients() -> anyhow::Result<()> {
    let binary = step::target().join("debug/loggia");
    let mut command = Command::new("python3");
    command.arg("interop/run.py").arg(&binary).current_dir(step::root());
    let status =
        command.status().context("python3 does not start: the official clients need it")?;
    if status.success() { Ok(()) } else { bail!("an official client disagrees ({status})") }
}
