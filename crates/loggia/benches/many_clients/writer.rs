//! The writer with many readers: a word every 5 ms, and the real gaps.

use std::path::Path;
use std::time::{Duration, Instant};

use super::reader::{Done, Reader, Seen};
use super::server::Server;
use crate::{Size, heading, quantile, report};

/// Gaps between the writer's events, in milliseconds.
#[derive(Default)]
struct Pace(Vec<i64>);

impl Pace {
    fn add(&mut self, times: &[i64]) {
        self.0.extend(times.windows(2).map(|pair| pair[1] - pair[0]));
        self.0.sort_unstable();
    }

    fn shown(&self) -> String {
        let [half, most, worst] = [50, 99, 100].map(|percent| quantile(&self.0, percent));
        format!("p50 {half} ms, p99 {most} ms, worst {worst} ms")
    }
}

#[derive(Default)]
struct Costs {
    user: Duration,
    kernel: Duration,
    wall: Duration,
    deliveries: usize,
    reads: usize,
}

pub async fn measure(program: &Path, size: &Size) {
    let steps = format!(
        "{{ call = \"run_shell_command\", input = {{ command = \"true\" }} }}, \
         {{ repeat = {}, step = {{ text = \"word \", delay = \"5ms\" }} }}",
        size.words
    );
    let server = Server::start(program, "", &steps);
    let mut watch = server.watch().await;
    let (mut alone, mut together) = (Pace::default(), Pace::default());
    let mut costs = Costs::default();
    let mut written = 0;
    for _ in 0..size.rounds {
        let question = server.begin(&mut watch).await;
        server.release(&question).await;
        watch.until_over().await;
        let times = server.text_times();
        alone.add(&times[written..]);
        written = times.len();
        beside(&server, size, &mut costs).await;
        let times = server.text_times();
        together.add(&times[written..]);
        written = times.len();
        watch.until_over().await;
    }
    heading(&format!("The writer beside {} streams and {} sockets", size.readers, size.readers));
    report("its events apart, alone", &alone.shown(), None);
    let (before, with) = (quantile(&alone.0, 99), quantile(&together.0, 99));
    report(
        "its events apart, with all clients",
        &together.shown(),
        Some(("p99 + ≤ 3 ms", with <= before + 3)),
    );
    let each = |time: Duration| time.as_secs_f64() * 1e6 / costs.deliveries as f64;
    let share = (costs.user + costs.kernel).as_secs_f64() / costs.wall.as_secs_f64();
    report(
        "deliveries",
        &format!("{} in {:.1} s", costs.deliveries, costs.wall.as_secs_f64()),
        None,
    );
    report(
        "processor time of the server for a delivery",
        &format!(
            "{:.2} µs, of it {:.2} in the kernel",
            each(costs.user + costs.kernel),
            each(costs.kernel)
        ),
        None,
    );
    report("processors that the server used", &format!("{share:.2}"), None);
    let together = costs.deliveries as f64 / costs.reads as f64;
    report("deliveries that came in one piece", &format!("{together:.1}"), None);
}

/// One turn with all readers.
async fn beside(server: &Server, size: &Size, costs: &mut Costs) {
    let sockets = Reader::sockets(server.port, size.readers, "").await;
    let mut watch = server.watch().await;
    let question = server.begin(&mut watch).await;
    let streams = Reader::streams(server.port, size.readers, &question.task, "0.0").await;
    let reading = [sockets, streams].map(|readers| {
        let spawn = |mut reader: Reader| tokio::spawn(async move { reader.read(|_| {}).await });
        readers.into_iter().map(spawn).collect::<Vec<_>>()
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (begun, before) = (Instant::now(), server.cpu_time());
    server.release(&question).await;
    let mut done: Vec<Done> = Vec::new();
    for readers in reading {
        let mut first: Option<Seen> = None;
        for reader in readers {
            let (seen, end) = reader.await.expect("a reader");
            assert_eq!(*first.get_or_insert(seen), seen, "everybody has seen the same");
            costs.deliveries += seen.frames;
            done.push(end);
        }
    }
    let after = server.cpu_time();
    costs.user += after.0 - before.0;
    costs.kernel += after.1 - before.1;
    costs.wall += begun.elapsed();
    costs.reads += done.iter().map(|done| done.reads).sum::<usize>();
}
