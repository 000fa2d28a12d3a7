//! `cargo xtask size`: lines, comments, files and locks of the product, for docs/contributing/size.md.
//!
//! The product is the Rust code in `src` of each crate, without unit tests and without the crates that only tests use.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;

use anyhow::Context;

use crate::step;

const TEST_CRATES: &[&str] = &["loggia-testkit", "loggia-fake-vendors"];

#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    code: usize,
    comments: usize,
    files: usize,
    /// Types that contain a `Mutex` or `RwLock`.
    locks: usize,
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.files += other.files;
        self.locks += other.locks;
    }
}

pub fn run() -> anyhow::Result<()> {
    let mut sizes = BTreeMap::new();
    for entry in std::fs::read_dir(step::root().join("crates")).context("cannot read crates")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !TEST_CRATES.contains(&name.as_str()) && path.join("src").is_dir() {
            sizes.insert(name, measure(&path.join("src"))?);
        }
    }
    let mut all = Size::default();
    sizes.values().for_each(|size| all += *size);
    sizes.insert("total".to_owned(), all);
    println!("| crate | code | comments | files | locks |\n|---|---:|---:|---:|---:|");
    for (name, size) in sizes {
        let Size { code, comments, files, locks } = size;
        println!("| {name} | {code} | {comments} | {files} | {locks} |");
    }
    Ok(())
}

fn measure(directory: &Path) -> anyhow::Result<Size> {
    let mut size = Size::default();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            size += measure(&path)?;
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") && name != "tests.rs" {
            size += count(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(size)
}

/// Counts up to the unit tests at the end of the file, without blank lines.
fn count(text: &str) -> Size {
    let mut tests = text.match_indices("#[cfg(test)]").map(|(at, _)| text.split_at(at));
    let inline = |rest: &str| {
        let module = rest.lines().find(|line| line.starts_with("mod "));
        module.is_some_and(|line| line.ends_with('{'))
    };
    let product = tests.find(|(_, rest)| inline(rest)).map_or(text, |(code, _)| code);
    let mut size = Size { files: 1, ..Size::default() };
    for line in product.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("//") {
            size.comments += 1;
        } else {
            size.code += 1;
            size.locks += line.matches("Mutex<").count() + line.matches("RwLock<").count();
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_not_code() {
        let text = "//! Doc.\n\nstruct A(Mutex<u8>);\n// Why.\n#[cfg(test)]\nmod a_tests;\nfn b() {}\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(count(text), Size { code: 4, comments: 2, files: 1, locks: 1 });
    }
}
