//! Describes a workspace from its files: languages, directories, build systems and their commands.
//!
//! The same files always give the same text. Limited in entries, time and bytes; blocks.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::workspace::{WalkEnd, WalkLimits, Workspace, WorkspaceError, WorkspacePath, shown};

const ENTRIES: usize = 50_000;
const TIME: Duration = Duration::from_secs(5);
/// Bytes of a manifest that is read.
const MANIFEST: u64 = 256 * 1024;
/// Directories, languages and commands that are listed.
const NAMED: usize = 12;

/// A build file, its build system, and its usual commands.
const BUILDS: [(&str, &str, &[&str]); 12] = [
    ("Cargo.toml", "Cargo", &["cargo build", "cargo test", "cargo clippy", "cargo fmt"]),
    ("package.json", "npm", &[]),
    ("pyproject.toml", "Python", &[]),
    ("setup.py", "Python", &[]),
    ("go.mod", "Go", &["go build ./...", "go test ./...", "go vet ./..."]),
    ("Makefile", "make", &[]),
    ("justfile", "just", &["just --list"]),
    ("CMakeLists.txt", "CMake", &["cmake -B build", "cmake --build build"]),
    ("pom.xml", "Maven", &["mvn package", "mvn test"]),
    ("build.gradle", "Gradle", &["gradle build", "gradle test"]),
    ("build.gradle.kts", "Gradle", &["gradle build", "gradle test"]),
    ("Gemfile", "Bundler", &["bundle install"]),
];

const LANGUAGES: [(&str, &str); 26] = [
    ("rs", "Rust"),
    ("py", "Python"),
    ("js", "JavaScript"),
    ("mjs", "JavaScript"),
    ("jsx", "JavaScript"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("go", "Go"),
    ("java", "Java"),
    ("kt", "Kotlin"),
    ("c", "C"),
    ("h", "C"),
    ("cc", "C++"),
    ("cpp", "C++"),
    ("hpp", "C++"),
    ("cs", "C#"),
    ("rb", "Ruby"),
    ("php", "PHP"),
    ("swift", "Swift"),
    ("sh", "shell"),
    ("sql", "SQL"),
    ("html", "HTML"),
    ("css", "CSS"),
    ("md", "Markdown"),
    ("toml", "TOML"),
    ("json", "JSON"),
];

pub struct ProjectScan {
    name: String,
    /// The first heading of the README.
    title: Option<String>,
    files: usize,
    directories: BTreeMap<String, usize>,
    languages: BTreeMap<&'static str, usize>,
    builds: Vec<Build>,
    end: WalkEnd,
}

struct Build {
    file: &'static str,
    system: &'static str,
    commands: Vec<String>,
}

impl ProjectScan {
    pub fn of(workspace: &Workspace, stop: CancellationToken) -> Result<Self, WorkspaceError> {
        let name = workspace.path().file_name().unwrap_or_default();
        let mut scan = Self {
            name: shown(&name.to_string_lossy()),
            title: None,
            files: 0,
            directories: BTreeMap::new(),
            languages: BTreeMap::new(),
            builds: Vec::new(),
            end: WalkEnd::Complete,
        };
        let limits = WalkLimits { entries: ENTRIES, deadline: Instant::now() + TIME, stop };
        let walked = workspace.walk(&WorkspacePath::root(), &limits, &mut |entry| {
            scan.count(entry.path);
            ControlFlow::Continue(())
        })?;
        scan.end = walked.end;
        scan.title = ["README.md", "README", "readme.md"]
            .iter()
            .find_map(|name| text_of(workspace, name))
            .and_then(|text| title_of(&text));
        for (file, system, commands) in BUILDS {
            if let Some(text) = text_of(workspace, file) {
                let mut commands: Vec<String> =
                    commands.iter().map(|command| (*command).to_owned()).collect();
                commands.extend(commands_in(file, &text));
                scan.builds.push(Build { file, system, commands });
            }
        }
        Ok(scan)
    }

    pub fn complete(&self) -> bool {
        self.end == WalkEnd::Complete
    }

    fn count(&mut self, path: &std::path::Path) {
        self.files += 1;
        let mut parts = path.components();
        if let (Some(first), Some(_)) = (parts.next(), parts.next()) {
            let name = shown(&first.as_os_str().to_string_lossy());
            *self.directories.entry(name).or_default() += 1;
        }
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let known = |ending: &String| LANGUAGES.iter().find(|(known, _)| known == ending);
        if let Some((_, language)) = ending.as_ref().and_then(known) {
            *self.languages.entry(language).or_default() += 1;
        }
    }
}

fn text_of(workspace: &Workspace, name: &str) -> Option<String> {
    let path = workspace.locate(name).ok()?;
    let mut file = workspace.open_file(&path).ok()?;
    String::from_utf8(file.read_whole(&path, MANIFEST).ok()?).ok()
}

fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let title: String = line.trim_start_matches('#').trim().chars().take(80).collect();
    (!title.is_empty()).then(|| shown(&title))
}

/// Commands that a manifest defines. Only plain names, because they are written as code.
fn commands_in(file: &str, text: &str) -> Vec<String> {
    let plain = |name: &&str| {
        name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter))
            && name.len() <= 40
    };
    match file {
        "package.json" => {
            let manifest: Value = serde_json::from_str(text).unwrap_or_default();
            let scripts = manifest.get("scripts").and_then(Value::as_object);
            let names = scripts.into_iter().flat_map(|scripts| scripts.keys().map(String::as_str));
            let names = names.filter(plain).map(|name| format!("npm run {name}"));
            std::iter::once("npm install".to_owned()).chain(names).take(NAMED).collect()
        }
        "Makefile" => {
            let targets = text.lines().filter_map(|line| {
                let (name, rest) = line.split_once(':')?;
                (!rest.starts_with('=')).then_some(name)
            });
            targets.filter(plain).map(|name| format!("make {name}")).take(NAMED).collect()
        }
        "pyproject.toml" => {
            let pytest = text.contains("pytest");
            pytest.then(|| "pytest".to_owned()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The largest first, then the number of the others.
fn largest(counts: &[(String, usize)]) -> String {
    let mut counts: Vec<&(String, usize)> = counts.iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let named = counts.iter().take(NAMED).map(|(name, count)| format!("{name} ({count})"));
    let mut named: Vec<String> = named.collect();
    let more = counts.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

impl fmt::Display for ProjectScan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "# Notes for agents\n")?;
        writeln!(
            out,
            "A first draft by `/init`, made from the files only. Correct it, and add what the files do not\n\
             show.\n"
        )?;
        writeln!(out, "## Overview\n")?;
        match &self.title {
            Some(title) => writeln!(out, "- `{}`: {title}", self.name)?,
            None => writeln!(out, "- `{}`", self.name)?,
        }
        let more = if self.complete() { "" } else { " or more" };
        let files = if self.files == 1 { "file" } else { "files" };
        writeln!(out, "- {}{more} {files}, without files that git ignores", self.files)?;
        let languages: Vec<(String, usize)> =
            self.languages.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        if !languages.is_empty() {
            writeln!(out, "- by kind: {}", largest(&languages))?;
        }
        let directories: Vec<(String, usize)> =
            self.directories.iter().map(|(name, count)| (format!("`{name}/`"), *count)).collect();
        if !directories.is_empty() {
            writeln!(out, "- by directory: {}", largest(&directories))?;
        }
        writeln!(out, "\n## Build and test\n")?;
        if self.builds.is_empty() {
            writeln!(out, "- no build system was recognised")?;
        }
        for Build { file, system, commands } in &self.builds {
            let commands: Vec<String> =
                commands.iter().map(|command| format!("`{command}`")).collect();
            match commands.is_empty() {
                true => writeln!(out, "- {system} (`{file}`)")?,
                false => writeln!(out, "- {system} (`{file}`): {}", commands.join(", "))?,
            }
        }
        writeln!(out, "\n## Conventions\n")?;
        writeln!(out, "- (none found)")
    }
}

#[cfg(test)]
#[path = "project_scan_tests.rs"]
mod tests;
