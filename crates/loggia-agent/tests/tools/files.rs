//! Reading, writing and replacing, with the bytes that text files have.

use std::os::unix::fs::PermissionsExt;

use loggia_core::{CallOutcome, Details, Edit};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn a_file_is_written_and_read_back() {
    let mut stage = Stage::open().await;
    let output =
        stage.succeed("write_file", json!({ "path": "hello.txt", "content": "a\n" })).await;
    assert_eq!(output.text, "wrote hello.txt (1 line, 2 bytes)");
    let diff = output.diff.unwrap();
    assert_eq!((diff.path.as_str(), diff.old, diff.old_digest.as_str()), ("hello.txt", None, ""));
    assert_eq!(diff.absolute_path, stage.root().join("hello.txt").to_str().unwrap());
    assert_eq!(stage.file("hello.txt"), "a\n");
    assert_eq!(stage.text("read_file", json!({ "path": "hello.txt" })).await, "a\n");
    stage.succeed("write_file", json!({ "path": "new/deep/x.txt", "content": "" })).await;
    assert_eq!(stage.file("new/deep/x.txt"), "");
}

#[tokio::test]
async fn a_written_file_keeps_its_mode_and_leaves_nothing_beside_it() {
    let mut stage = Stage::open().await;
    stage.put("run.sh", "old");
    let path = stage.root().join("run.sh");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    stage.succeed("write_file", json!({ "path": "run.sh", "content": "new" })).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(stage.file("run.sh"), "new");
    assert_eq!(std::fs::read_dir(stage.root()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_marked_read_only_is_left_alone() {
    let mut stage = Stage::open().await;
    stage.put("fixed", "old");
    let path = stage.root().join("fixed");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let failure = stage.fail("write_file", json!({ "path": "fixed", "content": "new" })).await;
    assert_eq!(failure.kind, "read_only");
}

#[tokio::test]
async fn a_window_of_lines_is_read() {
    let mut stage = Stage::open().await;
    let lines: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    stage.put("ten", &lines);
    assert_eq!(stage.text("read_file", json!({ "path": "ten" })).await, lines);
    assert_eq!(
        stage.text("read_file", json!({ "path": "ten", "offset": 3, "limit": 2 })).await,
        "line 3\nline 4\n[lines 3 to 4; the file continues: read on with offset 5]"
    );
    assert_eq!(stage.text("read_file", json!({ "path": "ten", "offset": 10 })).await, "line 10\n");
    let failure = stage.fail("read_file", json!({ "path": "ten", "offset": 11 })).await;
    assert_eq!(failure.kind, "past_end");
    assert!(failure.message.contains("has only 10 lines"), "{}", failure.message);
    stage.put("empty", "");
    assert_eq!(stage.text("read_file", json!({ "path": "empty" })).await, "[empty is empty]");
}

#[tokio::test]
async fn what_is_no_text_is_named_and_not_shown() {
    let mut stage = Stage::open().await;
    stage.put("picture", b"\x89PNG\0\0\xff");
    let text = stage.text("read_file", json!({ "path": "picture" })).await;
    assert_eq!(text, "[picture is a binary file of 7 bytes; its content is not shown]");
    stage.put("latin", b"caf\xe9\n");
    let text = stage.text("read_file", json!({ "path": "latin" })).await;
    assert!(text.starts_with("caf\u{fffd}\n[this file is not UTF-8"), "{text}");
}

#[tokio::test]
async fn replacing_keeps_every_other_byte() {
    for (old, from, to, new) in [
        ("a\nb\n", "b", "c", "a\nc\n"),
        ("a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc"),
        ("\u{feff}a\r\nb\r\n", "b", "c", "\u{feff}a\r\nc\r\n"),
        ("no end", "end", "line", "no line"),
        ("mixed\r\nends\n", "ends", "x", "mixed\r\nx\n"),
        ("é\u{2028}ü", "ü", "ö", "é\u{2028}ö"),
    ] {
        let mut stage = Stage::open().await;
        stage.put("f", old);
        let input = json!({ "path": "f", "old_string": from, "new_string": to });
        let output = stage.succeed("replace", input).await;
        assert_eq!(stage.file("f"), new);
        let diff = output.diff.unwrap();
        assert_eq!((diff.old.as_deref(), diff.new.as_str()), (Some(old), new));
    }
}

#[tokio::test]
async fn a_replacement_that_is_not_exact_changes_nothing() {
    let mut stage = Stage::open().await;
    stage.put("f", "a a a");
    let replace = |from: &str, count: usize| json!({ "path": "f", "old_string": from, "new_string": "b", "expected_replacements": count });
    let failure = stage.fail("replace", replace("a", 1)).await;
    assert_eq!(failure.kind, "match_count");
    assert!(failure.message.contains("found 3 times, expected once"), "{}", failure.message);
    let failure = stage.fail("replace", replace("x", 1)).await;
    assert!(failure.message.contains("found 0 times"), "{}", failure.message);
    assert_eq!(stage.file("f"), "a a a");
    stage.succeed("replace", replace("a", 3)).await;
    assert_eq!(stage.file("f"), "b b b");
    let missing = json!({ "path": "g", "old_string": "a", "new_string": "b" });
    assert_eq!(stage.fail("replace", missing).await.kind, "not_found");
}

#[tokio::test]
async fn what_is_no_text_is_never_edited() {
    for bytes in [&b"caf\xe9 x"[..], &b"x\0y"[..], &[0xff, 0xfe, b'x', 0][..]] {
        let mut stage = Stage::open().await;
        stage.put("f", bytes);
        let input = json!({ "path": "f", "old_string": "x", "new_string": "y" });
        assert_eq!(stage.fail("replace", input).await.kind, "not_text");
        let input = json!({ "path": "f", "content": "y" });
        assert_eq!(stage.fail("write_file", input).await.kind, "not_text");
        assert_eq!(std::fs::read(stage.root().join("f")).unwrap(), bytes);
    }
}

#[tokio::test]
async fn what_is_written_is_what_the_person_made_of_it() {
    let mut stage = Stage::asking().await;
    stage.put("f", "\u{feff}one\r\n");
    stage.start("write_file", json!({ "path": "f", "content": "two" })).await;
    let (call, details) = stage.question().await;
    let Details::Edit(diff) = details else { panic!("{details:?}") };
    assert_eq!(diff.old.as_deref(), Some("\u{feff}one\r\n"));
    let digest = loggia_agent::workspace::digest("\u{feff}one\r\n".as_bytes());
    assert_eq!(diff.old_digest, digest, "the digest is that of the bytes");
    let edit = Edit::File { content: "three\n".into() };
    stage.answer(&call, "proceed_once", Some(edit)).await;
    let CallOutcome::Succeeded { output } = stage.outcome().await else { panic!() };
    assert_eq!(output.diff.unwrap().new, "three\n");
    assert_eq!(stage.file("f"), "three\n");
}

#[tokio::test]
async fn a_link_to_a_protected_directory_is_shown_for_what_it_is() {
    let mut stage = Stage::asking().await;
    std::fs::create_dir_all(stage.root().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", stage.root().join("docs")).unwrap();
    stage.start("write_file", json!({ "path": "docs/post-commit", "content": "x" })).await;
    let (_, details) = stage.question().await;
    let Details::Edit(diff) = details else { panic!("{details:?}") };
    assert_eq!(diff.path, ".git/hooks/post-commit");
    assert!(diff.protected);
}

#[tokio::test]
async fn a_directory_is_listed_one_name_a_line() {
    let mut stage = Stage::open().await;
    stage.put("b.txt", "12345");
    stage.put("a/x", "");
    stage.put("line\nbreak", "1");
    std::os::unix::fs::symlink("b.txt", stage.root().join("link")).unwrap();
    let text = stage.text("list_directory", json!({})).await;
    assert_eq!(text, "a/\nb.txt (5 bytes)\nline\\nbreak (1 byte)\nlink -> b.txt\n");
    assert_eq!(stage.text("list_directory", json!({ "path": "a" })).await, "x (0 bytes)\n");
    assert_eq!(
        stage.fail("list_directory", json!({ "path": "b.txt" })).await.kind,
        "not_a_directory"
    );
    assert_eq!(stage.fail("list_directory", json!({ "path": "none" })).await.kind, "not_found");
}

#[tokio::test]
async fn wrong_inputs_name_the_field() {
    let mut stage = Stage::open().await;
    for (tool, input, field) in [
        ("read_file", json!({}), "`path`"),
        ("read_file", json!({ "path": 1 }), "`path`"),
        ("read_file", json!({ "path": "x", "line": 1 }), "`line`"),
        ("write_file", json!({ "path": "x" }), "`content`"),
        ("replace", json!({ "path": "x", "old_string": "", "new_string": 1 }), "`new_string`"),
        ("glob", json!({ "pattern": "a{" }), "`pattern`"),
        ("search_file_content", json!({ "pattern": "(" }), "`pattern`"),
        ("search_file_content", json!({ "pattern": "a", "include": "[" }), "`include`"),
        ("run_shell_command", json!({ "command": "" }), "`command`"),
        ("run_shell_command", json!({ "command": "x", "timeout_seconds": 0 }), "`timeout_seconds`"),
        ("write_todos", json!({ "todos": [{ "text": "x", "state": "done" }] }), "`todos[0].state`"),
        ("publish_artifact", json!({ "name": "x" }), "`text`"),
        ("ask_user", json!({ "question": "x", "options": "y" }), "`options`"),
    ] {
        let failure = stage.fail(tool, input.clone()).await;
        assert_eq!(failure.kind, "invalid_input", "{tool} {input}");
        assert!(failure.message.contains(field), "{tool} {input}: {}", failure.message);
    }
}
