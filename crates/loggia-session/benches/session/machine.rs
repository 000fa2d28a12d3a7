//! The machine that the figures were measured on.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::stage;
use super::table::{Table, Times};
use crate::Size;

pub fn describe() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processors = read("/proc/cpuinfo");
    let processor = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let kernel = read("/proc/sys/kernel/osrelease");
    let directory = stage::directory();
    let system = file_system(&read("/proc/self/mountinfo"), directory.path());
    let load = read("/proc/loadavg");
    println!("{cores} cores ({processor}), Linux {}, {system}", kernel.trim());
    println!("load before the run: {}", load.split(' ').next().unwrap_or_default());
}

/// The type of the file system with the longest mount point above `path`.
fn file_system(mounts: &str, path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = left.split(' ').nth(4)?;
            path.starts_with(point).then(|| (point.len(), right.split(' ').next()))
        })
        .max_by_key(|(length, _)| *length)
        .and_then(|(_, system)| system)
        .unwrap_or("unknown file system")
        .to_owned()
}

/// The cost of one small synced write without a store, which is the lower bound for a decision.
pub fn disk(table: &mut Table, size: &Size) {
    let directory = stage::directory();
    let mut file = std::fs::File::create(directory.path().join("probe")).expect("a file");
    let mut times = Times::default();
    for _ in 0..size.samples / 3 {
        let started = Instant::now();
        file.write_all(&[7; 4096]).expect("written");
        file.sync_data().expect("synced");
        times.push(started.elapsed());
    }
    table.row("the disk alone: 4 KiB written and synced", times.figure());
}

/// Processor time of this process. Unlike the clock it does not count other processes.
pub fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    // The fields after the name in parentheses. Ticks of 10 ms in user and in kernel mode.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks =
        fields.split(' ').skip(12).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Resident memory of this process, in KiB.
pub fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    resident.expect("pages") * 4
}
