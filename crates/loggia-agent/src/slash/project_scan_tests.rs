use super::*;

fn scan(files: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("demo");
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::create_dir_all(&root).unwrap();
    let workspace = Workspace::open(&root).unwrap();
    ProjectScan::of(&workspace, CancellationToken::new()).unwrap().to_string()
}

#[test]
fn the_scan_describes_the_files() {
    let text = scan(&[
        ("README.md", "\n# A demo of `things`\n\nmore\n"),
        ("Cargo.toml", "[package]\n"),
        ("src/main.rs", ""),
        ("src/lib.rs", ""),
        ("tests/a.rs", ""),
        ("web/index.ts", ""),
        (".gitignore", "target\n"),
        ("target/debug/x.rs", ""),
        ("package.json", r#"{ "scripts": { "test": "x", "rm -rf /": "y", "build": "z" } }"#),
        ("Makefile", "CC := gcc\nall: x\n\tcc\n.PHONY: all\ncheck: all\n$(X): y\n"),
    ]);
    let expected = "\
# Notes for agents

A first draft by `/init`, made from the files only. Correct it, and add what the files do not
show.

## Overview

- `demo`: A demo of `things`
- 9 files, without files that git ignores
- by kind: Rust (3), JSON (1), Markdown (1), TOML (1), TypeScript (1)
- by directory: `src/` (2), `tests/` (1), `web/` (1)

## Build and test

- Cargo (`Cargo.toml`): `cargo build`, `cargo test`, `cargo clippy`, `cargo fmt`
- npm (`package.json`): `npm install`, `npm run build`, `npm run test`
- make (`Makefile`): `make all`, `make check`

## Conventions

- (none found)
";
    assert_eq!(text, expected);
}

#[test]
fn an_empty_directory_has_a_short_description() {
    let text = scan(&[]);
    assert!(text.contains("- 0 files"), "{text}");
    assert!(text.contains("- no build system was recognised"), "{text}");
}

#[test]
fn a_file_name_cannot_break_the_text() {
    let text = scan(&[("a\nb/c.rs", ""), ("package.json", "[not json")]);
    assert!(text.lines().all(|line| !line.starts_with("b/")), "{text}");
    assert!(text.contains("npm (`package.json`): `npm install`"), "{text}");
}
