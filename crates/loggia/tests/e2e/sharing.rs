//! Starts and stops sharing a running session.

use loggia_core::Event;
use serde_json::json;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::{Socket, text_message};

/// The displayed port.
fn port(screen: &Screen) -> u16 {
    let shown = screen.shown();
    let rest = shown.split("ws://localhost:").nth(1).unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_terminal_can_share_a_session() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[], (100, 40));
    screen.sees("what shall I do?").types("say before\r").sees("\n\nbefore").sees_no("working");
    screen.types("/share\r").sees("is not shared").types("q");
    screen.types("/share 0\r").sees("ws://localhost:").types("q");
    screen.types("/share\r").sees("ws://localhost:");
    let port = port(&screen);
    screen.types("q").sees_no("ws://localhost:").sees("This session is shared on http://");

    // Earlier events are visible, and both see new ones.
    let mut phone = Socket::connect(port, "?name=phone&after=0").await;
    screen.sees("with A2A:phone");
    let message = text_message("say from outside");
    phone.send(2, "message/stream", json!({ "message": message })).await;
    screen.sees("\n\nfrom outside").sees_no("working");

    // Other clients do not have the command.
    phone.send(3, "command/execute", json!({ "command_path": ["share"], "args": "0" })).await;
    let refused = phone.until(|value| value["id"] == 3).await;
    assert_eq!(refused["result"]["status"], "FAILED_TO_START", "{refused}");
    machine.write(".loggia/commands/share.md", "say mine");
    assert_eq!(machine.run(&["trust"]).code, 0);
    let message = text_message("/share off");
    phone.send(4, "message/stream", json!({ "message": message })).await;
    screen.sees("✗ Failed: there is no command `/share`").sees_no("working").sees("with A2A:phone");

    // The first letter loads the command files, and one of them is reported as invalid.
    screen.types("/").sees("not used: `.loggia/commands/share.md`");
    screen.types("share 0\r").sees("this session is shared already");
    screen.types("/share off\r").sees("This session is no longer shared");
    phone.end().await;
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err());
    screen.types("say after\r").sees("\n\nafter");
    let log = machine.log(&machine.sessions()[0]);
    let notices: Vec<&str> = log
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::NoticeRaised { text, .. } => Some(text.split(" on ").next().unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(notices, ["This session is shared", "This session is no longer shared."]);
}
