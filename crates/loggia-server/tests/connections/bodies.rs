//! Bodies that are too large, too slow or not as announced: A39.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::stage::{Reply, Server, Setup};

const LIMIT: usize = 10 << 20;

fn head(server: &Server, path: &str, lines: &str) -> String {
    let host = format!("Host: 127.0.0.1:{}", server.port);
    format!("POST {path} HTTP/1.1\r\n{host}\r\nContent-Type: application/json\r\n{lines}\r\n\r\n")
}

/// Whether the server has closed or reset the connection.
fn is_closed(stream: &mut std::net::TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_ok_and(|_| rest.is_empty())
}

#[test]
fn an_announced_size_is_refused_before_it_is_read() {
    let server = Server::start();
    for length in [(LIMIT + 1) as u64, 64 << 20, 9_000_000_000_000_000_000] {
        let mut stream = server.connect();
        let started = Instant::now();
        // No «100 Continue» may come first.
        let lines = format!("Content-Length: {length}\r\nExpect: 100-continue");
        let request = head(&server, "/echo", &lines);
        stream.write_all(request.as_bytes()).unwrap();
        let reply = Reply::read(&mut stream);
        assert_eq!((reply.status, reply.reason()), (413, "body-too-large".to_owned()));
        assert_eq!(reply.header("connection"), Some("close"));
        println!("{length}: 413 after {:?}", started.elapsed());
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
    }
    for length in ["9e18", "-1", "18446744073709551616", "2\r\nContent-Length: 3"] {
        let request = head(&server, "/echo", &format!("Content-Length: {length}"));
        assert_eq!(server.send(&request).status, 400, "{length}");
    }
}

#[test]
fn the_answer_survives_a_client_that_goes_on_sending() {
    let server = Server::start();
    server.get("/whoami");
    let before = server.resident_kilobytes();
    let mut stream = server.connect();
    let request = head(&server, "/rpc", &format!("Content-Length: {}", 64 << 20));
    stream.write_all(request.as_bytes()).unwrap();
    let chunk = vec![b' '; 1 << 20];
    let sent = (0..64).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let reply = Reply::read(&mut stream);
    assert_eq!(reply.status, 413, "after {sent} MiB: {reply:?}");
    assert!(reply.body.contains("\"code\":-32600") && reply.body.contains("\"id\":null"));
    let grown = server.resident_kilobytes().saturating_sub(before);
    println!("{sent} MiB of 64 sent, the server grew by {grown} KiB");
    assert!(grown < 12 * 1024, "{grown} KiB");
    assert_eq!(server.get("/whoami").status, 200);
}

#[test]
fn the_whole_limit_may_be_used() {
    let server = Server::start();
    let body = " ".repeat(LIMIT);
    let reply = server.post("/echo", "Content-Type: application/json", &body);
    assert_eq!((reply.status, reply.body), (200, LIMIT.to_string()));
}

#[test]
fn a_body_without_a_length_is_counted() {
    let server = Server::start();
    let before = server.resident_kilobytes();
    let mut stream = server.connect();
    let request = head(&server, "/echo", "Transfer-Encoding: chunked");
    stream.write_all(request.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    // The client does not end it.
    let sent = (0..).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    let reply = Reply::read(&mut stream);
    assert_eq!((reply.status, reply.reason()), (413, "body-too-large".to_owned()));
    let grown = server.resident_kilobytes().saturating_sub(before);
    println!("{} KiB sent, the server grew by {grown} KiB", sent * 64);
    assert!(grown < 24 * 1024, "the limit, and as much again while it grows: {grown} KiB");
    // A length beside the encoding is ignored.
    let mut stream = server.connect();
    let lines = "Content-Length: 2\r\nTransfer-Encoding: chunked";
    stream.write_all(head(&server, "/echo", lines).as_bytes()).unwrap();
    for _ in 0..1_000 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let reply = Reply::read(&mut stream);
    assert!([400, 413].contains(&reply.status), "{reply:?}");
}

#[test]
fn a_body_that_does_not_come_ends_by_the_clock() {
    let server = Server::with(Setup { body_millis: 400, ..Setup::default() });
    for (lines, bytes) in
        [("Content-Length: 10", "12345"), ("Transfer-Encoding: chunked", "1\r\nx\r\n")]
    {
        let mut stream = server.connect();
        let started = Instant::now();
        let request = head(&server, "/echo", lines);
        stream.write_all(format!("{request}{bytes}").as_bytes()).unwrap();
        let reply = Reply::read(&mut stream);
        assert_eq!((reply.status, reply.reason()), (408, "body-too-slow".to_owned()));
        assert!(started.elapsed() >= Duration::from_millis(400));
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
    }
    // Single bytes do not extend the time.
    let mut stream = server.connect();
    stream.write_all(head(&server, "/echo", "Transfer-Encoding: chunked").as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let started = Instant::now();
    let mut first = [0];
    while stream.read(&mut first).is_err() {
        stream.write_all(b"1\r\nx\r\n").unwrap();
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_body_that_breaks_off_is_said_to_be_broken() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(head(&server, "/echo", "Transfer-Encoding: chunked").as_bytes()).unwrap();
    stream.write_all(b"zzz\r\n").unwrap();
    let reply = Reply::read(&mut stream);
    assert_eq!((reply.status, reply.reason()), (400, "body-broken".to_owned()));
}
