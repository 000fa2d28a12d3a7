//! The program serves every script of `interop/`. This test also builds it for `interop/run_vendors.py`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files of `interop/vendors`, and `script.json` in each directory of `interop/agents`.
fn scripts() -> Vec<PathBuf> {
    let interop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
    let entries = |name: &str| {
        let entries = fs::read_dir(interop.join(name)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let is_script = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let agents = entries("agents").map(|agent| agent.join("script.json"));
    entries("vendors").filter(is_script).chain(agents).collect()
}

#[test]
fn every_script_is_served() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 8, "{scripts:?}");
    for script in scripts {
        let mut program = Command::new(env!("CARGO_BIN_EXE_loggia-fake-vendors"));
        let mut running = program.arg(&script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let read = BufReader::new(running.stdout.take().unwrap()).read_line(&mut line);
        running.kill().unwrap();
        running.wait().unwrap();
        read.unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "{}: {line:?}", script.display());
    }
}
