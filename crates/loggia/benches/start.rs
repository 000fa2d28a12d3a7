//! The time from starting `loggia` to its first frame in a real terminal: `cargo bench -p loggia
//! --bench start`. The emulated terminal replies at once, as a local one does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

const RUNS: usize = 20;
const IDLE: Duration = Duration::from_secs(5);

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let (mut took, mut used) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let wall = opened(directory.path(), |process| used.push(spent(process)));
        took.push(wall.as_secs_f64() * 1e3);
    }
    for (what, times) in [("start → first picture", &mut took), ("of the processor", &mut used)] {
        times.sort_unstable_by(f64::total_cmp);
        let [best, half, worst] = [0, RUNS / 2, RUNS - 1].map(|at| times[at]);
        println!("{what}: best {best:.1} ms, half {half:.1} ms, worst {worst:.1} ms of {RUNS}");
    }
    let (spent, seconds) = (idle(directory.path()), IDLE.as_secs());
    println!("idle: {spent} hundredths of a second of the processor in {seconds} s");
}

/// The processor time of an idle interface. Excludes what loads after the first frame: windows are
/// measured until one is not smaller than the previous one.
fn idle(directory: &Path) -> u64 {
    let mut least = u64::MAX;
    opened(directory, |process| {
        loop {
            let before = ticks(process);
            std::thread::sleep(IDLE);
            let window = ticks(process) - before;
            if window >= least {
                break;
            }
            least = window;
        }
    });
    least
}

/// User and system time of a process so far, including ended threads.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Processor time of a process's threads so far, in milliseconds.
fn spent(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e6
}

/// Opens the interface, runs `then`, and closes it; returns the time of the first frame.
fn opened(directory: &Path, then: impl FnOnce(u32)) -> Duration {
    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_loggia"));
    command.env_clear();
    command.env("PATH", std::env::var("PATH").unwrap());
    command.env("TERM", "xterm-256color");
    command.env("LOGGIA_HOME", directory.join("home"));
    command.cwd(directory);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut writer = pair.master.take_writer().unwrap();
    let began = Instant::now();
    let mut child = pair.slave.spawn_command(command).unwrap();
    // Our copy would keep the terminal open.
    drop(pair.slave);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let took = loop {
        let read = reader.read(&mut buffer).unwrap();
        let fresh = &buffer[..read];
        seen.extend_from_slice(fresh);
        if fresh.windows(4).any(|window| window == b"\x1b[6n") {
            writer.write_all(b"\x1b[1;1R").unwrap();
        }
        let text = String::from_utf8_lossy(&seen);
        if text.contains("what shall I do?") {
            break began.elapsed();
        }
    };
    then(child.process_id().unwrap());
    writer.write_all(b"\x04").unwrap();
    // Drain the output, so that it can exit.
    while matches!(reader.read(&mut buffer), Ok(1..)) {}
    child.wait().unwrap();
    took
}
