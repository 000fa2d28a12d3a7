//! The burst: one task with a thousand followers publishes two hundred events at once. The time is
//! taken from the request that releases it to the last event at the last follower.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::http::{Connection, Lines, TIMEOUT, contains, send};
use super::server::{Burst, Running};

pub struct Outcome {
    /// Followers that received all events, and all followers.
    pub complete: (usize, usize),
    /// Time until the last complete follower had received all events.
    pub last: Duration,
    /// Growth of resident memory per follower, in KiB, sent data included.
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
            assert!(contains(&line, "TASK_STATE_INPUT_REQUIRED"), "it asks");
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
    assert!(contains(&answer, "TASK_STATE_COMPLETED"), "the burst was released");
    Outcome { complete: (ends.len(), followers), last, memory: grown / followers as f64 }
}

async fn join(port: u16, number: usize, task: String) -> Lines {
    let mut connection = Connection::open(port).await.expect("a connection");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"SubscribeToTask","params":{{"id":"{task}"}}}}"#
    );
    Lines::new(connection.ask(body).await.expect("a stream"))
}

/// The time at which the follower had all events and the end; None if it did not receive them.
async fn follow(mut lines: Lines, events: usize) -> Option<Instant> {
    let reading = async {
        let mut line = Vec::new();
        let mut seen = 0;
        while lines.next_data(&mut line).await {
            if contains(&line, "artifactUpdate") {
                assert!(contains(&line, &format!("\"line {seen}\"")), "line {seen} comes next");
                seen += 1;
            } else if contains(&line, "TASK_STATE_COMPLETED") {
                return (seen == events).then(Instant::now);
            }
        }
        None
    };
    tokio::time::timeout(TIMEOUT, reading).await.ok().flatten()
}

fn task_of(line: &[u8]) -> String {
    let line = std::str::from_utf8(line).expect("text");
    let event: serde_json::Value =
        serde_json::from_str(line.trim_start_matches("data:")).expect("JSON");
    event["result"]["task"]["id"].as_str().expect("the task comes first").to_owned()
}
