//! Remotes: git's own programs behind small servers, and faulty servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How a server behaves.
#[derive(Clone)]
pub enum Manner {
    /// `git http-backend` for this directory.
    Serve(PathBuf),
    /// The same for requests with this `Authorization`.
    Guarded(PathBuf, String),
    /// Redirects to this address.
    Redirect(String),
    /// Accepts the request and never answers.
    Silent,
    /// Answers with exactly these bytes and closes the connection.
    Says(&'static str),
    /// Sends one byte a second.
    Drip,
    /// Names the commit and then sends an endless pack.
    Endless(PathBuf),
}

/// A server on a free port. Its threads end with the test.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn http(manner: Manner) -> Self {
        Self::listen(move |stream, requests| answer(stream, &manner, requests))
    }

    pub fn https(manner: Manner) -> Self {
        let tls = Arc::new(tls());
        Self::listen(move |stream, requests| {
            let session = rustls::ServerConnection::new(tls.clone()).unwrap();
            answer(rustls::StreamOwned::new(session, stream), &manner, requests);
        })
    }

    /// `git daemon`.
    pub fn daemon(root: &Path) -> Self {
        let root = root.to_owned();
        Self::listen(move |stream, _| {
            let daemon = Command::new("git")
                .args(["daemon", "--inetd", "--export-all"])
                .arg(format!("--base-path={}", root.display()))
                .stdin(Stdio::from(OwnedFd::from(stream.try_clone().unwrap())))
                .stdout(Stdio::from(OwnedFd::from(stream)))
                .status();
            daemon.unwrap();
        })
    }

    fn listen(serve: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, seen, serve) = (stream.unwrap(), seen.clone(), serve.clone());
                seen.lock().unwrap().push("connection".to_owned());
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        Self { port, requests }
    }

    /// Connections and the heads of requests, in order.
    pub fn seen(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clone/tls").join(name)
}

fn tls() -> rustls::ServerConfig {
    let certificate = CertificateDer::from_pem_file(tls_file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls_file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    builder.with_single_cert(vec![certificate], key).unwrap()
}

struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut impl Read) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = field(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some(Self { head, body })
    }

    fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.to_owned())
}

fn answer(mut stream: impl Read + Write, manner: &Manner, requests: &Mutex<Vec<String>>) {
    let Some(request) = Request::read(&mut stream) else { return };
    requests.lock().unwrap().push(request.head.clone());
    let mut head = |text: &str| stream.write_all(text.as_bytes());
    match manner {
        Manner::Serve(root) => {
            let _ = stream.write_all(&backend(root, &request));
        }
        Manner::Guarded(root, wanted) => {
            let allowed = field(&request.head, "authorization").as_ref() == Some(wanted);
            let _ = match allowed {
                true => stream.write_all(&backend(root, &request)),
                false => head(
                    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                     Connection: close\r\nContent-Length: 0\r\n\r\n",
                ),
            };
        }
        Manner::Redirect(location) => {
            let _ = head(&format!(
                "HTTP/1.1 302 Found\r\nLocation: {location}{}\r\nConnection: close\r\n\
                 Content-Length: 0\r\n\r\n",
                request.target()
            ));
        }
        Manner::Silent => {
            // Until the client closes the connection.
            let _ = stream.read(&mut [0]);
        }
        Manner::Says(answer) => drop(head(answer)),
        Manner::Drip => {
            let kind = "application/x-git-upload-pack-advertisement";
            let sent = head(&format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n"));
            let mut sent = sent.and_then(|()| stream.flush());
            while sent.is_ok() {
                std::thread::sleep(Duration::from_secs(1));
                sent = stream.write_all(b"0").and_then(|()| stream.flush());
            }
        }
        Manner::Endless(root) => {
            let fetch = request.body.windows(13).any(|window| window == b"command=fetch");
            match fetch {
                false => drop(stream.write_all(&backend(root, &request))),
                true => endless(&mut stream),
            }
        }
    }
    let _ = stream.flush();
}

/// One CGI request.
fn backend(root: &Path, request: &Request) -> Vec<u8> {
    let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", request.head.split(' ').next().unwrap())
        .env("CONTENT_TYPE", field(&request.head, "content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", field(&request.head, "content-encoding").unwrap_or_default())
        .env("GIT_PROTOCOL", field(&request.head, "git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&request.body).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (mut status, mut fields) = ("200 OK".to_owned(), String::new());
    loop {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            None => break,
            Some(("Status", text)) => status = text.to_owned(),
            Some(_) => fields.push_str(&line),
        }
    }
    let mut body = Vec::new();
    output.read_to_end(&mut body).unwrap();
    child.wait().unwrap();
    let head = format!(
        "HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// One object of a terabyte, in stored blocks.
fn endless(stream: &mut impl Write) {
    let line = |channel: &[u8], bytes: &[u8]| {
        let length = format!("{:04x}", 4 + channel.len() + bytes.len());
        [length.as_bytes(), channel, bytes].concat()
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n";
    let pack =
        [b"PACK\0\0\0\x02\0\0\0\x09".as_slice(), &[0xb0, 0x80, 0x80, 0x80, 0x80, 0x40], &[0x78, 1]]
            .concat();
    let block = [&[0_u8, 0, 0x80, 0xff, 0x7f][..], &[7; 0x8000]].concat();
    let first = [head.as_bytes().to_vec(), line(b"", b"packfile\n"), line(&[1], &pack)].concat();
    let mut sent = stream.write_all(&first);
    while sent.is_ok() {
        sent = stream.write_all(&line(&[1], &block));
    }
}
