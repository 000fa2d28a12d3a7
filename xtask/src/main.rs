//! Development tasks: `cargo xtask test`, `bench`, `fuzz`, `size`, `screenshots`,
//! `conformance`.
//!
//! The product does not depend on this crate, and its commands work on every machine.

mod fuzz;
mod peers;
mod size;
mod step;
mod suite;
mod tool;

use std::process::ExitCode;

use anyhow::{Context, bail};

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test [--quick]                  install missing tools, then run all checks
                                  --quick skips the end-to-end tests and the dependency check
  bench [FILTER]                  run the benchmarks
  bench timing                    compare how long refusals take, 20,000 of each kind (hours)
  bench peers [NAME...] [--quick] compare Loggia with other A2A servers:
                                  loggia rust-sqlite python-sqlite rust js python
  bench many_clients [PART...] [--quick]
                                  thousands of readers on one session: writer followers stalled
  fuzz [TARGET] [--seconds N]     fuzz one target, or all of them, for N seconds each (60)
  size                            count lines and locks (docs/contributing/size.md)
  screenshots                     redraw the images in docs/screenshots
  conformance KIT... [--python P] run checkouts of the A2A project's conformance kits
                                  (docs/contributing/conformance.md)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => suite::run(suite::Extent::Everything),
        ["test", "--quick"] => suite::run(suite::Extent::Quick),
        ["bench", filter @ ..] => bench(filter),
        ["size"] => size::run(),
        ["screenshots"] => screenshots(),
        ["conformance", rest @ ..] if !rest.is_empty() => suite::conformance(rest),
        ["fuzz", rest @ ..] => fuzz::run(&fuzz::Request::parse(rest)?),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("unknown command `{}`\n\n{HELP}", words.join(" ")),
    }
}

/// The scenes are tests of the real binary. With the variable they write their images instead of
/// comparing them.
fn screenshots() -> anyhow::Result<()> {
    tool::NEXTEST.ensure()?;
    let scenes = ["nextest", "run", "--locked", "--package", "loggia", "--test", "e2e"];
    let mut command = step::cargo(&scenes);
    let status = command.arg("screenshots::").env("LOGGIA_WRITE_SCREENSHOTS", "1").status();
    let status = status.context("cannot start cargo")?;
    if status.success() { Ok(()) } else { bail!("a scene failed ({status})") }
}

fn bench(filter: &[&str]) -> anyhow::Result<()> {
    let only_peers = filter.first() == Some(&"peers");
    if filter.is_empty() || only_peers {
        peers::prepare()?;
    }
    // `peers` and `many_clients` measure the shipped build (`dist`), the others a release build.
    let one = |package, name| {
        step::cargo(&[
            "bench",
            "--profile",
            "dist",
            "--locked",
            "--package",
            package,
            "--bench",
            name,
        ])
    };
    let only_timing = filter == ["timing"];
    let mut command = match filter.first() {
        Some(name @ (&"peers" | &"many_clients")) => one("loggia", name),
        Some(_) if only_timing => one("loggia-server", "timing"),
        Some(_) | None => step::cargo(&["bench", "--workspace", "--locked", "--benches"]),
    };
    if only_timing {
        command.args(["--", "--full"]);
    } else if !filter.is_empty() {
        command.arg("--").args(filter);
    }
    let status = command.status().context("cannot start cargo")?;
    if status.success() { Ok(()) } else { bail!("the benchmarks failed ({status})") }
}
