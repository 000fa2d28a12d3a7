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

/// The A2A project's conformance kits, which the caller has fetched and installed.
pub fn conformance(kits: &[&str]) -> anyhow::Result<()> {
    let built = step::cargo(&["build", "--locked", "--package", "loggia"]).status();
    if !built.context("cargo does not start")?.success() {
        bail!("the binary cannot be built");
    }
    // The words are paths of the caller, who need not stand at the root.
    let mut command = Command::new("python3");
    command.arg(step::root().join("interop/tck/run.py"));
    let status = command.arg(step::target().join("debug/loggia")).args(kits).status();
    let status = status.context("python3 does not start: the kits need it")?;
    if status.success() { Ok(()) } else { bail!("the kits find something new ({status})") }
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
