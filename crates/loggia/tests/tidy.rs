//! The rules of ARCHITECTURE.md and AGENTS.md that a machine can check.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use sha2::{Digest, Sha256};

/// The dependencies between our own crates. The binary may depend on all of them.
const EDGES: &[(&str, &[&str])] = &[
    ("loggia-core", &[]),
    ("loggia-shell", &["loggia-core"]),
    ("loggia-session", &["loggia-core", "loggia-shell"]),
    ("loggia-store", &["loggia-core", "loggia-session"]),
    ("loggia-wire", &["loggia-core", "loggia-shell"]),
    ("loggia-models", &["loggia-core"]),
    ("loggia-agent", &["loggia-core", "loggia-models", "loggia-session"]),
    ("loggia-server", &["loggia-core", "loggia-session", "loggia-wire"]),
    ("loggia-tui", &["loggia-core", "loggia-session"]),
    ("loggia-testkit", &["loggia-core", "loggia-session", "loggia-store"]),
    ("loggia-fake-vendors", &[]),
];

/// The external dependencies of the core. None of them has a runtime, randomness or locks.
const CORE_DEPENDENCIES: &[&str] = &["serde", "serde_json", "sha2", "similar", "thiserror", "uuid"];
/// The packages that those depend on in turn.
const CORE_INDIRECT: &[&str] = &[
    // serde_json
    "itoa",
    "memchr",
    "serde_core",
    "zmij",
    // sha2; libc only on ARM, where it says what the processor can do
    "block-buffer",
    "cfg-if",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "libc",
    "typenum",
    // derive macros, which run at compile time only
    "proc-macro2",
    "quote",
    "serde_derive",
    "syn",
    "thiserror-impl",
    "unicode-ident",
];

/// Parts of `std::env` that do not read variables.
const HARMLESS: &[&str] =
    &["args", "args_os", "split_paths", "join_paths", "current_exe", "temp_dir", "consts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.join("Cargo.toml").exists()).collect()
}

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every Rust file of the crates: path from the root, and text.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    for path in crates() {
        folders.iter().for_each(|folder| files_below(&path.join(folder), &mut paths));
    }
    let shown = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    paths.iter().map(|path| (shown(path), fs::read_to_string(path).unwrap())).collect()
}

/// The lines without comments. A string that contains `//` is cut, which is fine for finding names.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = |line| str::split(line, "//").next().unwrap_or_default();
    text.lines().map(code).enumerate().map(|(index, line)| (index + 1, line))
}

fn assert_none(mut found: Vec<String>, rule: &str) {
    found.sort();
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let mut found = Vec::new();
    for path in crates() {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap();
        if name == "loggia" {
            continue;
        }
        let Some((_, drawn)) = EDGES.iter().find(|(drawn, _)| *drawn == name) else {
            found.push(format!("{name} is not drawn"));
            continue;
        };
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let ours = manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten();
            for (dependency, _) in ours.filter(|(name, _)| name.starts_with("loggia")) {
                // Tests of every crate may use the testkit, the fake vendors and the shell parser.
                let testing = section == "dev-dependencies"
                    && (name == "loggia-testkit"
                        || matches!(
                            dependency.as_str(),
                            "loggia-testkit" | "loggia-fake-vendors" | "loggia-shell"
                        ));
                if !testing && !drawn.contains(&dependency.as_str()) {
                    found.push(format!("{name} -> {dependency} ({section})"));
                }
            }
        }
        assert!(!manifest.contains_key("features"), "{name} has cargo features");
    }
    assert_none(found, "edges that ARCHITECTURE.md does not draw");
}

#[test]
fn the_core_depends_on_listed_packages_only() {
    // Cargo resolves features for this package alone, so a feature that another crate turns on is
    // not counted here.
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "loggia-core", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let packages = tree.lines().filter_map(|line| line.split(' ').next());
    let packages: BTreeSet<&str> = packages.filter(|name| *name != "loggia-core").collect();
    assert!(CORE_DEPENDENCIES.iter().all(|name| packages.contains(name)), "{packages:?}");
    let listed = |name: &str| CORE_DEPENDENCIES.contains(&name) || CORE_INDIRECT.contains(&name);
    let found = packages.into_iter().filter(|name| !listed(name)).map(str::to_owned);
    assert_none(
        found.collect(),
        "loggia-core depends on packages that are not on the list in this file. Add a package only if \
         it has no runtime, randomness or locks",
    );
}

#[test]
fn every_channel_is_bounded() {
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        let lines = code_lines(&text).filter(|(_, line)| line.contains("unbounded"));
        found.extend(lines.map(|(number, line)| format!("{path}:{number}: {}", line.trim())));
    }
    assert_none(found, "unbounded channels");
}

#[test]
fn the_environment_is_read_in_one_place() {
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        if path == "crates/loggia/src/config/environment.rs" {
            continue;
        }
        for (number, line) in code_lines(&text) {
            for rest in line.split("env::").skip(1) {
                let name: String = rest
                    .chars()
                    .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                    .collect();
                if !HARMLESS.contains(&name.as_str()) {
                    found.push(format!("{path}:{number}: {}", line.trim()));
                }
            }
        }
    }
    assert_none(found, "the environment is read outside of loggia::config");
}

/// Untrusted text goes through `style::say` or `style::printable`: a print in the binary that
/// formats a value must use one of them.
#[test]
fn printed_values_are_escaped() {
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        if !path.starts_with("crates/loggia/src/") || path.ends_with("/style.rs") {
            continue;
        }
        for (at, _) in text.match_indices("println!(") {
            let print = text.get(at..).unwrap().split(';').next().unwrap_or_default();
            if print.contains('{') {
                let line = text.get(..at).unwrap().lines().count();
                found.push(format!(
                    "{path}:{line}: use style::say, or writeln! with style::one_line"
                ));
            }
        }
    }
    assert_none(found, "prints of values that may hold control characters");
}

#[test]
fn modules_are_named_files() {
    let found = sources(&["src", "tests", "benches"]).into_iter().map(|(path, _)| path);
    assert_none(found.filter(|path| path.ends_with("/mod.rs")).collect(), "mod.rs files");
}

#[test]
fn every_crate_says_what_it_is_for() {
    let crate_roots = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let silent = sources(&["src"])
        .into_iter()
        .filter(|(path, text)| crate_roots(path) && !text.starts_with("//! "));
    assert_none(silent.map(|(path, _)| path).collect(), "crates without a module doc");
}

#[test]
fn the_project_has_its_files() {
    let wanted = [
        "README.md",
        "README.zh-CN.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE",
        "AGENTS.md",
        "deny.toml",
        "clippy.toml",
        "rustfmt.toml",
        ".ci/run",
        "docs/README.md",
        "docs/configuration.md",
        "docs/reference/configuration.md",
    ];
    let missing = wanted.into_iter().filter(|name| !root().join(name).is_file());
    assert_none(missing.map(str::to_owned).collect(), "files that a newcomer looks for");
}

/// Secrets are compared in constant time: they have no `==` and cannot be formatted.
#[test]
fn a_secret_cannot_be_compared_or_shown() {
    let path = root().join("crates/loggia-server/src/auth/secret.rs");
    let text = fs::read_to_string(path).unwrap();
    let (before, _) = text.split_once("pub struct Secret(").expect("the type is there");
    let above = before.lines().rev().take_while(|line| !line.is_empty());
    let derived = above.filter(|line| line.contains("derive")).map(str::to_owned);
    let traits = ["PartialEq", "Debug", "Display", "Serialize", "Deref", "Clone"];
    let written = traits.iter().filter(|name| text.contains(&format!("{name} for Secret ")));
    let found = derived.chain(written.map(|name| format!("impl {name} for Secret")));
    assert_none(found.collect(), "traits that a secret must not have");
}

/// The protocols are described in `loggia-wire`; the server asks a `View` or an `Endpoint`. A new version is a row of the
/// routing table.
#[test]
fn the_server_names_no_protocol_version() {
    const ROUTES: &str = "crates/loggia-server/src/http/routes.rs";
    let names = [
        "Dialect",
        "A2aVersion",
        "a2a03",
        "a2a1",
        "proto03",
        "coder::",
        "a2a.v1",
        "View::A2A",
        "View::PROTO",
        "View::SDLC",
        "View::LEGACY",
        "View::CODER",
        "= View {",
    ];
    // JSON-RPC has a version of its own.
    let version = Regex::new(r#"/a2a/[0-9]+\.[0-9]|"[0-9]+\.[0-9]+""#).unwrap();
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        if !path.starts_with("crates/loggia-server/") || path == ROUTES {
            continue;
        }
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let named = |line: &str| {
            let line = line.replace(r#""jsonrpc": "2.0""#, "");
            names.iter().any(|name| line.contains(name)) || version.is_match(&line)
        };
        let lines = code_lines(product).filter(|(_, line)| named(line));
        found.extend(lines.map(|(number, line)| format!("{path}:{number}: {}", line.trim())));
    }
    assert_none(found, "protocol versions in loggia-server outside of its routing table");
}

/// Conformance kits are satisfied by configuration, models and hooks, never by the product. Prompts
/// are created in one place only, because another one could skip the prompt hook.
#[test]
fn a_prompt_enters_a_session_through_the_hook() {
    let prompts = ["Command::Prompt", "Command::Shell", "Command::Screened", "Command::from("];
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        let server = path.starts_with("crates/loggia-server/");
        if !server || path.ends_with("/hook.rs") {
            continue;
        }
        for (number, line) in code_lines(&text) {
            // `ClientCommand` is what a client sent: the hook has yet to check it.
            let line = line.replace("ClientCommand::", "");
            if prompts.iter().any(|prompt| line.contains(prompt)) {
                found.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert_none(found, "prompts that do not pass crates/loggia-server/src/hook.rs");
}

/// Every other module uses the port `Store`, so that another store needs a change in one file only.
#[test]
fn only_the_composition_names_the_kind_of_store() {
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        let binary = path.starts_with("crates/loggia/") && path != "crates/loggia/src/compose.rs";
        let lines = code_lines(&text).filter(|(_, line)| binary && line.contains("loggia_store"));
        found.extend(lines.map(|(number, line)| format!("{path}:{number}: {}", line.trim())));
    }
    assert_none(found, "uses of loggia-store outside of crates/loggia/src/compose.rs");
}

#[test]
fn the_product_knows_no_test() {
    const NAMES: &[&str] = &["tck-", "test-resubscribe", "itk-"];
    let mut found = Vec::new();
    for (path, text) in sources(&["src"]) {
        let named = NAMES.iter().filter(|name| text.to_lowercase().contains(**name));
        found.extend(named.map(|name| format!("{path}: {name}")));
    }
    assert_none(found, "names of a conformance kit's tests in the product");
}

/// Tests named in the documents exist.
#[test]
fn the_documents_name_tests_that_exist() {
    let page =
        fs::read_to_string(root().join("docs/contributing/terminal-expectations.md")).unwrap();
    let all = sources(&["src", "tests"]);
    let is_test = |module: &str, name: &str| {
        let fits = |path: &str| {
            let file = path.rsplit('/').next().unwrap_or_default();
            file == format!("{module}.rs") || file == format!("{module}_tests.rs")
        };
        let defined = format!("fn {name}(");
        all.iter().any(|(path, text)| fits(path) && text.contains(&defined))
    };
    let named = page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::"));
    let missing = named.filter(|(module, name)| !is_test(module, name));
    let missing = missing.map(|(module, name)| format!("{module}::{name}")).collect();
    assert_none(missing, "docs/contributing/terminal-expectations.md names what is not there");
    let pictures = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let missing =
        pictures.filter(|(path, _)| !root().join("docs/contributing").join(path).is_file());
    assert_none(missing.map(|(path, _)| path.to_owned()).collect(), "pictures that are not there");
}

/// A translation contains the digest of its original, so that a change is noticed.
#[test]
fn translations_follow_their_originals() {
    const TRANSLATED: &[(&str, &str)] = &[("README.md", "README.zh-CN.md")];
    for (original, translation) in TRANSLATED {
        let text = fs::read(root().join(original)).unwrap();
        let digest =
            Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let translated = fs::read_to_string(root().join(translation)).unwrap();
        assert!(
            translated.contains(&digest),
            "{original} has changed since {translation} was written: translate the change, then \
             set the digest in its first line to {digest}"
        );
    }
}

fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in
        ["", "docs", "docs/protocols", "docs/reference", "docs/contributing", "interop"]
    {
        let Ok(entries) = fs::read_dir(root().join(directory)) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        found.extend(
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    found
}

/// The anchor of a heading: lower-case letters and digits, a dash for each space.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
        _ => None,
    });
    kept.collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut found = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (target, _) in targets.filter(|(target, _)| !target.contains("://")) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let shown = page.strip_prefix(root()).unwrap().display().to_string();
            let Ok(linked) = fs::read_to_string(&file) else {
                if !file.exists() {
                    found.push(format!("{shown}: {target}"));
                }
                continue;
            };
            let headings = linked.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
            if !heading.is_empty() && !anchors.any(|anchor| anchor == heading) {
                found.push(format!("{shown}: {target}"));
            }
        }
    }
    assert_none(found, "links that lead nowhere");
}
