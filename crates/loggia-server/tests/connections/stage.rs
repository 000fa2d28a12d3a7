//! Starts test servers and sends them raw bytes.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The options of a test server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub listen: String,
    pub port: u16,
    pub uid: u32,
    /// In its own network namespace, without IPv6.
    pub only_version_4: bool,
    pub subreaper: bool,
    pub tokens: Option<String>,
    pub require_token: bool,
    pub allow_hidden_peers: bool,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub body_millis: u64,
    pub header_millis: u64,
    pub idle_millis: u64,
    pub stall_millis: u64,
    pub stop_millis: u64,
    pub connections: usize,
    pub handshake_millis: u64,
    /// The files of a certificate and of its key.
    pub tls: Option<(String, String)>,
    /// The limit of open files, and how many of them the server opens at its start.
    pub files: Option<u64>,
    pub wasted: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            listen: "localhost".to_owned(),
            port: 0,
            uid: 0,
            only_version_4: false,
            subreaper: true,
            tokens: None,
            require_token: false,
            allow_hidden_peers: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_millis: 30_000,
            header_millis: 10_000,
            idle_millis: 75_000,
            stall_millis: 30_000,
            stop_millis: 10_000,
            connections: 4_096,
            handshake_millis: 10_000,
            tls: None,
            files: None,
            wasted: 0,
        }
    }
}

/// A test server in a separate process; ends with the test.
pub struct Server {
    pub child: Child,
    pub port: u16,
    output: Lines<BufReader<ChildStdout>>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        Self::try_with(setup).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    pub fn try_with(setup: Setup) -> Result<Self, String> {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests need root to run processes as other users"
        );
        let mut command = program(setup.only_version_4);
        command.args(["child_server", "--exact", "--nocapture", "--quiet"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        if setup.uid != 0 {
            command.uid(setup.uid).gid(setup.uid);
        }
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Self { child, port: 0, output };
        server.send_line(&serde_json::to_string(&setup).unwrap());
        let said = server.read_line();
        match said.split_once(' ') {
            Some(("ready", port)) => {
                server.port = port.parse().unwrap();
                Ok(server)
            }
            Some(("refused", why)) => Err(why.to_owned()),
            _ => panic!("the server said {said:?}"),
        }
    }

    pub fn send_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line of the server, without those of the test framework.
    pub fn read_line(&mut self) -> String {
        let mut lines = self.output.by_ref().map(|line| line.unwrap());
        let line = lines.find_map(|line| {
            let (_, line) = line.split_once("test server: ")?;
            Some(line.to_owned())
        });
        line.unwrap_or_else(|| panic!("the server ended: {:?}", self.child.wait()))
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\n{}", self.ending()))
    }

    /// A GET with more headers.
    pub fn get_with(&self, path: &str, headers: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n{}", self.ending()))
    }

    pub fn post(&self, path: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.send(&format!("{head}{}{body}", self.ending()))
    }

    /// Runs a call by `/run`: the output of the script and of all its descendants.
    pub fn run(&self, script: &str) -> String {
        let body = serde_json::json!({ "script": script }).to_string();
        let reply = self.post("/run", "Content-Type: application/json", &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    fn ending(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", self.port)
    }

    /// Sends bytes on a new connection and reads the reply.
    pub fn send(&self, bytes: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        Reply::read(&mut stream)
    }

    pub fn resident_kilobytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(only_version_4: bool) -> Command {
    let ourselves = std::env::current_exe().unwrap();
    if !only_version_4 {
        return Command::new(ourselves);
    }
    let mut command = Command::new("unshare");
    let forbid = "ip link set lo up; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; exec \"$@\"";
    command.args(["-n", "sh", "-c", forbid, "sh"]).arg(ourselves);
    command
}

/// A connection with a read timeout.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// One answer; the connection may stay open behind it.
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut reply = Self::read_head(stream);
        let length = reply.header("content-length").map(|length| length.parse().unwrap());
        let mut body = Vec::new();
        match length {
            Some(length) => stream.take(length).read_to_end(&mut body).unwrap(),
            None => stream.read_to_end(&mut body).unwrap(),
        };
        reply.body = String::from_utf8(body).unwrap();
        reply
    }

    pub fn read_head(stream: &mut TcpStream) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: String::new() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The reason of a refusal, after a check of its form.
    #[track_caller]
    pub fn reason(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let error = &body["error"];
        assert_eq!(error["code"], self.status, "{self:?}");
        assert!(error["message"].as_str().unwrap().ends_with('.'), "{self:?}");
        assert!(self.body.len() < 256, "{self:?}");
        error["reason"].as_str().unwrap().to_owned()
    }
}

/// The output of curl, run as this user: body, a space, the status.
pub fn curl(arguments: &[&str], uid: u32) -> String {
    curl_with("curl", arguments, uid)
}

/// The same with another copy of curl.
pub fn curl_with(program: &str, arguments: &[&str], uid: u32) -> String {
    let uid = uid.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
    // setpriv gives up the capabilities of root only when it executes the shell. With them, a program that may not be
    // read would not hide.
    command.args(["sh", "-c", "exec \"$@\"", "sh"]);
    command.args([program, "-sS", "-w", " %{http_code}"]).args(arguments);
    let output = command.output().expect("setpriv and curl are needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
