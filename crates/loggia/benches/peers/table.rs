//! The table at the end: a column for each server.

use std::time::Duration;

use super::burst::Outcome;
use super::server::Contender;

pub struct Figures {
    package: &'static str,
    keeps: &'static str,
    pub starts: Vec<Duration>,
    pub first_event: Vec<Duration>,
    pub with_16: f64,
    pub with_64: f64,
    pub failed: usize,
    pub cpu: Duration,
    /// Turns a second at the beginning and at the end of the long run.
    pub ends: (f64, f64),
    /// KiB.
    pub idle: usize,
    /// After how many tasks, KiB.
    pub after: (usize, usize),
    pub burst: Option<Outcome>,
}

impl Figures {
    pub fn new(contender: &Contender) -> Self {
        Self {
            package: contender.package,
            keeps: contender.keeps,
            starts: Vec::new(),
            first_event: Vec::new(),
            with_16: 0.0,
            with_64: 0.0,
            failed: 0,
            cpu: Duration::ZERO,
            ends: (0.0, 0.0),
            idle: 0,
            after: (0, 0),
            burst: None,
        }
    }
}

#[derive(Default)]
pub struct Table {
    columns: Vec<Figures>,
}

type Cell = fn(&Figures) -> String;
type Rate = fn(&Figures) -> f64;

const RATES: &[(&str, Rate)] = &[("16", |one| one.with_16), ("64", |one| one.with_64)];

const ROWS: &[(&str, Cell)] = &[
    ("tasks are kept", |one| one.keeps.to_owned()),
    ("turns a second, 16 connections", |one| count(one.with_16)),
    ("turns a second, 64 connections", |one| count(one.with_64)),
    ("— failed", |one| one.failed.to_string()),
    ("processor time for a turn", |one| format!("{:.2} ms", one.cpu.as_secs_f64() * 1e3)),
    ("turns a second, first : last tenth", |one| {
        format!("{} : {}", count(one.ends.0), count(one.ends.1))
    }),
    ("first event after a streaming request, p50", |one| millis(percentile(&one.first_event, 50))),
    ("— p99", |one| millis(percentile(&one.first_event, 99))),
    ("start to card, median", |one| {
        let mut starts = one.starts.clone();
        starts.sort();
        format!("{:.0} ms", percentile(&starts, 50).as_secs_f64() * 1e3)
    }),
    ("memory, idle", |one| mebi(one.idle)),
    ("memory after the tasks", |one| format!("{} after {}", mebi(one.after.1), one.after.0)),
    ("burst: followers that got everything", |one| {
        one.burst
            .as_ref()
            .map_or(String::new(), |burst| format!("{} of {}", burst.complete.0, burst.complete.1))
    }),
    ("— until the last one had it", |one| match &one.burst {
        Some(burst) if burst.complete.0 > 0 => format!("{:.2} s", burst.last.as_secs_f64()),
        Some(_) | None => "–".to_owned(),
    }),
    ("— memory for a follower", |one| {
        one.burst.as_ref().map_or(String::new(), |burst| format!("{:.0} KiB", burst.memory))
    }),
];

impl Table {
    pub fn add(&mut self, figures: Figures) {
        for (what, cell) in ROWS {
            eprintln!("  {what}: {}", cell(&figures));
        }
        self.columns.push(figures);
    }

    pub fn print(&self) {
        let names: Vec<&str> = self.columns.iter().map(|one| one.package).collect();
        println!("\n| what | {} |", names.join(" | "));
        println!("|---|{}", "---:|".repeat(names.len()));
        for (what, cell) in ROWS {
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            println!("| {what} | {} |", cells.join(" | "));
        }
        for (connections, rate) in RATES {
            let first = self.columns.first().map_or(0.0, rate);
            let cells: Vec<String> =
                self.columns.iter().map(|one| format!("{:.2}", first / rate(one))).collect();
            let what = format!("the first column's turns a second by this one's, {connections}");
            println!("| {what} | {} |", cells.join(" | "));
        }
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn mebi(kibi: usize) -> String {
    format!("{:.1} MiB", kibi as f64 / 1024.0)
}

/// With thousands apart, for people.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
