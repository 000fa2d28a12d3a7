//! Runs named steps in order, stops at the first failure, and prints a summary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

/// The repository, in which every command runs.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Cargo's target directory, found from the path of this program.
pub fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.parent().and_then(Path::parent).map_or_else(|| root().join("target"), Path::to_owned)
}

/// Cargo of the current toolchain, or of another one if the first argument is `+NAME`.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    command
}

type Work = Box<dyn FnOnce() -> anyhow::Result<()>>;

#[derive(Default)]
pub struct Steps {
    steps: Vec<(&'static str, Work)>,
}

impl Steps {
    pub fn add(
        mut self,
        name: &'static str,
        work: impl FnOnce() -> anyhow::Result<()> + 'static,
    ) -> Self {
        self.steps.push((name, Box::new(work)));
        self
    }

    pub fn cargo(self, name: &'static str, arguments: &'static [&'static str]) -> Self {
        self.add(name, move || {
            println!("$ cargo {}", arguments.join(" "));
            match cargo(arguments).status() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => bail!("`cargo {}` failed ({status})", arguments.join(" ")),
                Err(error) => bail!("cannot start cargo: {error}"),
            }
        })
    }

    pub fn run(self) -> anyhow::Result<()> {
        let mut summary = Vec::new();
        let mut failure = None;
        for (name, work) in self.steps {
            if failure.is_some() {
                summary.push(line("not run", name, None));
                continue;
            }
            println!("\n━━ {name}");
            let start = Instant::now();
            let done = work();
            let word = if done.is_ok() { "ok" } else { "FAILED" };
            summary.push(line(word, name, Some(start.elapsed())));
            failure = done.err();
        }
        println!("\n━━ summary\n{}", summary.join("\n"));
        failure.map_or(Ok(()), Err)
    }
}

fn line(word: &str, name: &str, took: Option<Duration>) -> String {
    match took {
        Some(took) => format!("{word:<8} {name:<24} {:>7.1} s", took.as_secs_f64()),
        None => format!("{word:<8} {name}"),
    }
}
