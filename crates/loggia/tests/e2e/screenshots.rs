//! The images in docs/screenshots, drawn from a terminal emulator. `cargo xtask screenshots` writes
//! them; otherwise they are compared.

use std::path::PathBuf;

use serde_json::json;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::{Socket, confirmation, text_message};

const READY: &str = "what shall I do?";
const ARMED: &str = "e change it first";
const SIZE: (u16, u16) = (112, 34);
/// Set by `cargo xtask screenshots`.
const WRITE: &str = "LOGGIA_WRITE_SCREENSHOTS";

const MODEL: &str = r#"
[[rule]]
contains = "greeting"
steps = [
  { thought = "The text is in one place, so one edit is enough.", subject = "Where the greeting is" },
  { text = "The greeting is made in `src/greeting.rs`. I will make it friendlier, and say what time of day it is." },
  { call = "replace", input = { path = "src/greeting.rs", old_string = "    format!(\"Hello, {name}.\")\n", new_string = "    let when = part_of_day(hour);\n    format!(\"Good {when}, {name}!\")\n" } },
  { text = "Done. What do the tests say?" },
  { call = "read_file", input = { path = "tests.log" } },
  { text = "All **12** tests pass.\n\n| file | change |\n|---|---|\n| `src/greeting.rs` | says good morning, good evening |" },
  { usage = { input = 4210, output = 318 } },
]

[[rule]]
steps = [{ text = "The evening is in it already: `part_of_day` knows both." }]
"#;

const GREETING: &str = r#"//! What is said first.

/// A greeting for somebody, at an hour of the day.
pub fn greeting(name: &str, hour: u8) -> String {
    format!("Hello, {name}.")
}

fn part_of_day(hour: u8) -> &'static str {
    if hour < 12 { "morning" } else { "evening" }
}
"#;

fn committed(name: &str) -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/screenshots"));
    root.join(format!("{name}.svg"))
}

/// Writes an image, or reports how it differs.
fn check(name: &str, image: &str) {
    let path = committed(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, image).unwrap();
        return;
    }
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let first = image.lines().zip(old.lines()).find(|(new, old)| new != old);
    assert!(
        image == old,
        "docs/screenshots/{name}.svg is not what the screen shows ({first:?}): look at it, and if \
         it is right, run `cargo xtask screenshots`"
    );
}

/// One session, two people: a change is asked for, seen by both, and answered by the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_two() {
    let machine = Machine::new();
    machine.write("src/greeting.rs", GREETING);
    machine.write("tests.log", "running 12 tests\ntest result: ok. 12 passed\n");
    let model = machine.script("model.toml", MODEL);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port_text = port.to_string();
    let arguments = ["--a2a-port", &port_text, "--model", &model];
    let look = [("TERM", "xterm-256color"), ("COLORFGBG", "15;0")];
    let script = "echo '$ loggia --a2a-port 1234'; \"$0\" \"$@\"";
    let mut screen = Screen::script(&machine, script, &arguments, &look, SIZE);
    screen.sees(READY);
    let mut phone = Socket::connect(port, "?name=anna-phone&after=0").await;
    screen.sees("with A2A:anna-phone");
    screen.types("Make the greeting friendlier\r");
    // The grammars load after the first frame: wait for them.
    screen.sees(ARMED).sees_coloured("let");
    let asked = phone.until(|value| value.to_string().contains("confirmation_request")).await;
    let also = text_message("Please do not forget the evening");
    phone.send(2, "message/stream", json!({ "message": also })).await;
    let image = screen.image(&[ARMED, "queued: [A2A:anna-phone", "!joined"]);
    check("approval", &image);

    let event = &asked["params"]["event"];
    let call = &event["status"]["message"]["parts"][0]["data"]["tool_call_id"];
    let answer = confirmation(&event["taskId"], call, "proceed_once");
    phone.send(3, "message/stream", json!({ "message": answer })).await;
    let last = "part_of_day knows both.";
    // The transient remark and the permanent text.
    let said = ": edit src/greeting.rs";
    let image = screen.image(&[said, last, READY, "!working"]);
    check("answered-elsewhere", &image);

    screen.types("\x14");
    let image = screen.image(&["/ search", "All 12 tests pass.", last, "!working"]);
    check("transcript", &image);
}
