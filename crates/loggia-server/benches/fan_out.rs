//! The cost of one more reader: `cargo bench -p loggia-server`, with `-- --quick` for a short run. One session, bursts of
//! events, 1 to 1,000 readers of one shared projection, compared with a reader that projects and encodes for itself.
//! Without sockets. Prints a table; see `docs/contributing/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use loggia_core::{
    AgentName, Command, Content, Envelope, Event, Limits, Mode, ModelName, Origin, Seq, Settings,
    Surface, TaskChoice, Workspace,
};
use loggia_server::projection::{EncodedFrame, Frames, Projection, ProjectionReader};
use loggia_session::{Agent, Hub, MemoryStore, NewSession, SessionHandle, Turn, TurnOver};
use loggia_wire::{End, FrameId, Projector, View};

const VIEW: View = View::WEBSOCKET;
const LINE: &str = "The quick brown fox jumps over the lazy dog, and then it does so once more.";

/// Writes as many lines as its prompt says, each as an event.
struct Speaker;

impl Agent for Speaker {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        Box::pin(async move {
            let lines: usize = turn.context().content.to_text().parse().unwrap_or_default();
            for _ in 0..lines {
                turn.say(&turn.message(), LINE).await?;
            }
            Ok(())
        })
    }
}

struct Measured {
    frames: usize,
    wall: Duration,
    processor: Duration,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let lines = if quick { 500 } else { 5_000 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        println!("bursts of {lines} events, {build} build\n");
        println!("| readers | events / s | deliveries / s | processor time a delivery |");
        println!("|---:|---:|---:|---:|");
        let mut one = None;
        for readers in [1, 10, 100, 1_000] {
            let measured = measure(readers, lines).await;
            let Measured { frames, wall, processor } = &measured;
            let more = one.as_ref().map(|one: &Measured| {
                processor.saturating_sub(one.processor) / ((readers - 1) * *frames) as u32
            });
            let cost = more.unwrap_or(*processor / *frames as u32);
            println!(
                "| {readers} | {:.0} | {:.0} | {cost:.1?}{} |",
                *frames as f64 / wall.as_secs_f64(),
                (frames * readers) as f64 / wall.as_secs_f64(),
                if more.is_some() { " for each further reader" } else { ", writing included" },
            );
            one.get_or_insert(measured);
        }
        println!(
            "\nprojecting and encoding for itself, a reader would take {:.1?} a frame",
            alone(lines).await
        );
    });
}

async fn session() -> (Hub, SessionHandle) {
    let hub = Hub::new(Arc::new(MemoryStore::default()), Arc::new(Speaker), "bench");
    let settings = Settings {
        model: ModelName("bench".into()),
        effort: None,
        mode: Mode::Ask,
        rules: Vec::new(),
        tools: None,
        unattended: false,
        timeout: None,
        limits: Limits::default(),
    };
    let workspace = Workspace::Local { path: "/workspace".into() };
    let new = NewSession { workspace, settings, agent: AgentName("bench".into()) };
    let handle = hub.create(new, Origin::new(Surface::Cli, "bench")).await.unwrap();
    (hub, handle)
}

async fn speak(handle: &SessionHandle, lines: usize) {
    let command = Command::Prompt {
        prompt: SessionHandle::fresh_prompt(),
        task: TaskChoice::New,
        content: Content::text(lines.to_string()),
    };
    handle.submit(command, Origin::new(Surface::Cli, "bench")).await.unwrap();
}

/// Measures until the last reader has the last frame.
async fn measure(readers: usize, lines: usize) -> Measured {
    let (_hub, handle) = session().await;
    let projection = ProjectionReader::new(Projection::start(&handle, VIEW), handle.clone());
    let reading: Vec<_> =
        (0..readers).map(|_| tokio::spawn(read(projection.frames(FrameId::default())))).collect();
    let (begun, processor) = (Instant::now(), cpu_time());
    speak(&handle, lines).await;
    let mut frames = 0;
    for reader in reading {
        frames = reader.await.unwrap();
    }
    Measured { frames, wall: begun.elapsed(), processor: cpu_time() - processor }
}

async fn read(mut frames: Frames) -> usize {
    let mut seen = 0;
    while let Some(batch) = frames.next().await.unwrap() {
        seen += batch.len();
        if batch.iter().any(|frame| frame.ends == Some(End::Terminal)) {
            break;
        }
    }
    seen
}

/// The time of one frame that a reader projects and encodes for itself.
async fn alone(lines: usize) -> Duration {
    let (_hub, handle) = session().await;
    speak(&handle, lines).await;
    let mut follower = handle.follow(Seq::ZERO);
    let mut events: Vec<Arc<Envelope>> = Vec::new();
    while !events.iter().rev().take(256).any(|e| matches!(e.event, Event::TurnEnded { .. })) {
        events.extend(follower.next().await.unwrap().unwrap());
    }
    let mut projector = Projector::new(handle.id().clone(), VIEW);
    let begun = Instant::now();
    let mut frames = 0u32;
    for envelope in &events {
        for frame in projector.project(envelope) {
            std::hint::black_box(EncodedFrame::new(handle.id(), frame));
            frames += 1;
        }
    }
    begun.elapsed() / frames
}

/// The processor time of this process, which other processes do not affect.
fn cpu_time() -> Duration {
    let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let duration = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(time.tv_sec().unsigned_abs())
            + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    duration(used.user_time()) + duration(used.system_time())
}
