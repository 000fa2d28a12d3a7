//! Runs `loggia` with its own home and workspace and reads its output.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use loggia_core::{Envelope, Event};
use serde_json::Value;

pub struct Machine {
    directory: tempfile::TempDir,
}

/// The result of one run.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Machine {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("loggia-e2e-").tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("work")).unwrap();
        Self { directory }
    }

    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.file(name)).ok()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A script for the scripted model, outside the workspace.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("scripted:{}", path.display())
    }

    /// The user's configuration.
    pub fn configure(&self, text: &str) {
        let directory = self.home().join("config");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), text).unwrap();
    }

    /// A file with bearer tokens, for the flag.
    pub fn tokens(&self, text: &str) -> String {
        let path = self.directory.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn program() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_loggia"))
    }

    /// The environment of the tests is not passed on.
    pub fn prepare(&self, mut command: Command) -> Command {
        command.env_clear().env("PATH", std::env::var("PATH").unwrap());
        command.env("HOME", self.directory.path()).env("LOGGIA_HOME", self.home());
        command.env("TERM", "xterm").env("LANG", "C.UTF-8").current_dir(self.work());
        // No model server of this machine is found.
        command.env("OLLAMA_HOST", "http://127.0.0.1:9");
        command.env("LLAMACPP_BASE_URL", "http://127.0.0.1:9/v1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(Self::program());
        command.args(arguments);
        self.prepare(command)
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// The ids of all sessions, newest first.
    pub fn sessions(&self) -> Vec<String> {
        let listed = self.run(&["sessions", "list", "--all", "--json", "--limit", "100000"]);
        assert_eq!(listed.code, 0, "{}", listed.err);
        let id = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["session"].as_str().unwrap().to_owned()
        };
        listed.out.lines().map(id).collect()
    }

    /// The log of a session on disk.
    pub fn log(&self, session: &str) -> Vec<Envelope> {
        exported(&self.run(&["sessions", "export", session, "--format", "jsonl"]))
    }
}

/// The events printed by `sessions export`.
pub fn exported(ran: &Ran) -> Vec<Envelope> {
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The events of a `--output stream-json` run, from complete lines.
pub fn streamed(out: &str) -> Vec<Envelope> {
    out.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["type"] == "event")
        .map(|line| serde_json::from_value(line).unwrap())
        .collect()
}

/// The session of a `stream-json` run, from its first line.
pub fn announced(out: &str) -> Option<String> {
    let first = serde_json::from_str::<Value>(out.lines().next()?).ok()?;
    first["session"].as_str().map(str::to_owned)
}

/// A log as one word per event, for comparisons.
pub fn shape(log: &[Envelope]) -> String {
    let word = |envelope: &Envelope| {
        let value = serde_json::to_value(&envelope.event).unwrap();
        let name = value["type"].as_str().unwrap().to_owned();
        match &envelope.event {
            Event::TurnEnded { .. } | Event::CallEnded { .. } => {
                format!("{name}({})", value["outcome"]["type"].as_str().unwrap())
            }
            _ => name,
        }
    };
    log.iter().map(word).collect::<Vec<_>>().join(" ")
}
