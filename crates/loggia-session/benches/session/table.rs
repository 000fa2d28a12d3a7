//! The table of results, and how its numbers are written.

use std::time::Duration;

#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    figure: String,
    goal: String,
    met: Option<bool>,
}

impl Table {
    pub fn row(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.push(what.into(), figure.into(), String::new(), None);
    }

    pub fn goal(
        &mut self,
        what: impl Into<String>,
        figure: impl Into<String>,
        goal: impl Into<String>,
        met: bool,
    ) {
        self.push(what.into(), figure.into(), goal.into(), Some(met));
    }

    fn push(&mut self, what: String, figure: String, goal: String, met: Option<bool>) {
        eprintln!("  {what}: {figure}");
        self.rows.push(Row { what, figure, goal, met });
    }

    pub fn print(&self) {
        println!("\n| what | figure | goal | |\n|---|---:|---|---|");
        for Row { what, figure, goal, met } in &self.rows {
            let met = match met {
                None => "",
                Some(true) => "met",
                Some(false) => "**missed**",
            };
            println!("| {what} | {figure} | {goal} | {met} |");
        }
    }
}

/// Times of single events.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
    }

    /// p50 and p99, in milliseconds.
    pub fn figure(&self) -> String {
        format!("p50 {}, p99 {}", millis(self.percentile(50)), millis(self.percentile(99)))
    }
}

pub fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

pub fn rate(events: usize, time: Duration) -> f64 {
    events as f64 / time.as_secs_f64()
}

/// With separators between thousands.
pub fn count(number: f64) -> String {
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
