//! A cheap follower, so that the clients are not the bottleneck. It reads to the end of the task
//! and hashes everything.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::EXTENSION;
use super::split_frames::{next_event, next_frame};

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 << 10]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Stream,
    Socket,
}

/// The result of a reader, identical for all readers of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub frames: usize,
    sum: u64,
}

/// The number of reads, and when it finished.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    pub reads: usize,
    pub at: Instant,
}

pub struct Reader {
    transport: Transport,
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Reader {
    async fn open(port: u16, transport: Transport, request: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        loop {
            assert!(stream.read_buf(&mut rest).await.unwrap() > 0, "an answer");
            if let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&rest[..end]).into_owned();
                assert!(head.contains(" 200 ") || head.contains(" 101 "), "{head}");
                rest.drain(..end + 4);
                return Self { transport, stream, rest };
            }
        }
    }

    pub async fn sockets(port: u16, count: usize, after: &str) -> Vec<Self> {
        let request = format!(
            "GET /ws{after} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        many(port, count, Transport::Socket, &request).await
    }

    /// Opens streams of a task from its first event, or after `after`.
    pub async fn streams(port: u16, count: usize, task: &Value, after: &str) -> Vec<Self> {
        let params = json!({ "id": task });
        let method = "tasks/resubscribe";
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        // HTTP 1.0, so that the body has no chunks, which differ between readers.
        let request = format!(
            "POST / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             X-A2A-Extensions: {EXTENSION}\r\nLast-Event-ID: {after}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        many(port, count, Transport::Stream, &request).await
    }

    /// Reads until the task ends; `each` sees every frame.
    pub async fn read(&mut self, mut each: impl FnMut(&[u8])) -> (Seen, Done) {
        let mut seen = Seen { frames: 0, sum: 0 };
        let mut reads = 0;
        loop {
            let mut used = 0;
            let mut over = false;
            while let Some((length, frame)) = self.next(self.rest.get(used..).unwrap_or_default()) {
                let frame = &self.rest[used..][frame];
                used += length;
                if !frame.is_empty() {
                    seen.frames += 1;
                    seen.sum = sum(seen.sum, frame);
                    each(frame);
                    over |= frame.len() < 2_000 && holds(frame, "\"state\":\"completed\"");
                }
            }
            self.rest.drain(..used);
            if over {
                return (seen, Done { reads, at: Instant::now() });
            }
            assert!(self.more().await, "ended after {seen:?}");
            reads += 1;
        }
    }

    /// Reads available data; false at the end.
    async fn more(&mut self) -> bool {
        loop {
            self.stream.readable().await.unwrap();
            let read = SCRATCH.with_borrow_mut(|scratch| {
                let read = self.stream.try_read(scratch);
                read.inspect(|count| self.rest.extend_from_slice(&scratch[..*count]))
            });
            match read {
                Ok(count) => return count > 0,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }

    /// Reads the rest until the server closes, for a disconnected reader.
    pub async fn leftovers(&mut self) -> Vec<Vec<u8>> {
        let closed = async { while self.more().await {} };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("it was cut");
        let (mut used, mut frames) = (0, Vec::new());
        while let Some((length, frame)) = self.next(self.rest.get(used..).unwrap_or_default()) {
            let frame = self.rest[used..][frame].to_vec();
            used += length;
            if !frame.is_empty() {
                frames.push(frame);
            }
        }
        frames
    }

    fn next(&self, bytes: &[u8]) -> Option<(usize, std::ops::Range<usize>)> {
        match self.transport {
            Transport::Stream => next_event(bytes),
            Transport::Socket => next_frame(bytes),
        }
    }
}

async fn many(port: u16, count: usize, transport: Transport, request: &str) -> Vec<Reader> {
    let mut readers = Vec::new();
    while readers.len() < count {
        let batch = (count - readers.len()).min(50);
        readers.extend(join_all((0..batch).map(|_| Reader::open(port, transport, request))).await);
    }
    readers
}

/// A fast hash that is not secure.
fn sum(sum: u64, bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte) + 1))
}

pub fn holds(bytes: &[u8], words: &str) -> bool {
    // Faster than comparing at every position.
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(words))
}
