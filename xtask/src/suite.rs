//! `cargo xtask test` and `cargo xtask conformance`.

use std::process::Command;

use anyhow::{Context, bail};

use crate::step::{self, Steps};
use crate::tool;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Everything,
    /// Without the end-to-end tests and the dependency check.
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
                "quick tests",
                &["nextest", "run", "--workspace", "--locked", "--profile", "quick"],
            )
            .run(),
        Extent::Everything => checked(Steps::default().add("tools", tool::ensure_all))
            .cargo("dependencies", &["deny", "check", "bans", "licenses", "sources"])
            .cargo("documentation tests", &["test", "--workspace", "--doc", "--locked"])
            .cargo("tests", &["nextest", "run", "--workspace", "--locked"])
            .add("official clients", || python("interop/run.py", "loggia"))
            .add("clients of vendors", || python("interop/run_vendors.py", "loggia-fake-vendors"))
            .run(),
    }
}

/// Runs conformance kits of the A2A project that the caller has fetched and installed.
pub fn conformance(kits: &[&str]) -> anyhow::Result<()> {
    let built = step::cargo(&["build", "--locked", "--package", "loggia"]).status();
    if !built.context("cannot start cargo")?.success() {
        bail!("the binary cannot be built");
    }
    // The arguments are paths relative to the caller's directory, so the directory is not changed.
    let mut command = Command::new("python3");
    command.arg(step::root().join("interop/tck/run.py"));
    let status = command.arg(step::target().join("debug/loggia")).args(kits).status();
    let status = status.context("cannot start python3, which the kits need")?;
    if status.success() { Ok(()) } else { bail!("a kit reports an unexpected result ({status})") }
}

/// Runs clients of others against a binary that the tests have built.
fn python(script: &str, binary: &str) -> anyhow::Result<()> {
    let mut command = Command::new("python3");
    command.arg(script).arg(step::target().join("debug").join(binary)).current_dir(step::root());
    let status = command.status().context("cannot start python3, which the clients need")?;
    if status.success() { Ok(()) } else { bail!("a test of {script} failed ({status})") }
}
