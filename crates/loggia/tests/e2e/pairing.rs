//! One-time codes: created in the terminal and on the command line, redeemed by another terminal
//! and by a plain request.

use loggia_core::Event;
use regex::Regex;
use serde_json::{Value, json};

use crate::authority::{Authority, outer_address};
use crate::driver::Machine;
use crate::oauth::{ask, status};
use crate::screen::Screen;
use crate::secrets::files_below;
use crate::served::Served;

const SIZE: (u16, u16) = (110, 45);
const READY: &str = "what shall I do?";
const GRANT: &str = "grant_type=urn:loggia:oauth:grant-type:pairing-code";

/// The displayed code and port.
fn shown(screen: &Screen) -> (String, String) {
    let shape = Regex::new(
        r"One-time code: ([0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4})\b[\s\S]*localhost:(\d+) --code",
    );
    let shown = screen.shown();
    let found = shape.unwrap().captures(&shown).unwrap_or_else(|| panic!("no code:\n{shown}"));
    (found[1].to_owned(), found[2].to_owned())
}

/// Creates a code on the command line.
fn pair(machine: &Machine, more: &[&str]) -> String {
    let ran = machine.run(&[&["pair", "--json"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shown: Value = serde_json::from_str(&ran.out).expect(&ran.out);
    assert_eq!(shown["expires_in"], 300);
    shown["code"].as_str().unwrap().to_owned()
}

/// The registered clients, from `clients list`.
fn listed(machine: &Machine) -> Vec<Value> {
    let ran = machine.run(&["clients", "list", "--json"]);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The whole process with debug logs: created, redeemed, used, renewed, used up, revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_on_the_screen_lets_one_terminal_in() {
    let (machine, phone) = (Machine::new(), Machine::new());
    let traced = [("LOGGIA_LOG", "trace")];
    let mut home = Screen::sized(&machine, &["--require-token"], &traced, SIZE);
    home.sees("no client has a token yet").sees(READY);
    home.types("/share code\r").sees("this session is not shared yet");
    home.types("/share 0\r").sees("Clients need a token: /share code").types("q");
    home.types("/share code admin\r").sees("a code cannot give admin");
    home.types("/share code\r").sees("within 5 minutes, for: read prompt approve").sees("█");
    let (code, port) = shown(&home);
    home.types("q").sees_no(&code);

    let url = format!("localhost:{port}");
    let attach = |code: &str| ["attach", &url, "--code", code, "--name", "phone"].map(String::from);
    let screen = |arguments: [String; 6]| {
        Screen::sized(&phone, &arguments.each_ref().map(String::as_str), &[], SIZE)
    };
    let mut away = screen(attach(&code.to_lowercase()));
    away.sees(READY);
    home.sees("phone was paired with a code: read prompt approve").sees("with TUI:client:phone");
    away.types("write a.txt: hi\r").sees("Allow Loggia to write a.txt?").sees("e change it first");
    away.types("y").sees("wrote a.txt");
    home.sees("wrote a.txt");

    // A used code is invalid.
    let mut late = screen(attach(&code));
    late.sees("code 1").sees("access refused (400): The code is wrong, used or expired");

    // When the token becomes invalid, the device gets a new one with its secret.
    assert_eq!(machine.run(&["clients", "rotate-keys", "--at-once"]).code, 0);
    away.types("say again here\r").sees("\n\nagain here");
    home.sees("\n\nagain here");

    let [client] = listed(&machine).try_into().unwrap();
    assert_eq!(client["client_id"], "phone");
    assert_eq!(client["scope"], "read prompt approve");
    assert!(client["until"].is_string(), "{client}");
    assert_eq!(machine.run(&["clients", "revoke", "phone"]).code, 0);
    away.sees("this device no longer has access").sees("code 1");
    home.sees_no("with TUI:client:phone");

    // Stopping sharing invalidates the code.
    home.types("/share code read\r").sees("for: read.");
    let (second, _) = shown(&home);
    home.types("q").sees_no(&second).types("/share off\r").sees("is no longer shared");
    home.types(&format!("/share {port}\r")).sees("Clients need a token").types("q");
    let mut late = screen(attach(&second));
    late.sees("code 1").sees("The code is wrong, used or expired");
    away.types("\x03\x03");
    home.types("\x04").sees("code 0").is_restored();

    let log = machine.log(&machine.sessions()[0]);
    let answered = log.iter().find(|one| matches!(one.event, Event::ApprovalAnswered { .. }));
    let by = answered.unwrap().origin.principal.clone().unwrap();
    assert!(by.starts_with("client:phone~"), "{by}");
    let traced = std::fs::read_to_string(machine.home().join("state/loggia.log")).unwrap();
    assert!(traced.contains("TRACE") && traced.contains("was paired with a code"));
    let canaries: Vec<String> = [code, second]
        .into_iter()
        .flat_map(|code| [code.replace('-', ""), code])
        .flat_map(|code| [code.to_lowercase(), code])
        .collect();
    for file in [&machine, &phone].iter().flat_map(|one| files_below(one.home().parent().unwrap()))
    {
        let bytes = std::fs::read(&file).unwrap();
        let found = canaries
            .iter()
            .find(|canary| bytes.windows(canary.len()).any(|window| window == canary.as_bytes()));
        assert_eq!(found, None, "{}", file.display());
    }
}

/// A server on a non-loopback address without clients: `loggia pair` creates a code for it.
#[tokio::test(flavor = "multi_thread")]
async fn another_machine_is_let_in_over_tls() {
    let (machine, laptop) = (Machine::new(), Machine::new());
    let authority = Authority::new(&machine);
    let Some(address) = outer_address() else { return };
    let arguments = ["--a2a-port", "0", "--require-token", "--listen", &address.to_string()];
    let served = Served::encrypted(&machine, &authority, &arguments);
    let url = format!("https://{}", std::net::SocketAddr::new(address, served.port));
    let code = pair(&machine, &["--scope", "read,prompt", &url]);
    // As in the QR code.
    let link = format!("{url}/#code={code}");
    let own = authority.file();
    let arguments = ["attach", &link, "--name", "laptop"];
    let mut away = Screen::sized(&laptop, &arguments, &[], SIZE);
    away.sees("code 1").sees("certificate is not trusted here").sees("--ca-file");
    let arguments = [&arguments[..], &["--ca-file", &own]].concat();
    let mut away = Screen::sized(&laptop, &arguments, &[], SIZE);
    away.sees(READY).types("say over tls\r").sees("\n\nover tls");
    let [client] = listed(&machine).try_into().unwrap();
    assert_eq!((&client["client_id"], &client["scope"]), (&json!("laptop"), &json!("read prompt")));
    // It may not answer.
    away.types("write a.txt: hi\r").sees("Allow Loggia to write a.txt?").sees("e change it first");
    away.types("y").sees("approve");
    assert_eq!(machine.read("a.txt"), None);
    let plain = ["attach", &link.replace("https", "http")];
    let mut clear = Screen::sized(&laptop, &plain, &[], SIZE);
    clear.sees("code 2").sees("in the clear");
}

#[test]
fn two_codes_for_one_device_are_one_too_many() {
    let machine = Machine::new();
    let arguments = ["attach", "http://127.0.0.1:1/#code=ABCD-EFGH", "--code", "JKMN-PQRS"];
    let mut screen = Screen::sized(&machine, &arguments, &[], SIZE);
    screen.sees("code 2").sees("there are two codes");
}

/// RFC 6749: status and error code of every response, and device names.
#[tokio::test]
async fn codes_are_redeemed_by_the_standard() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--require-token"]);
    let fresh = || pair(&machine, &[]);
    let code = fresh();
    let good = format!("{GRANT}&code={code}&client_name=Ann%27s+phone");
    for (form, wanted, word) in [
        (GRANT.to_owned(), 400, "invalid_request"),
        (format!("{good}&client_secret=x"), 400, "invalid_request"),
        (format!("{good}&code={code}"), 400, "invalid_request"),
        (format!("{good}&scope=admin"), 400, "invalid_scope"),
        (format!("{good}&scope=everything"), 400, "invalid_scope"),
        (good.replace("pairing-code", "device-code"), 400, "unsupported_grant_type"),
        (format!("{GRANT}&code={}", "0".repeat(8_192)), 413, "invalid_request"),
    ] {
        let (status, body) = ask(&served, &form).await;
        assert_eq!((status, &body["error"]), (wanted, &json!(word)), "{form}: {body}");
        assert!(!body.to_string().contains(&code), "{body}");
    }
    let (given, body) = ask(&served, &good).await;
    assert_eq!(given, 200, "{body}");
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    let wanted = [
        "access_token",
        "client_id",
        "client_secret",
        "client_secret_expires_at",
        "expires_in",
        "scope",
        "token_type",
    ];
    assert_eq!(members, wanted);
    assert_eq!(body["client_id"], "Ann-s-phone");
    assert_eq!(body["scope"], "read prompt approve");
    let token = body["access_token"].as_str().unwrap();
    assert_eq!(status(&served, token).await, 200);
    let (secret, id) = (body["client_secret"].as_str().unwrap(), "client_id=Ann-s-phone");
    let next = format!("grant_type=client_credentials&{id}&client_secret={secret}");
    assert_eq!(ask(&served, &next).await.0, 200);
    // In the URL a code would be logged.
    let request = served.request("POST", &format!("/oauth/token?code={code}"));
    let answer = request.header("Content-Type", crate::oauth::FORM).body(GRANT).send().await;
    assert_eq!(answer.unwrap().status(), 400);

    // Many concurrent requests with the next code, with fewer scopes.
    let form = format!("{GRANT}&code={}&scope=read", fresh());
    let all = futures::future::join_all((0..8).map(|_| ask(&served, &form))).await;
    let (in_, out): (Vec<_>, Vec<_>) = all.into_iter().partition(|(status, _)| *status == 200);
    assert_eq!(in_.len(), 1, "{out:?}");
    assert_eq!(in_[0].1["scope"], "read");
    assert!(out.iter().all(|(status, _)| [400, 429].contains(status)), "{out:?}");

    assert_eq!(machine.run(&["clients", "revoke", "Ann-s-phone"]).code, 0);
    assert_eq!(status(&served, token).await, 401);
    // After too many guesses even the right code waits.
    let (guessed, body) = ask(&served, &format!("{GRANT}&code={}", fresh())).await;
    assert_eq!((guessed, &body["error"]), (429, &json!("temporarily_unavailable")), "{body}");
}

#[test]
fn the_command_line_makes_codes() {
    let machine = Machine::new();
    let ran = machine.run(&["pair", "https://box.example/"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shape = Regex::new(
        r"^code: (\S{4}-\S{4})\nIt pairs one device within 5 minutes, for: read prompt approve.\nloggia attach https://box.example/ --code (\S+)\n$",
    );
    let found = shape.unwrap().captures(&ran.out).unwrap_or_else(|| panic!("{}", ran.out));
    assert_eq!(found[1], found[2]);
    for (arguments, why) in [
        (["--scope", "read,admin"], "a code cannot give admin: register a client"),
        (["--scope", "write"], "there is no scope `write`"),
    ] {
        let ran = machine.run(&["pair", arguments[0], arguments[1]]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }
}
