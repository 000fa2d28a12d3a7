//! The clocks of the benchmarks, and how figures are printed.

use std::time::{Duration, Instant};

/// Above the rows printed by [`print`].
pub const HEADING: &str =
    "µs, of the processor                              p50      p99      max   wall p50      p99";

/// A point in time on both clocks.
pub struct BothClocks {
    wall: Instant,
    cpu: Duration,
}

#[derive(Clone, Copy)]
pub struct Time {
    pub wall: Duration,
    pub cpu: Duration,
}

impl BothClocks {
    pub fn now() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    pub fn elapsed(&self) -> Time {
        Time { cpu: cpu_time() - self.cpu, wall: self.wall.elapsed() }
    }
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

pub struct Figures {
    pub p50: Duration,
    pub p99: Duration,
    most: Duration,
}

impl Figures {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        Self { p50: at(50), p99: at(99), most: at(100) }
    }
}

/// Prints a row; returns the processor times.
pub fn print(name: &str, times: &[Time]) -> Figures {
    let cpu = Figures::of(times.iter().map(|time| time.cpu).collect());
    let wall = Figures::of(times.iter().map(|time| time.wall).collect());
    let [p50, p99, most] = [cpu.p50, cpu.p99, cpu.most].map(micros);
    let [wall_p50, wall_p99] = [wall.p50, wall.p99].map(micros);
    println!("{name:<44} {p50:>8.0} {p99:>8.0} {most:>8.0}   {wall_p50:>8.0} {wall_p99:>8.0}");
    cpu
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
