//! Requests for other hosts, and requests of web pages: A02, A03, A04.

use std::io::Write;

use crate::stage::{Reply, Server, Setup, curl};

const JSON: &str = "Content-Type: application/json";

/// Host lines with `PORT` for the port, and the status they get.
const HOSTS: &[(&str, u16)] = &[
    ("Host: 127.0.0.1:PORT", 200),
    ("Host: localhost:PORT", 200),
    ("Host: LocalHost:PORT", 200),
    ("Host: [::1]:PORT", 200),
    ("Host: proxy.example", 200),
    ("Host: proxy.example:PORT", 200),
    ("Host: exact.example:8443", 200),
    ("Host: exact.example", 421),
    ("Host: exact.example:PORT", 421),
    ("Host: sub.proxy.example", 421),
    ("Host: proxy.example:1", 421),
    ("Host: evil.example", 421),
    ("Host: evil.example:PORT", 421),
    ("Host: 127.0.0.1.evil.example", 421),
    ("Host: 127.0.0.1.evil.example:PORT", 421),
    ("Host: localhost.evil.example:PORT", 421),
    ("Host: evillocalhost:PORT", 421),
    ("Host: localhost.:PORT", 421),
    ("Host: localhost", 421),
    ("Host: localhost:1", 421),
    ("Host: 0.0.0.0:PORT", 421),
    ("Host: 127.1:PORT", 421),
    ("Host: 127.0.0.2:PORT", 421),
    ("Host: 2130706433:PORT", 421),
    ("Host: 0x7f000001:PORT", 421),
    ("Host: [::]:PORT", 421),
    ("Host: [::ffff:127.0.0.1]:PORT", 421),
    ("Host: localhost:+PORT", 400),
    ("Host: localhost:PORT:PORT", 400),
    ("Host: user@localhost:PORT", 400),
    ("Host: localhost:PORT/path", 400),
    ("Host: localhost:99999", 400),
    ("Host: localhost:", 400),
    ("Host: :PORT", 400),
    ("Host: [::1:PORT", 400),
    ("Host: l\u{f6}calhost:PORT", 400),
    ("Host: local host:PORT", 400),
    ("Host:", 400),
    ("X-Host: localhost:PORT", 400),
    ("Host: localhost:PORT\r\nHost: localhost:PORT", 400),
    ("Host: localhost:PORT\r\nHost: evil.example", 400),
];

#[test]
fn only_our_own_names_are_answered() {
    let allowed_hosts = vec!["proxy.example".to_owned(), "exact.example:8443".to_owned()];
    let server = Server::with(Setup { allowed_hosts, ..Setup::default() });
    let port = server.port.to_string();
    for (lines, wanted) in HOSTS {
        let lines = lines.replace("PORT", &port);
        for path in ["/whoami", "/healthz", "/events?x", "/there-is-no-such-route"] {
            let method = if path == "/events?x" { "HEAD" } else { "GET" };
            let request =
                format!("{method} {path} HTTP/1.1\r\n{lines}\r\nConnection: close\r\n\r\n");
            let reply = server.send(&request);
            match (wanted, path) {
                (200, "/there-is-no-such-route") => assert_eq!(reply.status, 404, "{lines}"),
                _ => assert_eq!(reply.status, *wanted, "{lines} {path}: {reply:?}"),
            }
            if *wanted != 200 && method == "GET" {
                assert_eq!(reply.reason(), "host", "{lines} {path}");
                assert!(!reply.body.contains(&port), "nothing is repeated: {reply:?}");
            }
        }
    }
}

#[test]
fn the_target_must_name_us_as_well() {
    let server = Server::start();
    let port = server.port;
    let rows = [
        (format!("GET http://127.0.0.1:{port}/whoami"), 200),
        (format!("GET http://localhost:{port}/whoami"), 200),
        (format!("GET http://evil.example:{port}/whoami"), 421),
        ("GET http://evil.example/whoami".to_owned(), 421),
        ("CONNECT evil.example:443".to_owned(), 421),
    ];
    for (line, wanted) in rows {
        let host = format!("Host: 127.0.0.1:{port}\r\nConnection: close");
        let reply = server.send(&format!("{line} HTTP/1.1\r\n{host}\r\n\r\n"));
        assert_eq!(reply.status, wanted, "{line}: {reply:?}");
    }
    let reply = server.send("GET /whoami HTTP/1.0\r\n\r\n");
    assert_eq!((reply.status, reply.reason()), (400, "host".to_owned()));
}

#[test]
fn http2_is_held_to_the_same_names() {
    let server = Server::start();
    let ours = format!("http://127.0.0.1:{}/whoami", server.port);
    let answer = curl(&["--http2-prior-knowledge", &ours], 0);
    assert!(answer.contains("local:0") && answer.ends_with(" 200"), "{answer}");
    let evil = ["--http2-prior-knowledge", "-H", "Host: evil.example", &ours];
    let answer = curl(&evil, 0);
    assert!(answer.contains("\"reason\":\"host\"") && answer.ends_with(" 421"), "{answer}");
    let plain = ["--http2-prior-knowledge", "-d", "{}", "-H", "Content-Type: text/plain", &ours];
    assert!(curl(&plain, 0).ends_with(" 415"));
}

/// Origin and fetch headers, and the status they get.
const ORIGINS: &[(&str, u16)] = &[
    ("Origin: https://evil.example", 403),
    ("Origin: null", 403),
    ("Origin: ", 403),
    ("Origin: https://listed.example", 401),
    ("Origin: https://LISTED.example", 401),
    ("Origin: https://listed.example\r\nSec-Fetch-Site: cross-site", 401),
    ("Origin: https://listed.example:8443", 403),
    ("Origin: http://listed.example", 403),
    ("Origin: https://listed.example.evil.example", 403),
    // A page of our own origin needs a token: it is never the local user.
    ("Origin: http://127.0.0.1:PORT", 401),
    ("Origin: http://localhost:PORT", 401),
    ("Origin: http://[::1]:PORT", 401),
    ("Origin: http://localhost:PORT\r\nSec-Fetch-Site: same-origin", 401),
    ("Origin: http://localhost:PORT\r\nSec-Fetch-Site: cross-site", 403),
    ("Origin: http://localhost:PORT\r\nOrigin: http://localhost:PORT", 403),
    ("Origin: https://localhost:PORT", 403),
    ("Origin: http://localhost", 403),
    ("Origin: http://localhost:PORT/", 403),
    ("Origin: http://user@localhost:PORT", 403),
    ("Origin: http://127.0.0.1.evil.example:PORT", 403),
    ("Origin: file://", 403),
    ("Sec-Fetch-Site: cross-site", 403),
    ("Sec-Fetch-Site: same-site", 403),
    ("Sec-Fetch-Site: what-comes-next", 403),
    ("Sec-Fetch-Site: same-origin", 401),
    ("Sec-Fetch-Site: none", 200),
    ("X-Nothing: special", 200),
];

#[test]
fn web_pages_of_others_are_refused() {
    let allowed_origins = vec!["https://listed.example".to_owned()];
    let server = Server::with(Setup { allowed_origins, ..Setup::default() });
    let port = server.port.to_string();
    for (lines, wanted) in ORIGINS {
        let lines = lines.replace("PORT", &port);
        let got = server.get_with("/whoami", &lines);
        assert_eq!(got.status, *wanted, "GET {lines}: {got:?}");
        let posted = server.post("/echo", &format!("{JSON}\r\n{lines}"), "{}");
        assert_eq!(posted.status, *wanted, "POST {lines}: {posted:?}");
        let asked = server.send(&format!(
            "OPTIONS /echo HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{lines}\r\n\
             Access-Control-Request-Method: POST\r\n\r\n"
        ));
        let listed = lines.to_lowercase().contains("https://listed.example") && *wanted != 403;
        let told = match wanted {
            200 => 405,
            _ if listed => 204,
            _ => *wanted,
        };
        assert_eq!(asked.status, told, "OPTIONS {lines}");
        for reply in [got, posted, asked] {
            let told = reply.head.to_lowercase().contains("access-control");
            assert_eq!(told, listed, "{lines}: {reply:?}");
            assert_eq!(reply.header("vary"), Some("Origin"), "{lines}: {reply:?}");
        }
    }
}

/// Preflight requests.
#[test]
fn only_allowed_origins_get_cors_headers() {
    let allowed_origins = vec!["https://listed.example".to_owned()];
    let server = Server::with(Setup { allowed_origins, ..Setup::default() });
    let ask = |server: &Server, host: &str, lines: &str| {
        server.send(&format!(
            "OPTIONS /there-is-no-such-route HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Access-Control-Request-Method: POST\r\n{lines}\r\n\r\n"
        ))
    };
    let ours = format!("localhost:{}", server.port);
    let listed = "Origin: https://listed.example\r\n\
                  Access-Control-Request-Headers: authorization,content-type,x-other";
    let reply = ask(&server, &ours, listed);
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    let told = |name: &str| reply.header(&format!("access-control-allow-{name}"));
    assert_eq!(told("origin"), Some("https://listed.example"));
    assert_eq!(told("methods"), Some("GET, POST, DELETE"));
    let headers = told("headers").unwrap();
    assert!(headers.contains("Authorization, Content-Type, A2A-Version"), "{headers}");
    assert!(!headers.contains("x-other"), "nothing is repeated: {headers}");
    assert_eq!(told("credentials"), None, "cookies are not asked for");
    assert!(!reply.head.contains('*'), "{reply:?}");
    // No headers for another host, and none for a request that is no preflight.
    let evil = ask(&server, "evil.example", listed);
    assert_eq!((evil.status, evil.header("access-control-allow-origin")), (421, None));
    let two = ask(&server, &ours, &format!("{listed}\r\nOrigin: https://evil.example"));
    assert_eq!((two.status, two.header("access-control-allow-origin")), (403, None));
    let plain = "OPTIONS /echo HTTP/1.1\r\nOrigin: https://listed.example\r\nConnection: close";
    let plain = server.send(&format!("{plain}\r\nHost: {ours}\r\n\r\n"));
    assert_eq!(plain.status, 401, "{plain:?}");
    // No headers where no origin is allowed.
    let closed = Server::start();
    let reply = ask(&closed, &format!("localhost:{}", closed.port), listed);
    assert_eq!((reply.status, reply.header("vary")), (403, None));
    assert!(!reply.head.to_lowercase().contains("access-control"), "{reply:?}");
    assert_eq!(closed.get("/whoami").header("vary"), None);
}

/// The client of another Loggia chose the content of its notifications.
#[test]
fn a_notification_of_another_loggia_is_refused() {
    let server = Server::start();
    let rows = [
        ("User-Agent: loggia/0.1.0\r\nwebhook-id: 1-2.3", 403),
        ("user-agent: loggia/99\r\nWebhook-Id:", 403),
        // Notifications of other programs are accepted, and so is any user agent.
        ("User-Agent: hooks/1.0\r\nwebhook-id: 1-2.3", 200),
        ("webhook-id: 1-2.3", 200),
        ("User-Agent: loggia/0.1.0", 200),
    ];
    for (lines, wanted) in rows {
        let posted = server.post("/echo", &format!("{JSON}\r\n{lines}"), "{}");
        assert_eq!(posted.status, wanted, "{lines}: {posted:?}");
        if wanted == 403 {
            assert_eq!(posted.reason(), "notification");
        }
        assert_eq!(server.get_with("/whoami", lines).status, 200, "nothing changes: {lines}");
    }
}

#[test]
fn a_page_cannot_open_a_websocket() {
    let server = Server::start();
    let port = server.port;
    let upgrade = |lines: &str| {
        let mut stream = server.connect();
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{lines}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read_head(&mut stream).status
    };
    assert_eq!(upgrade(""), 101);
    assert_eq!(upgrade("Origin: https://evil.example\r\n"), 403);
    assert_eq!(upgrade("Origin: null\r\n"), 403);
    assert_eq!(upgrade("Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(upgrade(&format!("Origin: http://127.0.0.1:{port}\r\n")), 401);
    assert_eq!(upgrade(&format!("Host: 127.0.0.1:{port}\r\n")), 400);
    let events =
        server.get_with("/events", "Accept: text/event-stream\r\nOrigin: http://evil.example");
    assert_eq!((events.status, events.reason()), (403, "origin".to_owned()));
}

/// The content type of a body, and what it gets.
const TYPES: &[(&str, u16)] = &[
    ("Content-Type: application/json", 200),
    ("content-type: APPLICATION/JSON; charset=utf-8", 200),
    ("Content-Type: application/a2a+json", 200),
    ("Content-Type: application/a2a+json;version=1", 200),
    ("Content-Type: text/plain", 415),
    ("Content-Type: text/plain; application/json", 415),
    ("Content-Type: application/x-www-form-urlencoded", 415),
    ("Content-Type: multipart/form-data; boundary=x", 415),
    ("Content-Type: application/jsonp", 415),
    ("Content-Type: application/json, text/plain", 415),
    ("Content-Type: application/json\r\nContent-Type: text/plain", 415),
    ("Content-Type:", 415),
    ("X-Content-Type: application/json", 415),
    ("Content-Type: application/json\r\nContent-Encoding: gzip", 415),
    ("Content-Type: application/json\r\nContent-Encoding: identity, gzip", 415),
    ("Content-Type: application/json\r\nContent-Encoding: identity", 200),
];

#[test]
fn changing_requests_must_be_json() {
    let server = Server::start();
    for (lines, wanted) in TYPES {
        let reply = server.post("/echo", lines, "{}");
        assert_eq!(reply.status, *wanted, "{lines}: {reply:?}");
        for method in ["PUT", "PATCH", "DELETE"] {
            let reply = server.send(&format!(
                "{method} /echo HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n{lines}\r\n\
                 Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
                server.port
            ));
            let wanted = if *wanted == 200 { 405 } else { *wanted };
            assert_eq!(reply.status, wanted, "{method} {lines}: {reply:?}");
        }
    }
    let without = |method: &str| {
        server.send(&format!(
            "{method} /echo HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
            server.port
        ))
    };
    assert_eq!(without("POST").status, 200, "no body needs no type");
    assert_eq!(without("DELETE").status, 405);
    let rpc = server.post("/rpc", "Content-Type: text/plain", "{}");
    let body: serde_json::Value = serde_json::from_str(&rpc.body).unwrap();
    assert_eq!((rpc.status, &body["error"]["code"]), (415, &(-32600).into()), "in its own shape");
}
