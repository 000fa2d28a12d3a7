//! The time from a report or a command until a reader has its event.

use std::time::{Duration, Instant};

use loggia_core::{Command, Mode};
use loggia_session::{Follower, SessionHandle};
use loggia_testkit::client;

use super::stage::{self, Speaker, Stage};
use super::table::{Table, Times, count, millis};
use crate::Size;

const STREAM_GOAL: Duration = Duration::from_micros(500);
const DECISION_GOAL: Duration = Duration::from_millis(5);
const LENGTH_GOAL: f64 = 1.1;
const WARM_UP: usize = 200;
const ROUNDS: usize = 100;

pub async fn measure(table: &mut Table, size: &Size) {
    let Stage { hub, speaker, directory: _keep, .. } = stage::stage();
    let handle = client::create(&hub).await;
    Probe::new(&handle).measure(&speaker, WARM_UP).await;
    let mut probe = Probe::new(&handle);
    probe.measure(&speaker, size.samples).await;
    hub.stop().await;
    for (what, times, goal) in [
        ("stream event, said → visible", &probe.stream, STREAM_GOAL),
        ("decision, submitted → on disk and visible", &probe.decisions, DECISION_GOAL),
    ] {
        let met = times.percentile(50) < goal;
        table.goal(what, times.figure(), format!("p50 < {}", millis(goal)), met);
    }
}

/// The same in a short and in a long session, alternating, so that other load affects both alike.
pub async fn by_length(table: &mut Table, size: &Size) {
    let Stage { hub, store, speaker, directory: _keep } = stage::stage();
    let mut probes = Vec::new();
    for (name, events) in [("short", 1_000), ("long", size.large)] {
        let session = stage::session_of(&*store, name, events).await;
        probes.push(Probe::new(&hub.open(&session).await.expect("opened")));
    }
    for _ in 0..ROUNDS {
        for probe in &mut probes {
            probe.measure(&speaker, size.samples / ROUNDS).await;
        }
    }
    hub.stop().await;
    let times = |of: fn(&Probe) -> &Times| {
        let median = |probe: &Probe| of(probe).percentile(50);
        (median(&probes[0]), median(&probes[1]))
    };
    let kinds = [
        ("stream event", times(|probe| &probe.stream)),
        ("decision", times(|probe| &probe.decisions)),
    ];
    for (what, (short, long)) in kinds {
        let ratio = long.as_secs_f64() / short.as_secs_f64();
        table.goal(
            format!("{what}, session of 1,000 : of {} events, p50", count(size.large as f64)),
            format!("{} : {} = 1 : {ratio:.2}", millis(short), millis(long)),
            format!("< 1 : {LENGTH_GOAL}"),
            ratio < LENGTH_GOAL,
        );
    }
}

/// One session with a reader at its head.
struct Probe {
    handle: SessionHandle,
    follower: Follower,
    changes: u32,
    stream: Times,
    decisions: Times,
}

impl Probe {
    fn new(handle: &SessionHandle) -> Self {
        Self {
            handle: handle.clone(),
            follower: handle.follow(handle.head()),
            changes: 0,
            stream: Times::default(),
            decisions: Times::default(),
        }
    }

    /// Times single events one at a time: first stream events, then decisions.
    async fn measure(&mut self, speaker: &Speaker, samples: usize) {
        let turn = self.handle.follow(self.handle.head());
        stage::speak(&self.handle, "paced", samples).await;
        self.catch_up().await;
        for _ in 0..samples {
            let time = self.stream(speaker).await;
            self.stream.push(time);
        }
        stage::read_turn(turn).await;
        self.catch_up().await;
        for _ in 0..samples {
            let time = self.decision().await;
            self.decisions.push(time);
        }
    }

    async fn catch_up(&mut self) {
        while self.follower.cursor() < self.handle.head() {
            self.follower.next().await.expect("readable");
        }
    }

    async fn stream(&mut self, speaker: &Speaker) -> Duration {
        speaker.go.add_permits(1);
        self.follower.next().await.expect("readable");
        let seen = Instant::now();
        seen - speaker.said.lock().unwrap().expect("something was said")
    }

    async fn decision(&mut self) -> Duration {
        self.changes += 1;
        let mut settings = client::settings(Mode::Ask);
        settings.limits.replies = self.changes;
        let command = Command::Configure { settings };
        let started = Instant::now();
        let submit = self.handle.submit(command, client::origin("bench"));
        let see = async {
            self.follower.next().await.expect("readable");
            started.elapsed()
        };
        let (submitted, time) = tokio::join!(submit, see);
        submitted.expect("accepted");
        time
    }
}
