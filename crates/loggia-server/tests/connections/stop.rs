//! Graceful stop: R31.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::stage::{Reply, Server, Setup};

fn open(server: &Server, path: &str, wanted: &str) -> TcpStream {
    let mut stream = server.connect();
    let host = format!("Host: 127.0.0.1:{}", server.port);
    write!(stream, "GET {path} HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
    assert_eq!(Reply::read_head(&mut stream).status, 200);
    let mut seen = String::new();
    while !seen.contains(wanted) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        seen.push(char::from(byte[0]));
    }
    stream
}

fn websocket(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: localhost:{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        server.port
    );
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(Reply::read_head(&mut stream).status, 101);
    stream
}

#[test]
fn streams_end_with_a_frame_and_nothing_is_reset() {
    let mut server = Server::start();
    let streams: Vec<_> = (0..100).map(|_| open(&server, "/events", "first")).collect();
    let sockets: Vec<_> = (0..10).map(|_| websocket(&server)).collect();
    let mut idle = open(&server, "/healthz", "ok");
    let silent = server.connect();
    let started = Instant::now();
    server.send_line("stop");
    for mut stream in streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("closed, not reset");
        assert!(rest.contains(": stopping\n\n"), "{rest:?}");
        assert!(rest.ends_with("0\r\n\r\n"), "the body has its proper end: {rest:?}");
    }
    for mut socket in sockets {
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).expect("closed, not reset");
        assert_eq!(&rest[..4], [0x88, 10, 3, 233], "close 1001");
    }
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("closed, not reset");
    assert_eq!(rest, b"");
    drop(silent);
    assert_eq!(server.read_line(), "stopped 0");
    println!("stopped after {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_request_under_way_is_answered() {
    let mut server = Server::start();
    let mut stream = server.connect();
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let head = format!("POST /echo HTTP/1.1\r\n{host}\r\nContent-Type: application/json\r\n");
    write!(stream, "{head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n").unwrap();
    // The handler waits for the body.
    assert_eq!(Reply::read_head(&mut stream).status, 100);
    let mut events = open(&server, "/events", "first");
    server.send_line("stop");
    events.read_to_end(&mut Vec::new()).unwrap();
    stream.write_all(b"{}").unwrap();
    let reply = Reply::read(&mut stream);
    assert_eq!((reply.status, reply.body.as_str()), (200, "2"));
    assert_eq!(server.read_line(), "stopped 0");
}

#[test]
fn a_stream_that_does_not_end_is_cut_after_the_timeout() {
    let mut server = Server::with(Setup { stop_millis: 300, ..Setup::default() });
    let _streams: Vec<_> = (0..3).map(|_| open(&server, "/stubborn", "here")).collect();
    let started = Instant::now();
    server.send_line("stop");
    assert_eq!(server.read_line(), "stopped 3");
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn the_second_signal_does_not_wait() {
    let mut server = Server::start();
    let stubborn: Vec<_> = (0..3).map(|_| open(&server, "/stubborn", "here")).collect();
    let started = Instant::now();
    server.send_line("stop");
    server.send_line("now");
    assert_eq!(server.read_line(), "stopped 3");
    println!("stopped after {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(stubborn);
}
