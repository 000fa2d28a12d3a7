//! Runs the fuzz targets. They need a nightly compiler and are a separate workspace.

use std::path::Path;

use anyhow::{Context, bail};

use crate::{step, tool};

const SECONDS: u32 = 60;

#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// None runs all targets.
    target: Option<String>,
    seconds: u32,
}

impl Request {
    pub fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut request = Self { target: None, seconds: SECONDS };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--seconds" => {
                    let number = rest.next().and_then(|number| number.parse().ok());
                    request.seconds = number.context("`--seconds` needs a whole number")?;
                }
                flag if flag.starts_with('-') => bail!("`fuzz` has no flag `{flag}`"),
                target if request.target.is_none() => request.target = Some(target.to_owned()),
                more => bail!("`fuzz` takes one target; remove `{more}`"),
            }
        }
        Ok(request)
    }
}

pub fn run(request: &Request) -> anyhow::Result<()> {
    let targets = targets(&step::root().join("fuzz/fuzz_targets"))?;
    let wanted: Vec<&String> = match &request.target {
        Some(name) => targets.iter().filter(|target| *target == name).collect(),
        None => targets.iter().collect(),
    };
    if wanted.is_empty() {
        bail!("unknown fuzz target; the targets are: {}", targets.join(", "));
    }
    tool::FUZZ.ensure()?;
    for target in wanted {
        println!("\n━━ {target}, {} seconds", request.seconds);
        let time = format!("-max_total_time={}", request.seconds);
        // Loggia has no unsafe code for a sanitizer to check, and SQLite does not start under one.
        // `len_control=0` allows long inputs from the start, because some targets need many steps.
        let long = "-len_control=0";
        let run = ["+nightly", "fuzz", "run", "--sanitizer", "none", target, "--", long, &time];
        let status = step::cargo(&run).status().context("cannot start cargo")?;
        if !status.success() {
            bail!(
                "{target} failed, or the nightly compiler is missing (`rustup toolchain install \
                 nightly`); a failing input is in fuzz/artifacts/{target}"
            );
        }
    }
    Ok(())
}

fn targets(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).context("fuzz/fuzz_targets cannot be read")? {
        let path = entry?.path();
        if let (Some("rs"), Some(name)) = (
            path.extension().and_then(|extension| extension.to_str()),
            path.file_stem().and_then(|name| name.to_str()),
        ) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood_or_refused() {
        let request = |target: Option<&str>, seconds| {
            Some(Request { target: target.map(str::to_owned), seconds })
        };
        let cases: [(&[&str], Option<Request>); 6] = [
            (&[], request(None, 60)),
            (&["shell"], request(Some("shell"), 60)),
            (&["--seconds", "5", "shell"], request(Some("shell"), 5)),
            (&["shell", "--seconds"], None),
            (&["--second", "5"], None),
            (&["a", "b"], None),
        ];
        for (arguments, wanted) in cases {
            assert_eq!(Request::parse(arguments).ok(), wanted, "{arguments:?}");
        }
    }
}
