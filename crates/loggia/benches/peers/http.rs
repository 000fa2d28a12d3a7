//! One connection to a server, with as little work as possible: the load generator shares the
//! processors with the server.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A turn takes milliseconds; after this long it has failed.
pub const TIMEOUT: Duration = Duration::from_secs(90);

pub struct Connection {
    port: u16,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// None if the port refuses connections, as before the server listens.
    pub async fn open(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // Ends with the connection.
        tokio::spawn(connection);
        Some(Self { port, sender })
    }

    pub async fn get(&mut self, path: &str) -> Option<(u16, Bytes)> {
        let request = Request::get(path)
            .header("Host", format!("127.0.0.1:{}", self.port))
            .body(Full::default())
            .expect("a request");
        let response = self.sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.into_body().collect().await.ok()?.to_bytes()))
    }

    /// Sends an A2A 1.0 request and returns the response with its unread body.
    pub async fn ask(&mut self, body: String) -> hyper::Result<Response<Incoming>> {
        let request = Request::post("/")
            .header("Host", format!("127.0.0.1:{}", self.port))
            .header("Content-Type", "application/json")
            .header("A2A-Version", "1.0")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    /// Sends a request and reads the whole response; None after an error or a timeout.
    pub async fn call(&mut self, body: String) -> Option<Bytes> {
        let answer =
            async { Some(self.ask(body).await.ok()?.into_body().collect().await.ok()?.to_bytes()) };
        tokio::time::timeout(TIMEOUT, answer).await.ok().flatten()
    }
}

/// The body of `SendMessage` or `SendStreamingMessage`. `more` is added to the message's members.
pub fn send(method: &str, number: usize, text: &str, more: &str) -> String {
    let text = serde_json::to_string(text).expect("text");
    format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{{"message":{{"messageId":"m-{number}","role":"ROLE_USER","parts":[{{"text":{text}}}]{more}}}}}}}"#
    )
}

/// Lines of an SSE stream, as they arrive.
pub struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
    read: usize,
}

impl Lines {
    pub fn new(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), buffer: Vec::new(), read: 0 }
    }

    /// The next `data:` line into `line`; false at the end.
    pub async fn next_data(&mut self, line: &mut Vec<u8>) -> bool {
        loop {
            let rest = self.buffer.get(self.read..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let found = &rest[..length];
                self.read += length + 1;
                if found.starts_with(b"data:") {
                    line.clear();
                    line.extend_from_slice(found);
                    return true;
                }
                continue;
            }
            self.buffer.drain(..self.read);
            self.read = 0;
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.buffer.extend_from_slice(bytes);
                    }
                }
                Some(Err(_)) | None => return false,
            }
        }
    }
}

pub fn contains(bytes: &[u8], words: &str) -> bool {
    // The search in `str` is faster than a comparison at each offset.
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(words))
}
