//! R09: a flood to healthy readers, alone and with two that read nothing.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use loggia_core::Event;

use super::reader::Reader;
use super::server::Server;
use crate::{Size, heading, quantile, report};

const BYTES: usize = 8 << 10;

/// One turn as received by the healthy readers.
struct Turn {
    /// Sorted delays of each event to each reader, in milliseconds.
    late: Vec<i64>,
    peak: u64,
    took: Duration,
    /// The ids of all frames.
    ids: Vec<String>,
}

pub async fn measure(program: &Path, size: &Size) {
    let Size { flood_events: events, stall_seconds, .. } = *size;
    let configuration = format!(
        "[server]\nstall_seconds = {stall_seconds}\nidle_seconds = 600\n\
         [limits]\ntext_bytes = 1_000_000_000\nreplies = 100_000\n"
    );
    let steps = format!(
        "{{ call = \"run_shell_command\", input = {{ command = \"true\" }} }}, \
         {{ repeat = {events}, step = {{ thought = \"{}\", subject = \"s\", delay = \"1ms\" }} }}, \
         {{ text = \"end\" }}",
        "x".repeat(BYTES)
    );
    let server = Server::start(program, &configuration, &steps);
    let mut healthy = Reader::sockets(server.port, size.healthy, "").await;
    // Twice, to exclude caches filled by the first flood.
    turn(&server, &mut healthy, &mut Vec::new()).await;
    let alone = turn(&server, &mut healthy, &mut Vec::new()).await;
    let mut stalled = Reader::sockets(server.port, 1, "").await;
    let beside = turn(&server, &mut healthy, &mut stalled).await;

    heading(&format!(
        "{} MB to {} readers, beside one stream and one socket that read nothing",
        events * BYTES / 1_000_000,
        size.healthy
    ));
    report(
        "frames",
        &format!(
            "{} in {:.1} s; alone {:.1} s",
            beside.ids.len(),
            beside.took.as_secs_f64(),
            alone.took.as_secs_f64()
        ),
        None,
    );
    let grown = beside.peak.saturating_sub(alone.peak);
    let goal = Some(("+ ≤ 34 MiB", grown <= 34 << 10));
    report(
        "resident set, largest: more than alone",
        &format!("{:.1} MiB (alone {:.1} MiB)", grown as f64 / 1024.0, alone.peak as f64 / 1024.0),
        goal,
    );
    let shown = |turn: &Turn| {
        format!("p50 {} ms, p99 {} ms", quantile(&turn.late, 50), quantile(&turn.late, 99))
    };
    report("written → read by a healthy one, alone", &shown(&alone), None);
    let (before, with) = (quantile(&alone.late, 99), quantile(&beside.late, 99));
    // Times are whole milliseconds.
    let goal = Some(("p99 ≤ 1.1 × + 1 ms", with * 10 <= before * 11 + 10));
    report("written → read by a healthy one, beside them", &shown(&beside), goal);
    for (name, mut reader) in ["socket", "stream"].into_iter().zip(stalled) {
        let had: Vec<String> =
            reader.leftovers().await.iter().filter_map(|frame| id_of(frame)).collect();
        let last = had.last().expect("something came before it stalled").clone();
        let whole = beside.ids.last() == Some(&last);
        let mut again = match name {
            "socket" => Reader::sockets(server.port, 1, &format!("?after={last}")).await,
            _ => Reader::streams(server.port, 1, &beside_task(&server).await, &last).await,
        };
        let mut rest = Vec::new();
        again[0].read(|frame| rest.extend(id_of(frame))).await;
        let all: Vec<&String> = had.iter().chain(&rest).collect();
        let from = beside.ids.iter().position(|id| id == all[0]).expect("a frame that others had");
        let missing = beside.ids[from..].iter().ne(all.iter().copied());
        let figure =
            format!("{} frames before it was cut, {} after it came back", had.len(), rest.len());
        report(
            &format!("the {name} that stalled"),
            &figure,
            Some(("cut; nothing missing, nothing twice", !whole && !missing)),
        );
    }
}

/// The latest task.
async fn beside_task(server: &Server) -> serde_json::Value {
    let tasks = server.log(|envelope| match envelope.event {
        Event::TurnStarted { task, .. } => Some(task),
        _ => None,
    });
    serde_json::to_value(tasks.last().expect("a task")).unwrap()
}

/// Both read nothing until the end; the stream is opened once there is a task.
async fn turn(server: &Server, healthy: &mut [Reader], stalled: &mut Vec<Reader>) -> Turn {
    let mut watch = server.watch().await;
    let question = server.begin(&mut watch).await;
    if !stalled.is_empty() {
        stalled.extend(Reader::streams(server.port, 1, &question.task, "0.0").await);
    }
    drop(watch);
    let begun = Instant::now();
    let reading = healthy.iter_mut().map(|reader| async {
        let mut had: Vec<(String, i64)> = Vec::new();
        reader.read(|frame| had.extend(id_of(frame).map(|id| (id, now())))).await;
        had
    });
    let mut reading = std::pin::pin!(join_all(reading));
    let mut peak = 0;
    server.release(&question).await;
    let had = loop {
        tokio::select! {
            had = &mut reading => break had,
            () = tokio::time::sleep(Duration::from_millis(50)) => peak = peak.max(server.resident()),
        }
    };
    let took = begun.elapsed();
    let written: HashMap<u64, i64> =
        server.log(|envelope| Some((envelope.seq.0, envelope.at.0))).into_iter().collect();
    let ids: Vec<String> = had[0].iter().map(|(id, _)| id.clone()).collect();
    let mut late = Vec::new();
    for reader in &had {
        assert!(reader.iter().map(|(id, _)| id).eq(&ids), "everybody has seen the same");
        late.extend(reader.iter().map(|(id, at)| at - written[&seq_of(id)]));
    }
    late.sort_unstable();
    Turn { late, peak, took, ids }
}

/// In both transports: `"id":"41.0"` in a notification, `id: 41.0` before an event.
fn id_of(frame: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(frame.get(..frame.len().min(400))?).ok()?;
    let id = match head.strip_prefix("id: ") {
        Some(rest) => rest.lines().next()?,
        None => head
            .split_once("\"method\":\"session/event\"")?
            .1
            .split_once("\"id\":\"")?
            .1
            .split('"')
            .next()?,
    };
    Some(id.to_owned())
}

fn seq_of(id: &str) -> u64 {
    id.split('.').next().unwrap().parse().unwrap()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
