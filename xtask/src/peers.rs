//! Installs the A2A servers that `cargo xtask bench` compares Loggia with: packages at pinned versions
//! under `target/peers`, and the small agents of `bench/peers` on top of them. A peer that cannot be
//! installed is left out of the table.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::step;

/// Installs a peer from its source directory into its target directory.
type Install = fn(&Path, &Path) -> anyhow::Result<()>;

const PEERS: &[(&str, Install)] =
    &[("python", python), ("js", js), ("rust", rust), ("rust-sqlite", rust)];

pub fn prepare() -> anyhow::Result<()> {
    for (name, install) in PEERS {
        let source = step::root().join("bench/peers").join(name);
        let directory = step::target().join("peers").join(name);
        std::fs::create_dir_all(&directory)?;
        println!("━━ peer {name}");
        if let Err(error) = install(&source, &directory) {
            println!("left out: {error:#}");
        }
    }
    Ok(())
}

fn python(source: &Path, directory: &Path) -> anyhow::Result<()> {
    let wanted = [source.join("requirements.txt")];
    once(&wanted, directory, || {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory.join("venv")))?;
        let mut pip = Command::new(directory.join("venv/bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]);
        run(pip.arg("--requirement").arg(&wanted[0]))
    })
}

fn js(source: &Path, directory: &Path) -> anyhow::Result<()> {
    let wanted = [source.join("package.json"), source.join("package-lock.json")];
    // Node looks for packages beside the script.
    std::fs::copy(source.join("server.mjs"), directory.join("server.mjs"))?;
    once(&wanted, directory, || {
        for file in &wanted {
            std::fs::copy(file, directory.join(file.file_name().unwrap_or_default()))?;
        }
        let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        run(Command::new("npm").arg("ci").args(quiet).current_dir(directory))
    })
}

/// Always runs cargo, which rebuilds only after a change.
fn rust(source: &Path, directory: &Path) -> anyhow::Result<()> {
    let mut cargo = step::cargo(&["build", "--release", "--locked", "--manifest-path"]);
    run(cargo.arg(source.join("Cargo.toml")).arg("--target-dir").arg(directory))
}

/// Runs `install` unless it has succeeded before with the same contents of the `wanted` files.
fn once(
    wanted: &[PathBuf],
    directory: &Path,
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut now = Vec::new();
    for file in wanted {
        now.extend(std::fs::read(file).with_context(|| file.display().to_string())?);
    }
    let stamp = directory.join("installed");
    if std::fs::read(&stamp).is_ok_and(|then| then == now) {
        println!("already installed");
        return Ok(());
    }
    install()?;
    Ok(std::fs::write(stamp, now)?)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("cannot start the command")?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed ({status})") }
}
