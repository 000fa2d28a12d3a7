//! Reading, writing and replacing, with the bytes that text files have.

use std::os::unix::fs::PermissionsExt;

use loggia_core::{CallOutcome, Details, Edit};
use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_file_is_written_and_read_back() {
    let mut fixture = Fixture::open().await;
    let output =
        fixture.succeed("write_file", json!({ "path": "hello.txt", "content": "a\n" })).await;
    assert_eq!(output.text, "wrote hello.txt (1 line, 2 bytes)");
    let diff = output.diff.unwrap();
    assert_eq!((diff.path.as_str(), diff.old, diff.old_digest.as_str()), ("hello.txt", None, ""));
    assert_eq!(diff.absolute_path, fixture.root().join("hello.txt").to_str().unwrap());
    assert_eq!(fixture.file("hello.txt"), "a\n");
    assert_eq!(fixture.text("read_file", json!({ "path": "hello.txt" })).await, "a\n");
    fixture.succeed("write_file", json!({ "path": "new/deep/x.txt", "content": "" })).await;
    assert_eq!(fixture.file("new/deep/x.txt"), "");
}

#[tokio::test]
async fn a_written_file_keeps_its_mode_and_leaves_nothing_beside_it() {
    let mut fixture = Fixture::open().await;
    fixture.put("run.sh", "old");
    let path = fixture.root().join("run.sh");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    fixture.succeed("write_file", json!({ "path": "run.sh", "content": "new" })).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(fixture.file("run.sh"), "new");
    assert_eq!(std::fs::read_dir(fixture.root()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_marked_read_only_is_left_alone() {
    let mut fixture = Fixture::open().await;
    fixture.put("fixed", "old");
    let path = fixture.root().join("fixed");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let failure = fixture.fail("write_file", json!({ "path": "fixed", "content": "new" })).await;
    assert_eq!(failure.kind, "read_only");
}

#[tokio::test]
async fn a_range_of_lines_is_read() {
    let mut fixture = Fixture::open().await;
    let lines: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    fixture.put("ten", &lines);
    assert_eq!(fixture.text("read_file", json!({ "path": "ten" })).await, lines);
    assert_eq!(
        fixture.text("read_file", json!({ "path": "ten", "offset": 3, "limit": 2 })).await,
        "line 3\nline 4\n[lines 3 to 4; the file continues: read on with offset 5]"
    );
    assert_eq!(
        fixture.text("read_file", json!({ "path": "ten", "offset": 10 })).await,
        "line 10\n"
    );
    let failure = fixture.fail("read_file", json!({ "path": "ten", "offset": 11 })).await;
    assert_eq!(failure.kind, "past_end");
    assert!(failure.message.contains("has only 10 lines"), "{}", failure.message);
    fixture.put("empty", "");
    assert_eq!(fixture.text("read_file", json!({ "path": "empty" })).await, "[empty is empty]");
}

#[tokio::test]
async fn binary_files_are_named_and_not_shown() {
    let mut fixture = Fixture::open().await;
    fixture.put("picture", b"\x89PNG\0\0\xff");
    let text = fixture.text("read_file", json!({ "path": "picture" })).await;
    assert_eq!(text, "[picture is a binary file of 7 bytes; its content is not shown]");
    fixture.put("latin", b"caf\xe9\n");
    let text = fixture.text("read_file", json!({ "path": "latin" })).await;
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
        let mut fixture = Fixture::open().await;
        fixture.put("f", old);
        let input = json!({ "path": "f", "old_string": from, "new_string": to });
        let output = fixture.succeed("replace", input).await;
        assert_eq!(fixture.file("f"), new);
        let diff = output.diff.unwrap();
        assert_eq!((diff.old.as_deref(), diff.new.as_str()), (Some(old), new));
    }
}

#[tokio::test]
async fn a_replacement_that_is_not_exact_changes_nothing() {
    let mut fixture = Fixture::open().await;
    fixture.put("f", "a a a");
    let replace = |from: &str, count: usize| json!({ "path": "f", "old_string": from, "new_string": "b", "expected_replacements": count });
    let failure = fixture.fail("replace", replace("a", 1)).await;
    assert_eq!(failure.kind, "match_count");
    assert!(failure.message.contains("found 3 times, expected once"), "{}", failure.message);
    let failure = fixture.fail("replace", replace("x", 1)).await;
    assert!(failure.message.contains("found 0 times"), "{}", failure.message);
    assert_eq!(fixture.file("f"), "a a a");
    fixture.succeed("replace", replace("a", 3)).await;
    assert_eq!(fixture.file("f"), "b b b");
    let missing = json!({ "path": "g", "old_string": "a", "new_string": "b" });
    assert_eq!(fixture.fail("replace", missing).await.kind, "not_found");
}

#[tokio::test]
async fn binary_files_are_never_edited() {
    for bytes in [&b"caf\xe9 x"[..], &b"x\0y"[..], &[0xff, 0xfe, b'x', 0][..]] {
        let mut fixture = Fixture::open().await;
        fixture.put("f", bytes);
        let input = json!({ "path": "f", "old_string": "x", "new_string": "y" });
        assert_eq!(fixture.fail("replace", input).await.kind, "not_text");
        let input = json!({ "path": "f", "content": "y" });
        assert_eq!(fixture.fail("write_file", input).await.kind, "not_text");
        assert_eq!(std::fs::read(fixture.root().join("f")).unwrap(), bytes);
    }
}

#[tokio::test]
async fn the_persons_edit_is_written() {
    let mut fixture = Fixture::asking().await;
    fixture.put("f", "\u{feff}one\r\n");
    fixture.start("write_file", json!({ "path": "f", "content": "two" })).await;
    let (call, details) = fixture.question().await;
    let Details::Edit(diff) = details else { panic!("{details:?}") };
    assert_eq!(diff.old.as_deref(), Some("\u{feff}one\r\n"));
    let digest = loggia_agent::workspace::digest("\u{feff}one\r\n".as_bytes());
    assert_eq!(diff.old_digest, digest, "the digest is that of the bytes");
    let edit = Edit::File { content: "three\n".into() };
    fixture.answer(&call, "proceed_once", Some(edit)).await;
    let CallOutcome::Succeeded { output } = fixture.outcome().await else { panic!() };
    assert_eq!(output.diff.unwrap().new, "three\n");
    assert_eq!(fixture.file("f"), "three\n");
}

#[tokio::test]
async fn a_link_to_a_protected_directory_is_shown_with_its_target() {
    let mut fixture = Fixture::asking().await;
    std::fs::create_dir_all(fixture.root().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", fixture.root().join("docs")).unwrap();
    fixture.start("write_file", json!({ "path": "docs/post-commit", "content": "x" })).await;
    let (_, details) = fixture.question().await;
    let Details::Edit(diff) = details else { panic!("{details:?}") };
    assert_eq!(diff.path, ".git/hooks/post-commit");
    assert!(diff.protected);
}

#[tokio::test]
async fn a_directory_is_listed_one_name_per_line() {
    let mut fixture = Fixture::open().await;
    fixture.put("b.txt", "12345");
    fixture.put("a/x", "");
    fixture.put("line\nbreak", "1");
    std::os::unix::fs::symlink("b.txt", fixture.root().join("link")).unwrap();
    let text = fixture.text("list_directory", json!({})).await;
    assert_eq!(text, "a/\nb.txt (5 bytes)\nline\\nbreak (1 byte)\nlink -> b.txt\n");
    assert_eq!(fixture.text("list_directory", json!({ "path": "a" })).await, "x (0 bytes)\n");
    assert_eq!(
        fixture.fail("list_directory", json!({ "path": "b.txt" })).await.kind,
        "not_a_directory"
    );
    assert_eq!(fixture.fail("list_directory", json!({ "path": "none" })).await.kind, "not_found");
}

#[tokio::test]
async fn wrong_inputs_name_the_field() {
    let mut fixture = Fixture::open().await;
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
        let failure = fixture.fail(tool, input.clone()).await;
        assert_eq!(failure.kind, "invalid_input", "{tool} {input}");
        assert!(failure.message.contains(field), "{tool} {input}: {}", failure.message);
    }
}
