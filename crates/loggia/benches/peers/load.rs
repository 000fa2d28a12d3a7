//! Turns: one new task each, over a number of connections that send without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::http::{Connection, Lines, TIMEOUT, contains, send};
use super::server::Running;

/// Every server gets the same trivial turn: two words in, one out.
const PROMPT: &str = "say hi";

#[derive(Clone, Copy)]
pub enum Until {
    /// This many tasks, or this much time if that is over first.
    Tasks(usize, Duration),
    Time(Duration),
}

/// When each turn was done.
pub struct Turns {
    begin: Instant,
    ends: Vec<Instant>,
    pub failed: usize,
    /// The last answer of each connection.
    answers: Vec<Bytes>,
}

impl Turns {
    pub fn done(&self) -> usize {
        self.ends.len()
    }

    pub fn rate(&self) -> f64 {
        rate(self.done(), self.begin, self.ends.last())
    }

    pub fn rate_of_first(&self, count: usize) -> f64 {
        rate(count, self.begin, self.ends.get(count - 1))
    }

    pub fn rate_of_last(&self, count: usize) -> f64 {
        let before = self.done().saturating_sub(count + 1);
        rate(count, self.ends.get(before).copied().unwrap_or(self.begin), self.ends.last())
    }
}

fn rate(count: usize, begin: Instant, end: Option<&Instant>) -> f64 {
    end.map_or(0.0, |end| count as f64 / (*end - begin).as_secs_f64())
}

pub async fn turns(running: &Running, connections: usize, until: Until) -> Turns {
    let taken = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let workers =
        (0..connections).map(|_| tokio::spawn(work(running.port, begin, until, taken.clone())));
    let mut turns = Turns { begin, ends: Vec::new(), failed: 0, answers: Vec::new() };
    for worker in futures::future::join_all(workers).await {
        let (ends, failed, answer) = worker.expect("a worker");
        turns.ends.extend(ends);
        turns.failed += failed;
        turns.answers.extend(answer);
    }
    turns.ends.sort();
    turns
}

async fn work(
    port: u16,
    begin: Instant,
    until: Until,
    taken: Arc<AtomicUsize>,
) -> (Vec<Instant>, usize, Option<Bytes>) {
    let mut connection = Connection::open(port).await.expect("a connection");
    let (mut ends, mut failed, mut last) = (Vec::new(), 0, None);
    loop {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        let more = match until {
            Until::Tasks(count, time) => number < count && begin.elapsed() < time,
            Until::Time(time) => begin.elapsed() < time,
        };
        if !more {
            return (ends, failed, last);
        }
        match connection.call(send("SendMessage", number, PROMPT, "")).await {
            Some(answer) if contains(&answer, "TASK_STATE_COMPLETED") => {
                ends.push(Instant::now());
                last = Some(answer);
            }
            Some(_) => failed += 1,
            None => {
                failed += 1;
                connection = Connection::open(port).await.expect("a connection");
            }
        }
    }
}

/// The slowest `GetTask` for the last task of each connection, one after the other.
pub async fn get_task(running: &Running, turns: &Turns) -> Duration {
    let mut connection = Connection::open(running.port).await.expect("a connection");
    let mut slowest = Duration::ZERO;
    for (number, answer) in turns.answers.iter().enumerate() {
        let answer: serde_json::Value = serde_json::from_slice(answer).expect("JSON");
        let task = answer["result"]["task"]["id"].as_str().expect("an id");
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"GetTask","params":{{"id":"{task}"}}}}"#
        );
        let begin = Instant::now();
        let answer = connection.call(request).await.expect("an answer");
        slowest = slowest.max(begin.elapsed());
        assert!(contains(&answer, "TASK_STATE_COMPLETED"), "the task is stored");
    }
    slowest
}

/// From a streaming request to its first event, one at a time.
pub async fn first_events(running: &Running, count: usize) -> Vec<Duration> {
    let mut connection = Connection::open(running.port).await.expect("a connection");
    let mut times = Vec::new();
    let mut line = Vec::new();
    for number in 0..count {
        let late = tokio::time::sleep(TIMEOUT);
        let begin = Instant::now();
        let request = send("SendStreamingMessage", number, PROMPT, "");
        let turn = async {
            let mut lines = Lines::new(connection.ask(request).await.expect("a stream"));
            assert!(lines.next_data(&mut line).await, "a stream has a first event");
            times.push(begin.elapsed());
            while lines.next_data(&mut line).await {}
        };
        tokio::select! {
            () = turn => {}
            () = late => panic!("stream {number} does not end"),
        }
        assert!(contains(&line, "TASK_STATE_COMPLETED"), "the turn is done");
    }
    times.sort();
    times
}
