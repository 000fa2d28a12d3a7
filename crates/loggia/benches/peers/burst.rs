//! The burst: one task, a thousand followers, two hundred events at once. Measured from the request
//! that starts it until the last follower has the last event.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::http::{Connection, Lines, PATIENCE, holds, send};
use super::server::{Burst, Running};

pub struct Outcome {
    /// Followers that got everything, of the total.
    pub complete: (usize, usize),
    /// Until the last of these had it.
    pub last: Duration,
    /// Memory per follower in KiB, including sent data.
    pub memory: f64,
}

pub async fn measure(running: &Running, followers: usize, events: usize) -> Outcome {
    let mut first = Connection::open(running.port).await.expect("a connection");
    let prompt = format!("burst {events}");
    let stream = first.ask(send("SendStreamingMessage", 0, &prompt, "")).await.expect("a stream");
    let mut stream = Lines::new(stream);
    let mut line = Vec::new();
    assert!(stream.next_data(&mut line).await, "a stream has a first event");
    let task = task_of(&line);
    match running.burst {
        Burst::Question => {
            while stream.next_data(&mut line).await {}
            assert!(holds(&line, "TASK_STATE_INPUT_REQUIRED"), "it asks");
        }
        Burst::Release => drop(tokio::spawn(follow(stream, events))),
    }
    let before = running.resident();
    let joined = join_all((0..followers).map(|number| join(running.port, number, task.clone())));
    let streams: Vec<Lines> = joined.await;
    let begin = Instant::now();
    let reading = streams.into_iter().map(|lines| tokio::spawn(follow(lines, events)));
    let reading = join_all(reading.collect::<Vec<_>>());
    let mut other = Connection::open(running.port).await.expect("a connection");
    let (word, more) = match running.burst {
        Burst::Question => ("go", format!(r#","taskId":"{task}""#)),
        Burst::Release => ("release", String::new()),
    };
    let release =
        tokio::spawn(async move { other.call(send("SendMessage", 1, word, &more)).await });
    let ends: Vec<Instant> =
        reading.await.into_iter().filter_map(|end| end.expect("a follower")).collect();
    let last = ends.iter().max().map_or(Duration::ZERO, |end| *end - begin);
    let grown = running.resident().saturating_sub(before) as f64;
    let answer = release.await.expect("the release").expect("an answer");
    assert!(holds(&answer, "TASK_STATE_COMPLETED"), "it was let go");
    Outcome { complete: (ends.len(), followers), last, memory: grown / followers as f64 }
}

async fn join(port: u16, number: usize, task: String) -> Lines {
    let mut connection = Connection::open(port).await.expect("a connection");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"SubscribeToTask","params":{{"id":"{task}"}}}}"#
    );
    Lines::new(connection.ask(body).await.expect("a stream"))
}

/// When the follower had all events and the end; None if it never did.
async fn follow(mut lines: Lines, events: usize) -> Option<Instant> {
    let reading = async {
        let mut line = Vec::new();
        let mut seen = 0;
        while lines.next_data(&mut line).await {
            if holds(&line, "artifactUpdate") {
                // In order, without repetition or gap.
                assert!(holds(&line, &format!("\"line {seen}\"")), "line {seen} comes next");
                seen += 1;
            } else if holds(&line, "TASK_STATE_COMPLETED") {
                return (seen == events).then(Instant::now);
            }
        }
        None
    };
    tokio::time::timeout(PATIENCE, reading).await.ok().flatten()
}

fn task_of(line: &[u8]) -> String {
    let line = std::str::from_utf8(line).expect("text");
    let event: serde_json::Value =
        serde_json::from_str(line.trim_start_matches("data:")).expect("JSON");
    event["result"]["task"]["id"].as_str().expect("the task comes first").to_owned()
}
