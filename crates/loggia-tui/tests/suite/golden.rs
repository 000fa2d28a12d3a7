//! The golden logs of the core in the transcript view.

use std::fs;
use std::path::PathBuf;

use loggia_core::{Cell, Envelope, Transcript};

use super::snapshot_text::Screen;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../loggia-core/tests/golden"))
}

/// The cells after each event of a log.
fn folds(name: &str) -> Vec<Vec<Cell>> {
    let text = fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    let mut transcript = Transcript::default();
    let fold = |line: &str| {
        let envelope: Envelope = serde_json::from_str(line).unwrap();
        transcript.apply(&envelope);
        transcript.cells().to_vec()
    };
    text.lines().map(fold).collect()
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn golden_logs_on_the_screen() {
    for name in names() {
        let cells = folds(&name).pop().unwrap();
        let mut rows = Screen::new(72, 60).rows(&cells);
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        insta::assert_snapshot!(format!("golden_{name}"), rows.join("\n"));
    }
}

/// Following a log and opening it at its end show the same.
#[test]
fn following_a_log_ends_where_opening_it_starts() {
    for name in names() {
        for (width, height) in [(72, 20), (30, 8), (10, 3)] {
            let mut screen = Screen::new(width, height);
            let folds = folds(&name);
            for cells in &folds {
                screen.rows(cells);
            }
            let cells = folds.last().unwrap();
            assert_eq!(screen.rows(cells), Screen::new(width, height).rows(cells), "{name}");
        }
    }
}
