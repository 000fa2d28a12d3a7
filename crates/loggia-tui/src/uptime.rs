//! Time since the interface opened, in milliseconds. Only the runner reads a clock.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Uptime(pub u64);

impl Uptime {
    #[must_use]
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// `4s`, `1m 05s`, `2h 03m`.
pub fn format_duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (0, "0s"),
            (999, "0s"),
            (4_000, "4s"),
            (65_000, "1m 05s"),
            (3_599_999, "59m 59s"),
            (7_380_000, "2h 03m"),
        ];
        for (milliseconds, wanted) in cases {
            assert_eq!(format_duration(milliseconds), wanted);
        }
    }
}
