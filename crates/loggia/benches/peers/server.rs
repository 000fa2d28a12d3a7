//! The servers that are measured, and how each is started. The peers' agents are in `bench/peers`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::Connection;

const START_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Contender {
    pub name: &'static str,
    pub package: &'static str,
    pub storage: &'static str,
    /// The program, then its arguments, before the port.
    command: Vec<PathBuf>,
    pub burst: Burst,
}

/// How the burst is held back until all followers are connected, and how it is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// The scripted model asks first; the answer lets the turn go on.
    Question,
    /// The agent waits for the word `release` in another task.
    Release,
}

/// The measurement that a server is started for.
#[derive(Clone, Copy)]
pub enum Purpose {
    Turns,
    /// A burst of this many events.
    Burst(usize),
}

pub fn contenders() -> Vec<Contender> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let peers = target.join("peers");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers");
    let python = peers.join("python/venv/bin/python");
    let agent = sources.join("python/server.py");
    vec![
        Contender {
            name: "loggia",
            package: "Loggia",
            storage: "on disk",
            command: vec![env!("CARGO_BIN_EXE_loggia").into(), "serve".into(), "--port".into()],
            burst: Burst::Question,
        },
        Contender {
            name: "rust-sqlite",
            package: "a2a-protocol-server 0.15.0, SQLite",
            storage: "on disk",
            command: vec![peers.join("rust-sqlite/release/peer-sqlite")],
            burst: Burst::Release,
        },
        Contender {
            name: "python-sqlite",
            package: "a2a-sdk 1.3.0, SQLite",
            storage: "on disk",
            command: vec![python.clone(), agent.clone(), "--sqlite".into()],
            burst: Burst::Release,
        },
        Contender {
            name: "rust",
            package: "a2a-server-lf 0.5.3",
            storage: "in memory",
            command: vec![peers.join("rust/release/peer")],
            burst: Burst::Release,
        },
        Contender {
            name: "js",
            package: "@a2a-js/sdk 1.3.0",
            storage: "in memory",
            command: vec!["node".into(), peers.join("js/server.mjs")],
            burst: Burst::Release,
        },
        Contender {
            name: "python",
            package: "a2a-sdk 1.3.0",
            storage: "in memory",
            command: vec![python, agent],
            burst: Burst::Release,
        },
    ]
}

impl Contender {
    /// The first file of the command that is not there.
    pub fn missing(&self) -> Option<String> {
        let mut files = self.command.iter().filter(|word| word.is_absolute());
        files.find(|file| !file.exists()).map(|file| file.display().to_string())
    }
}

/// A started server; killed when dropped.
pub struct Running {
    child: Child,
    pub port: u16,
    pub started_in: Duration,
    pub burst: Burst,
    /// In the target directory, which is on a disk; `/tmp` may be in memory.
    home: Arc<TempDir>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            let said = std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
            eprintln!("the server exited ({status}): {said}");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts the server and waits for its card.
    pub async fn start(contender: &Contender, purpose: Purpose) -> Self {
        // Writes of the server before it must not slow this one down.
        let synced = Command::new("sync").status().expect("sync starts");
        assert!(synced.success(), "sync");
        let home =
            Arc::new(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"));
        let log = File::create(home.path().join("log")).expect("a log");
        let port = free_port();
        let [program, arguments @ ..] = contender.command.as_slice() else { panic!("a command") };
        let mut command = Command::new(program);
        command.args(arguments).arg(port.to_string()).current_dir(home.path());
        if let (Purpose::Burst(events), Burst::Question) = (purpose, contender.burst) {
            let file = home.path().join("burst.json");
            std::fs::write(&file, script(events)).expect("a script");
            command.arg("--model").arg(format!("scripted:{}", file.display()));
        }
        command.env("LOGGIA_HOME", home.path().join("home"));
        // The burst takes one reply per line.
        command.env("LOGGIA_LIMITS_REPLIES", "100000");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let begin = Instant::now();
        let child = command.spawn().expect("the server starts");
        let burst = contender.burst;
        let mut running = Self { child, port, started_in: Duration::ZERO, burst, home };
        loop {
            if let Some(mut connection) = Connection::open(port).await
                && let Some((200, _)) = connection.get("/.well-known/agent-card.json").await
            {
                running.started_in = begin.elapsed();
                return running;
            }
            let ended = running.child.try_wait().ok().flatten();
            if ended.is_some() || begin.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(running.home.path().join("log"));
                panic!("{} does not start: {}", contender.name, said.unwrap_or_default());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns the directory instead of removing it, because the removal would slow down the disk for
    /// the next server.
    pub fn stop(self) -> Arc<TempDir> {
        self.home.clone()
    }

    /// Resident memory, in KiB.
    pub fn resident(&self) -> usize {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()));
        let pages = pages.expect("statm");
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        resident.expect("pages") * 4
    }

    /// Processor time of the server process since its start.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("stat");
        // The fields after the name in parentheses: ticks of 10 ms in user and in kernel mode.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks =
            fields.split(' ').skip(12).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks"));
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }
}

/// A question, then a result for each event.
fn script(events: usize) -> String {
    let publish = |number| {
        let input = json!({ "name": format!("line-{number}"), "text": format!("line {number}") });
        json!({ "call": "publish_artifact", "input": input })
    };
    let ask = json!({ "call": "ask_user", "input": { "question": "Go?" } });
    let steps: Vec<Value> = std::iter::once(ask).chain((0..events).map(publish)).collect();
    json!({ "rule": [{ "steps": steps }] }).to_string()
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Each follower needs a file descriptor here and in the server, which inherits the limit.
pub fn allow_many_connections() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let wanted = hard.min(65_536).max(soft);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).expect("more files");
}
