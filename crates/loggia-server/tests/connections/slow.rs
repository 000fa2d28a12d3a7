//! Clients that are slow, idle, too many or hostile: A40, A41, R33.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::stage::{Reply, Server, Setup, curl};

const TIME: Duration = Duration::from_millis(500);

fn host(server: &Server) -> String {
    format!("Host: 127.0.0.1:{}\r\n", server.port)
}

fn ask(server: &Server, stream: &mut TcpStream) -> Reply {
    write!(stream, "GET /healthz HTTP/1.1\r\n{}\r\n", host(server)).unwrap();
    Reply::read(stream)
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest
}

#[test]
fn heads_that_do_not_arrive_end_by_the_clock() {
    let server = Server::with(Setup { header_millis: 500, ..Setup::default() });
    let started = Instant::now();
    let mut silent = server.connect();
    let mut begun = server.connect();
    begun.write_all(b"GET /healthz HT").unwrap();
    let mut two = server.connect();
    two.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
    let reply = Reply::read(&mut begun);
    assert_eq!((reply.status, reply.reason()), (408, "headers-too-slow".to_owned()));
    assert!(started.elapsed() >= TIME);
    assert_eq!(rest(&mut begun), b"");
    assert_eq!(rest(&mut silent), b"", "no response without a request");
    assert_eq!(rest(&mut two), b"");
    // Single bytes do not extend the time.
    let mut dripping = server.connect();
    dripping.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let started = Instant::now();
    let mut first = [0];
    while dripping.read(&mut first).is_err() {
        dripping.write_all(b"X").unwrap();
        assert!(started.elapsed() < TIME * 10);
    }
    assert!(started.elapsed() >= TIME / 2);
    // Nor does a first request that was in time.
    let mut second = server.connect();
    assert_eq!(ask(&server, &mut second).status, 200);
    let started = Instant::now();
    second.write_all(b"GET /healthz HT").unwrap();
    assert_eq!(rest(&mut second), b"");
    assert!(started.elapsed() >= TIME);
}

#[test]
fn idle_connections_are_closed_and_those_in_use_are_not() {
    let setup = Setup { header_millis: 200, idle_millis: 900, ..Setup::default() };
    let server = Server::with(setup);
    let mut events = server.connect();
    write!(events, "GET /events HTTP/1.1\r\n{}\r\n", host(&server)).unwrap();
    assert_eq!(Reply::read_head(&mut events).status, 200);
    let mut socket = server.connect();
    write!(
        socket,
        "GET /ws HTTP/1.1\r\n{}Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        host(&server)
    )
    .unwrap();
    assert_eq!(Reply::read_head(&mut socket).status, 101);
    let mut idle = server.connect();
    // Before the answer is read: its time may have begun by then.
    let started = Instant::now();
    assert_eq!(ask(&server, &mut idle).status, 200);
    assert_eq!(rest(&mut idle), b"");
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());
    // Both were opened before it, and have been silent for longer.
    socket.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).unwrap();
    let mut echo = [0; 4];
    socket.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"\x81\x02hi");
    let mut first = [0; 18];
    events.read_exact(&mut first).unwrap();
    events.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let open = events.read(&mut first).unwrap_err();
    assert_eq!(open.kind(), ErrorKind::WouldBlock, "still open");
}

#[test]
fn a_client_that_reads_nothing_is_dropped() {
    let server = Server::with(Setup { stall_millis: 500, ..Setup::default() });
    let mut stalled = server.connect();
    write!(stalled, "GET /flood HTTP/1.1\r\n{}\r\n", host(&server)).unwrap();
    // A write to a connection that the server has closed is answered with a reset.
    let started = Instant::now();
    while stalled.write_all(b"x").is_ok() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    assert!(started.elapsed() >= TIME, "{:?}", started.elapsed());
}

#[test]
fn five_hundred_slow_clients_block_no_other() {
    let server = Server::start();
    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(server.get("/healthz").status, 200);
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("with {} slow clients: median {:?}, worst {:?}", slow.len(), times[10], times[19]);
    assert!(times[10] < Duration::from_millis(50), "{times:?}");
}

#[test]
fn connections_beyond_the_limit_wait_their_turn() {
    // One listener: each reserves a connection for its next client.
    let setup = Setup { listen: "127.0.0.1".to_owned(), connections: 3, ..Setup::default() };
    let server = Server::with(setup);
    let mut inside: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut inside {
        assert_eq!(ask(&server, stream).status, 200);
    }
    let mut waiting = server.connect();
    write!(waiting, "GET /healthz HTTP/1.1\r\n{}\r\n", host(&server)).unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(waiting.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(inside.pop());
    waiting.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(Reply::read(&mut waiting).status, 200);
}

#[test]
fn large_heads_are_refused() {
    let server = Server::start();
    let head = |length: usize| format!("X-Large: {}", "x".repeat(length));
    assert_eq!(server.get_with("/healthz", &head(30 * 1024)).status, 200);
    assert_eq!(server.get_with("/healthz", &head(33 * 1024)).status, 431);
    assert_eq!(server.get_with("/healthz", &head(4 << 20)).status, 431);
    assert_eq!(server.get_with("/healthz", &"X-Many: 1\r\n".repeat(200)).status, 431);
    let url = format!("http://127.0.0.1:{}/healthz", server.port);
    let answer = curl(&["--http2-prior-knowledge", "-H", &head(60 * 1024), &url], 0);
    assert!(answer.ends_with(" 431"), "{answer}");
}

#[test]
fn running_out_of_files_delays_and_breaks_nothing() {
    let setup = Setup { files: Some(256), wasted: 180, ..Setup::default() };
    let server = Server::with(setup);
    let mut stream = server.connect();
    assert_eq!(ask(&server, &mut stream).status, 200);
    let mut flood: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    let request = format!("GET /healthz HTTP/1.1\r\n{}\r\n", host(&server));
    flood.iter_mut().for_each(|stream| stream.write_all(request.as_bytes()).unwrap());
    // Connections are accepted in order; the first without an answer shows that files ran out.
    let short = Some(Duration::from_secs(2));
    flood.iter().for_each(|stream| stream.set_read_timeout(short).unwrap());
    let answered = flood.iter().take_while(|stream| stream.peek(&mut [0]).is_ok()).count();
    println!("{answered} of 300 were accepted");
    assert!((20..76).contains(&answered), "{answered}");
    assert_eq!(ask(&server, &mut stream).status, 200, "an open connection stays open");
    let mut waiting = flood.split_off(answered);
    let released = Instant::now();
    drop(flood);
    waiting[0].set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(Reply::read(&mut waiting[0]).status, 200);
    println!("accepted again {:?} after the release", released.elapsed());
    assert!(released.elapsed() < Duration::from_secs(1));
    drop(waiting);
    assert_eq!(server.get("/whoami").status, 200);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET /healthz` in HPACK.
fn hpack(server: &Server) -> Vec<u8> {
    let authority = format!("127.0.0.1:{}", server.port);
    let mut block = vec![0x82, 0x86, 0x04, 8];
    block.extend(b"/healthz");
    block.extend([0x01, u8::try_from(authority.len()).unwrap()]);
    block.extend(authority.as_bytes());
    block
}

/// The error of the GOAWAY with which the server ends the connection.
fn goaway(stream: &mut TcpStream) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).ok()?;
        if head[3] == 7 {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
}

#[test]
fn http2_floods_end_their_own_connection() {
    let server = Server::start();
    let open = || {
        let mut stream = server.connect();
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).unwrap();
        stream
    };
    let before = server.resident_kilobytes();
    // Rapid reset.
    let mut stream = open();
    let block = hpack(&server);
    let resets = (0..100_000u32).take_while(|number| {
        let id = number * 2 + 1;
        let mut pair = frame(1, 5, id, &block);
        pair.extend(frame(3, 0, id, &8u32.to_be_bytes()));
        stream.write_all(&pair).is_ok()
    });
    println!("{} streams were reset before it ended", resets.count());
    assert_eq!(goaway(&mut stream), Some(11), "ENHANCE_YOUR_CALM");
    // A head without end.
    let mut stream = open();
    stream.write_all(&frame(1, 1, 1, &block)).unwrap();
    let continued = vec![0x82; 16 * 1024];
    let frames = (0..100_000).take_while(|_| stream.write_all(&frame(9, 0, 1, &continued)).is_ok());
    println!("{} continuations were taken", frames.count());
    assert!(goaway(&mut stream).is_some());
    let grown = server.resident_kilobytes().saturating_sub(before);
    println!("the server grew by {grown} KiB");
    assert_eq!(server.get("/whoami").status, 200);
}
