//! Programs that the checks need, installed if they are missing.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::step;

/// A cargo subcommand at the version that the project is checked with.
pub struct CargoTool {
    subcommand: &'static str,
    package: &'static str,
}

pub const NEXTEST: CargoTool =
    CargoTool { subcommand: "nextest", package: "cargo-nextest@0.9.151" };
pub const DENY: CargoTool = CargoTool { subcommand: "deny", package: "cargo-deny@0.20.2" };
pub const FUZZ: CargoTool = CargoTool { subcommand: "fuzz", package: "cargo-fuzz@0.13.2" };

/// A program that the tests run, its flag for the version, and its Debian package.
struct Program {
    name: &'static str,
    ask: &'static str,
    package: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "strace", ask: "--version", package: "strace" },
    Program { name: "faketime", ask: "--version", package: "faketime" },
    Program { name: "curl", ask: "--version", package: "curl" },
    Program { name: "ip", ask: "-V", package: "iproute2" },
    Program { name: "setpriv", ask: "--version", package: "util-linux" },
    Program { name: "tmux", ask: "-V", package: "tmux" },
    Program { name: "git", ask: "--version", package: "git" },
    Program { name: "python3", ask: "--version", package: "python3-venv" },
    Program { name: "node", ask: "--version", package: "nodejs" },
    Program { name: "npm", ask: "--version", package: "npm" },
];

pub fn ensure_all() -> anyhow::Result<()> {
    ensure_packages()?;
    NEXTEST.ensure()?;
    DENY.ensure()
}

impl CargoTool {
    pub fn ensure(&self) -> anyhow::Result<()> {
        let mut version = step::cargo(&[self.subcommand, "--version"]);
        if is_there(&mut version) {
            println!("cargo-{} is installed", self.subcommand);
            return Ok(());
        }
        println!("installing {} (this takes some minutes, once)", self.package);
        // A build without optimization and debug information takes less time. The tools
        // wait for the compiler and the tests, so their own speed does not matter. The common target
        // directory lets the second tool reuse dependencies of the first.
        let mut install = step::cargo(&["install", "--locked", "--profile", "dev", self.package]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        let status = install.arg("--target-dir").arg(step::target().join("tools")).status();
        match status.context("cannot start cargo")? {
            status if status.success() => Ok(()),
            _ => bail!("cannot install {0}; try `cargo install --locked {0}`", self.package),
        }
    }
}

fn ensure_packages() -> anyhow::Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|program| !is_there(Command::new(program.name).arg(program.ask)))
        .map(|program| program.package)
        .collect();
    if missing.is_empty() {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        println!("installed: {}", names.join(", "));
        return Ok(());
    }
    let names = missing.join(" ");
    if !is_root() || !is_there(Command::new("apt-get").arg("--version")) {
        bail!("the tests need {names}; on Debian: `apt-get install {names}`");
    }
    println!("installing {names}");
    if install(&missing)? {
        return Ok(());
    }
    // The package list may be old or empty.
    let updated = Command::new("apt-get").args(["update", "--quiet"]).status()?;
    if updated.success() && install(&missing)? {
        return Ok(());
    }
    bail!("cannot install {names}; try `apt-get install {names}`")
}

fn install(packages: &[&str]) -> anyhow::Result<bool> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command.status().context("cannot start apt-get")?.success())
}

fn is_there(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
