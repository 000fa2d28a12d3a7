//! The table at the end: a column for each server.

use std::time::Duration;

use super::burst::Outcome;
use super::server::Contender;

pub struct Figures {
    package: &'static str,
    storage: &'static str,
    /// Turns a second in each round, with 16 and with 64 connections.
    pub with_16: Vec<f64>,
    pub with_64: Vec<f64>,
    /// The slowest `GetTask` right after the run with 64 connections, in each round.
    pub get_task: Vec<Duration>,
    /// Turns a second in the first and the last tenth of the long run, in each round.
    pub first_tenth: Vec<f64>,
    pub last_tenth: Vec<f64>,
    pub cpu: Vec<Duration>,
    pub failed: usize,
    pub starts: Vec<Duration>,
    pub first_event: Vec<Duration>,
    /// KiB.
    pub idle: usize,
    /// Number of tasks, and resident memory in KiB after them.
    pub after: (usize, usize),
    pub burst: Option<Outcome>,
}

impl Figures {
    fn new(contender: &Contender) -> Self {
        Self {
            package: contender.package,
            storage: contender.storage,
            with_16: Vec::new(),
            with_64: Vec::new(),
            get_task: Vec::new(),
            first_tenth: Vec::new(),
            last_tenth: Vec::new(),
            cpu: Vec::new(),
            failed: 0,
            starts: Vec::new(),
            first_event: Vec::new(),
            idle: 0,
            after: (0, 0),
            burst: None,
        }
    }
}

pub struct Table {
    pub columns: Vec<Figures>,
}

type Cell = fn(&Figures) -> String;
type Rates = fn(&Figures) -> &[f64];

const RATES: &[(&str, Rates)] = &[("16", |one| &one.with_16), ("64", |one| &one.with_64)];

const ROWS: &[(&str, Cell)] = &[
    ("tasks are stored", |one| one.storage.to_owned()),
    ("turns a second, 16 connections, median", |one| count(median(&one.with_16))),
    ("— lowest to highest", |one| range(&one.with_16)),
    ("turns a second, 64 connections, median", |one| count(median(&one.with_64))),
    ("— lowest to highest", |one| range(&one.with_64)),
    ("— failed", |one| one.failed.to_string()),
    ("slowest GetTask right after these, median", |one| {
        let times: Vec<f64> = one.get_task.iter().map(Duration::as_secs_f64).collect();
        format!("{:.1} ms", median(&times) * 1e3)
    }),
    ("processor time for a turn, median", |one| {
        let times: Vec<f64> = one.cpu.iter().map(Duration::as_secs_f64).collect();
        format!("{:.0} µs", median(&times) * 1e6)
    }),
    ("turns a second, first : last tenth, medians", |one| {
        format!("{} : {}", count(median(&one.first_tenth)), count(median(&one.last_tenth)))
    }),
    ("first event after a streaming request, p50", |one| millis(percentile(&one.first_event, 50))),
    ("— p99", |one| millis(percentile(&one.first_event, 99))),
    ("start to card, median", |one| {
        format!("{:.0} ms", percentile(&one.starts, 50).as_secs_f64() * 1e3)
    }),
    ("memory, idle", |one| mebi(one.idle)),
    ("memory after the tasks", |one| format!("{} after {}", mebi(one.after.1), one.after.0)),
    ("burst: followers that got everything", |one| {
        one.burst
            .as_ref()
            .map_or(String::new(), |burst| format!("{} of {}", burst.complete.0, burst.complete.1))
    }),
    ("— until the last of them had it", |one| match &one.burst {
        Some(burst) if burst.complete.0 > 0 => format!("{:.2} s", burst.last.as_secs_f64()),
        Some(_) | None => "–".to_owned(),
    }),
    ("— memory for a follower", |one| {
        one.burst.as_ref().map_or(String::new(), |burst| format!("{:.0} KiB", burst.memory))
    }),
];

impl Table {
    pub fn new(contenders: &[Contender]) -> Self {
        Self { columns: contenders.iter().map(Figures::new).collect() }
    }

    pub fn print(&self) {
        let names: Vec<&str> = self.columns.iter().map(|one| one.package).collect();
        println!("\n| what | {} |", names.join(" | "));
        println!("|---|{}", "---:|".repeat(names.len()));
        for (what, cell) in ROWS {
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            println!("| {what} | {} |", cells.join(" | "));
        }
        for (connections, rates) in RATES {
            let first = self.columns.first().map_or(&[][..], rates);
            // The ratio is taken in each round, so that other load on the machine affects both sides.
            let by = |one: &Figures| {
                let by: Vec<f64> = first.iter().zip(rates(one)).map(|(a, b)| a / b).collect();
                let (lowest, highest) = ends(&by);
                format!("{:.2} ({lowest:.2}–{highest:.2})", median(&by))
            };
            let cells: Vec<String> = self.columns.iter().map(by).collect();
            let what = format!("turns a second of the first column / of this one, {connections}");
            println!("| {what} | {} |", cells.join(" | "));
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(values: &[f64]) -> f64 {
    sorted(values).get(values.len() / 2).copied().unwrap_or_default()
}

fn ends(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    let end = |value: Option<&f64>| value.copied().unwrap_or_default();
    (end(sorted.first()), end(sorted.last()))
}

fn range(values: &[f64]) -> String {
    let (lowest, highest) = ends(values);
    format!("{}–{}", count(lowest), count(highest))
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

/// With a comma between thousands.
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
