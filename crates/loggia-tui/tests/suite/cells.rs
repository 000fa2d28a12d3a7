//! Every kind of cell, one snapshot each.

use loggia_core::{
    Artifact, CallCell, CallFailure, CallOutcome, CallState, Cell, CellBody, ChoiceId, Details,
    FileDiff, Level, Millis, Origin, Output, PlanStep, Source, StepState, Surface, TurnOutcome,
};
use loggia_tui::theme::{Background, Depth, Theme};

use super::generate::{call, cell, from, shell, text};
use super::snapshot_text;

fn here() -> Origin {
    Origin::new(Surface::Tui, "terminal-1")
}

fn ada() -> Origin {
    Origin { principal: Some("ada".into()), ..Origin::new(Surface::A2a, "ide-1") }
}

fn prompt(origin: Origin, text: &str) -> Cell {
    let body = CellBody::Prompt { text: text.to_owned(), queued: false, withdrawn: false };
    from(origin, body)
}

/// Cells with titles, at a width.
fn gallery(width: usize, expanded: bool, cells: &[(&str, Cell)]) -> String {
    let show = |(title, cell): &(&str, Cell)| {
        format!("── {title}\n{}\n", snapshot_text::cell(cell, width, expanded))
    };
    cells.iter().map(show).collect()
}

#[test]
fn prompts_say_where_they_come_from() {
    let attached =
        Origin { principal: Some("local:1000".into()), ..Origin::new(Surface::Tui, "terminal-2") };
    let waits = |queued, withdrawn| {
        let text = "and then the tests".to_owned();
        from(ada(), CellBody::Prompt { text, queued, withdrawn })
    };
    let pasted: String = (1..=30).map(|line| format!("pasted line {line}\n")).collect();
    insta::assert_snapshot!(gallery(
        50,
        false,
        &[
            ("own", prompt(here(), "Fix the greeting in src/main.rs.\nThen run the tests.")),
            (
                "somebody with a name",
                prompt(ada(), "Fix the greeting in src/main.rs, and be quick.")
            ),
            ("attached", prompt(attached, "hello")),
            ("queued", waits(true, false)),
            ("withdrawn", waits(false, true)),
            ("long", prompt(here(), &pasted)),
            ("empty", prompt(here(), "")),
            ("spoofed", prompt(Origin::new(Surface::A2a, "x\u{1b}[2J\n› you"), "hi\u{202e}")),
        ]
    ));
}

#[test]
fn text_is_markdown() {
    let markdown = "# Result\n\nThe *greeting* had a **typo** in `main`:\n\n```rust\nfn main() {\n    \
        println!(\"Hello\");\n}\n```\n\n1. fixed\n2. tested\n   - unit\n   - end to end\n\n> It works.\n\n\
        | file | lines |\n|---|--:|\n| main.rs | 3 |\n| lib.rs | 120 |\n\nSee [docs](https://example.org/a).";
    insta::assert_snapshot!(gallery(60, true, &[("wide", text(markdown))]));
    insta::assert_snapshot!(
        "text_is_markdown_narrow",
        gallery(14, true, &[("narrow", text(markdown))])
    );
    insta::assert_snapshot!("text_folded", gallery(60, false, &[("folded", text(markdown))]));
}

#[test]
fn thoughts_are_one_line_until_opened() {
    let thought = |subject: &str, text: &str| {
        cell(CellBody::Thought {
            subject: subject.to_owned(),
            text: text.to_owned(),
            discarded: false,
        })
    };
    let cells = [
        (
            "with a subject",
            thought("Greeting", "A short greeting is *enough*.\nNothing more to do."),
        ),
        (
            "without",
            thought("", "First line of a thought that is rather long, so it does not fit."),
        ),
        ("empty", thought("", "")),
    ];
    insta::assert_snapshot!(gallery(50, false, &cells));
    insta::assert_snapshot!("thoughts_opened", gallery(50, true, &cells));
}

fn started(live: &str) -> CallCell {
    CallCell {
        state: CallState::Started,
        live: live.to_owned(),
        started: Some(Millis(snapshot_text::NOW.0 - 65_000)),
        ..shell("cargo test")
    }
}

fn ended(outcome: CallOutcome, live: &str) -> CallCell {
    let ended = Some(Millis(snapshot_text::NOW.0 - 60_000));
    CallCell { state: CallState::Ended, outcome: Some(outcome), ended, ..started(live) }
}

fn approved(by: Origin, choice: &str, call: CallCell) -> CallCell {
    CallCell { answered: Some((ChoiceId::from(choice), by)), ..call }
}

#[test]
fn calls_in_every_state() {
    let numbers: String = (1..=40).map(|line| format!("line {line}\n")).collect();
    let succeeded = |text: &str| CallOutcome::Succeeded { output: Output::text(text) };
    let failure = CallFailure {
        code: Some(101),
        ..CallFailure::new("exit_status", "error: no\nexit status 101")
    };
    let edited =
        Details::Execute { command: "cargo test -p core".to_owned(), directory: "/w".to_owned() };
    let cells = [
        ("proposed", call(shell("cargo test"))),
        ("asked", call(CallCell { state: CallState::Asked, ..shell("cargo test") })),
        ("started", call(started(""))),
        ("with output", call(started(&numbers))),
        ("with a progress bar", call(started("Compiling\n 10%\r 50%\r 90%"))),
        ("with colours", call(started("\u{1b}[32mok\u{1b}[0m \u{1b}]0;title\u{7}done"))),
        (
            "succeeded",
            call(approved(ada(), "proceed_once", ended(succeeded("3 passed"), "3 passed\n"))),
        ),
        ("always allowed", call(approved(here(), "proceed_always", ended(succeeded(""), "")))),
        (
            "edited",
            call(approved(
                here(),
                "proceed_once",
                CallCell { details: edited, ..ended(succeeded("ok"), "ok\n") },
            )),
        ),
        ("summary after output", call(ended(succeeded("40 lines in all"), &numbers))),
        ("failed", call(ended(CallOutcome::Failed { failure }, "running 3 tests\n"))),
        (
            "refused",
            call(approved(
                ada(),
                "cancel",
                ended(CallOutcome::Cancelled { reason: "refused by A2A:ada".to_owned() }, ""),
            )),
        ),
    ];
    insta::assert_snapshot!(gallery(56, false, &cells));
    insta::assert_snapshot!("call_opened", gallery(56, true, &cells[3..4]));
    insta::assert_snapshot!("calls_narrow", gallery(12, false, &cells));
}

#[test]
fn calls_of_every_kind() {
    let with = |title: &str, details: Details| {
        call(CallCell { title: title.to_owned(), details, state: CallState::Started, ..shell("x") })
    };
    let script = "set -e\nfor f in *; do\n  echo $f\ndone".to_owned();
    let artifact = Artifact {
        id: "1".to_owned(),
        name: "report.md".to_owned(),
        parts: Vec::new(),
        append: false,
        last: true,
    };
    let output = Output { artifact: Some(artifact), ..Output::text("saved") };
    let listing: String = (1..=9).map(|line| format!("src/file_{line}.rs\n")).collect();
    let found = CallCell {
        title: "search TODO".to_owned(),
        details: Details::Generic { text: "TODO in src".to_owned() },
        state: CallState::Ended,
        outcome: Some(CallOutcome::Succeeded { output: Output::text(listing) }),
        ..shell("x")
    };
    insta::assert_snapshot!(gallery(
        56,
        false,
        &[
            (
                "script",
                with(
                    "Run a script",
                    Details::Execute { command: script, directory: "/w".to_owned() }
                )
            ),
            (
                "mcp",
                with(
                    "create_issue",
                    Details::Mcp { server: "tracker".to_owned(), tool: "create_issue".to_owned() }
                )
            ),
            (
                "question",
                with(
                    "Which database?",
                    Details::Question {
                        text: "Which database?".to_owned(),
                        options: vec!["SQLite".to_owned(), "Postgres".to_owned()],
                    }
                )
            ),
            ("search", call(found)),
            (
                "artifact",
                call(CallCell {
                    state: CallState::Ended,
                    outcome: Some(CallOutcome::Succeeded { output }),
                    ..shell("x")
                })
            ),
        ]
    ));
}

fn edit(lines: usize) -> CallCell {
    let old: String = (1..=lines).map(|line| format!("    let line_{line} = {line};\n")).collect();
    let new = old.replace("= 2;", "= 22;").replace("    let line_4 = 4;\n", "");
    let diff = FileDiff::between("src/main.rs", "/w/src/main.rs", Some(&old), &new);
    CallCell {
        tool: "edit".to_owned(),
        title: "edit src/main.rs".to_owned(),
        details: Details::Edit(diff),
        state: CallState::Started,
        ..shell("x")
    }
}

/// The dialog shows the question; the transcript shows it only if expanded.
#[test]
fn a_question_is_not_shown_twice() {
    let asked = CallCell { state: CallState::Asked, ..edit(6) };
    insta::assert_snapshot!(gallery(70, false, &[("asked", call(asked.clone()))]), @r"
    ── asked
    ? edit src/main.rs +1 −2 · waits for an answer
    ");
    assert!(gallery(70, true, &[("asked", call(asked))]).contains("let line_2 = 22;"));
}

#[test]
fn edits_are_diffs() {
    insta::assert_snapshot!(gallery(70, false, &[("asked", call(edit(6)))]));
    insta::assert_snapshot!("edit_side_by_side", gallery(124, false, &[("wide", call(edit(6)))]));
    insta::assert_snapshot!("edit_narrow", gallery(22, false, &[("narrow", call(edit(6)))]));
    let new = FileDiff::between(
        ".git/hooks/post-commit",
        "/w/.git/hooks/post-commit",
        None,
        "#!/bin/sh\n",
    );
    let new = CallCell { details: Details::Edit(new), title: "write a hook".to_owned(), ..edit(1) };
    insta::assert_snapshot!("edit_new_protected_file", gallery(70, false, &[("new", call(new))]));
}

#[test]
fn plans_sources_notices_and_ends() {
    let step = |text: &str, state| PlanStep { text: text.to_owned(), state };
    let source = |title: &str, uri: &str| Source { title: title.to_owned(), uri: uri.to_owned() };
    let notice = |level, text: &str| cell(CellBody::Notice { level, text: text.to_owned() });
    let end = |origin, outcome| from(origin, CellBody::TurnEnd { outcome });
    insta::assert_snapshot!(gallery(
        44,
        true,
        &[
            (
                "plan",
                cell(CellBody::Plan {
                    steps: vec![
                        step("read the code", StepState::Completed),
                        step(
                            "change the greeting in all places where it stands",
                            StepState::InProgress
                        ),
                        step("run the tests", StepState::Pending),
                        step("deploy", StepState::Cancelled),
                    ]
                })
            ),
            (
                "sources",
                cell(CellBody::Sources {
                    sources: vec![
                        source("The Book", "https://example.org/book"),
                        source("", "https://example.org/a/very/long/address/that/does/not/fit"),
                    ]
                })
            ),
            ("information", notice(Level::Info, "A2A:ada has joined")),
            ("warning", notice(Level::Warning, "the context is nearly full")),
            ("error", notice(Level::Error, "the model does not answer;\ntrying again")),
            ("completed", end(Origin::agent(), TurnOutcome::Completed)),
            ("failed", end(Origin::agent(), TurnOutcome::failed("no reply within 60 s"))),
            ("cancelled", end(ada(), TurnOutcome::Cancelled)),
            ("cancelled here", end(here(), TurnOutcome::Cancelled)),
            ("interrupted", end(Origin::system(), TurnOutcome::Interrupted)),
        ]
    ));
}

#[test]
fn colours_follow_the_meaning() {
    let dark = Theme::new(Depth::Indexed, Background::Dark);
    let light = Theme::new(Depth::Indexed, Background::Light);
    let sixteen = Theme::default();
    let code = text("Use `x`:\n\n```rust\n// sum\nlet x: u8 = f(1) + \"a\".len();\n```");
    let prompt = prompt(ada(), "hi");
    let show = |theme: &Theme, cells: &[&Cell]| -> String {
        cells
            .iter()
            .map(|cell| snapshot_text::styled(&snapshot_text::lines(cell, 60, true, theme)) + "\n")
            .collect()
    };
    let edit = call(edit(4));
    insta::assert_snapshot!("colours_sixteen", show(&sixteen, &[&prompt, &code, &edit]));
    insta::assert_snapshot!("colours_dark", show(&dark, &[&code, &edit]));
    insta::assert_snapshot!("colours_light", show(&light, &[&code, &edit]));
}
