//! The project's chores: `cargo xtask test`, `bench`, `fuzz`, `screenshots`, `conformance`.
//!
//! What must not be here: anything that only works on one machine, and anything that the product
//! needs.

mod fuzz;
mod peers;
mod step;
mod suite;
mod tool;

use std::process::ExitCode;

use anyhow::{Context, bail};

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test [--quick]                  install what is missing, then check everything
                                  --quick leaves out the real processes and the supply chain
  bench [FILTER]                  run the benchmarks
  bench timing                    whether the time of a refusal tells why, 20,000 of each kind: takes long
  bench peers [NAME...] [--quick] run Loggia beside the official SDK servers: loggia rust js python
  bench crowd [PART...] [--quick] thousands of readers on one session: writer followers stalled
  fuzz [TARGET] [--seconds N]     fuzz one target, or each for N seconds (60)
  screenshots                     draw the images in docs/screenshots anew
  conformance KIT... [--python P] run the A2A project's conformance kits, from checkouts of yours
                                  (docs/conformance.md)";

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
        ["screenshots"] => screenshots(),
        ["conformance", rest @ ..] if !rest.is_empty() => suite::conformance(rest),
        ["fuzz", rest @ ..] => fuzz::run(&fuzz::Request::parse(rest)?),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("there is no `{}`\n\n{HELP}", words.join(" ")),
    }
}

/// The scenes are tests of the real binary, which compare what they draw unless they are told to
/// write it.
fn screenshots() -> anyhow::Result<()> {
    tool::NEXTEST.ensure()?;
    let scenes = ["nextest", "run", "--locked", "--package", "loggia", "--test", "e2e"];
    let mut command = step::cargo(&scenes);
    let status = command.arg("screenshots::").env("LOGGIA_WRITE_SCREENSHOTS", "1").status();
    let status = status.context("cargo does not start")?;
    if status.success() { Ok(()) } else { bail!("a scene did not come out ({status})") }
}

fn bench(filter: &[&str]) -> anyhow::Result<()> {
    let only_peers = filter.first() == Some(&"peers");
    if filter.is_empty() || only_peers {
        peers::prepare()?;
    }
    // As it is shipped. The parts alone are measured as a newcomer's first build has them.
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
        Some(name @ (&"peers" | &"crowd")) => one("loggia", name),
        Some(_) if only_timing => one("loggia-server", "timing"),
        Some(_) | None => step::cargo(&["bench", "--workspace", "--locked", "--benches"]),
    };
    if only_timing {
        command.args(["--", "--full"]);
    } else if !filter.is_empty() {
        command.arg("--").args(filter);
    }
    let status = command.status().context("cargo does not start")?;
    if status.success() { Ok(()) } else { bail!("the benchmarks failed ({status})") }
}
