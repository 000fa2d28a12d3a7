//! How much one session writes, how much fifty write together, and how many turns run in new sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_core::{AgentName, Command, Mode, Seq, Workspace};
use loggia_session::{NewSession, SessionHandle};
use loggia_testkit::client;
use tokio::task::JoinSet;

use super::stage::{self, Stage};
use super::table::{Table, count, rate};
use crate::Size;

const SESSIONS: usize = 50;
const CLIENTS: usize = 64;

pub async fn measure(table: &mut Table, size: &Size) {
    let one = streams(1, size.burst * 2).await;
    table.row("stream events, one session", format!("{} / s", count(one)));
    let many = streams(SESSIONS, size.burst * 2 / SESSIONS).await;
    table.row("stream events, 50 sessions at once", format!("{} / s", count(many)));
    let alone = decisions(1, size.samples / 3).await;
    table.row("decisions, one session", format!("{} / s", count(alone)));
    let together = decisions(SESSIONS, size.samples / 30).await;
    table.row(
        "decisions, 50 sessions at once (group commit)",
        format!("{} / s, × {:.1}", count(together), together / alone),
    );
    let turns = turns(size.burst).await;
    table.row("turns, each in a new session, 64 clients", format!("{} / s", count(turns)));
}

/// Each client begins a session, prompts, reads to the end of the turn, and starts over.
async fn turns(number: usize) -> f64 {
    let Stage { hub, directory: _keep, .. } = stage::stage();
    let hub = Arc::new(hub);
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let hub = hub.clone();
        clients.spawn(async move {
            for _ in 0..number / CLIENTS {
                let new = NewSession {
                    workspace: Workspace::Local { path: "/workspace".into() },
                    settings: client::settings(Mode::Ask),
                    agent: AgentName("bench".into()),
                };
                let handle = hub.begin(new, client::origin("bench")).await.expect("begun");
                stage::speak(&handle, "burst", 1).await;
                stage::read_turn(handle.follow(Seq::ZERO)).await;
            }
        });
    }
    clients.join_all().await;
    let time = started.elapsed();
    hub.stop().await;
    rate(number / CLIENTS * CLIENTS, time)
}

async fn sessions(stage: &Stage, number: usize) -> Vec<SessionHandle> {
    let mut handles = Vec::new();
    for _ in 0..number {
        handles.push(client::create(&stage.hub).await);
    }
    handles
}

async fn streams(number: usize, events: usize) -> f64 {
    let stage = stage::stage();
    let handles = sessions(&stage, number).await;
    let started = Instant::now();
    let mut readers = JoinSet::new();
    for handle in handles {
        readers.spawn(async move {
            stage::speak(&handle, "burst", events).await;
            stage::read_turn(handle.follow(Seq::ZERO)).await
        });
    }
    let read: usize = readers.join_all().await.into_iter().sum();
    let time = started.elapsed();
    assert!(read > number * events, "every event was read");
    stage.hub.stop().await;
    rate(read, time)
}

async fn decisions(number: usize, each: usize) -> f64 {
    let stage = stage::stage();
    let handles = sessions(&stage, number).await;
    let started = Instant::now();
    let mut writers = JoinSet::new();
    for handle in handles {
        writers.spawn(async move {
            for change in 0..each {
                let mut settings = client::settings(Mode::Ask);
                settings.limits.turn_seconds = change as u64;
                let command = Command::Configure { settings };
                handle.submit(command, client::origin("bench")).await.expect("accepted");
            }
        });
    }
    writers.join_all().await;
    let time: Duration = started.elapsed();
    stage.hub.stop().await;
    rate(number * each, time)
}
