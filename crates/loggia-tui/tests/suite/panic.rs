//! A panic restores the terminal.

use std::io::{Read, Write};
use std::num::NonZero;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

#[test]
fn the_terminal_is_restored_after_a_panic() {
    // target/debug/deps/suite-… is next to target/debug/examples.
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("examples/panics");
    let size = PtySize { rows: 50, cols: 80, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new("/bin/sh");
    let script = "echo before; \"$0\"; echo code $?; stty -a | grep -o ' -*icanon'";
    command.args(["-c", script, program.to_str().unwrap()]);
    command.env("TERM", "xterm");
    command.env("RUST_BACKTRACE", "0");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut writer = pair.master.take_writer().unwrap();
    let some = |number| NonZero::new(number).unwrap();
    let mut parser = vt100::Parser::new(some(50), some(80), 100);
    // Input to type when a text appears.
    let mut steps = vec![
        ("what shall I do?", "go\r"),
        // A panic in a turn is recorded in the session and not printed over the screen.
        ("in a turn", "/share\r"),
    ]
    .into_iter()
    .peekable();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        parser.process(&buffer[..read]);
        if buffer[..read].windows(4).any(|window| window == b"\x1b[6n") {
            let (row, column) = parser.screen().cursor_position();
            write!(writer, "\x1b[{};{}R", row + 1, column + 1).unwrap();
        }
        let shown = parser.screen().contents();
        if let Some((_, typed)) = steps.next_if(|(seen, _)| shown.contains(seen)) {
            writer.write_all(typed.as_bytes()).unwrap();
        }
        if shown.contains("icanon") {
            break;
        }
    }
    child.wait().unwrap();
    let (screen, shown) = (parser.screen(), parser.screen().contents());
    assert!(shown.starts_with("before\n"), "{shown}");
    assert!(shown.contains("on purpose") && shown.contains("code 101"), "{shown}");
    assert!(shown.contains(" icanon") && !shown.contains("-icanon"), "{shown}");
    assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
    assert!(!shown.contains("thread 'tokio"), "the turn's panic was printed:\n{shown}");
}
