//! Finds the imports in a memory file: words that start with `@`, outside code, as in Claude Code and
//! Gemini CLI. Reads no files.

/// The words behind `@`, in order. They may be something else, such as a person's name.
pub fn imports(text: &str) -> Vec<&str> {
    let mut fence: Option<(char, usize)> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        match (fence, fence_of(line)) {
            (None, Some((mark, length, _))) => fence = Some((mark, length)),
            (Some((open, least)), Some((mark, length, true)))
                if mark == open && length >= least =>
            {
                fence = None;
            }
            (None, None) => {
                let words = outside_code(line).into_iter().flat_map(str::split_whitespace);
                found.extend(words.filter_map(|word| word.strip_prefix('@').filter(is_path)));
            }
            (Some(_), _) => {}
        }
    }
    found
}

/// A word without the punctuation of the sentence around it.
pub fn without_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '*'])
}

/// Whether a missing file is worth a remark. `@alice` is more likely a person.
pub fn looks_like_file(word: &str) -> bool {
    without_punctuation(word).contains(['/', '.'])
}

fn is_path(word: &&str) -> bool {
    word.starts_with(|first: char| first.is_alphanumeric() || "._/~".contains(first))
}

/// The mark of a line that opens or closes a code block, its length, and whether nothing follows it.
fn fence_of(line: &str) -> Option<(char, usize, bool)> {
    // A code block may begin in a list or a quotation.
    let line = line.trim_start_matches([' ', '\t', '-', '*', '+', '>']);
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let after = line.trim_start_matches(mark);
    let length = line.len() - after.len();
    // "``` a `b` ```" in one line is a code span.
    let opens = length >= 3 && (mark == '~' || !after.contains('`'));
    opens.then(|| (mark, length, after.trim().is_empty()))
}

/// The parts of a line that are not in code spans.
fn outside_code(line: &str) -> Vec<&str> {
    let mut outside = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('`') {
        outside.push(before);
        let inside = after.trim_start_matches('`');
        let ticks = 1 + after.len() - inside.len();
        rest = after_run(inside, ticks).unwrap_or(inside);
    }
    outside.push(rest);
    outside
}

/// The text after the next run of exactly so many backticks.
fn after_run(text: &str, ticks: usize) -> Option<&str> {
    let mut rest = text;
    loop {
        let run = rest.get(rest.find('`')?..)?;
        let after = run.trim_start_matches('`');
        if run.len() - after.len() == ticks {
            return Some(after);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_words_outside_code() {
        let cases: [(&str, &[&str]); 14] = [
            ("@a.md", &["a.md"]),
            ("See @docs/a.md, and @./b.", &["docs/a.md,", "./b."]),
            ("- @../x\n\t@/y @~/z", &["../x", "/y", "~/z"]),
            ("mail a@b.c or (@no", &[]),
            ("@ @@x @-y @*", &[]),
            ("`@a` @b ``@c ` @d`` @e", &["b", "e"]),
            ("an open ` @a", &["a"]),
            ("```\n@a\n```\n@b", &["b"]),
            ("~~~ text\n@a\n```\n@b\n~~~~\n@c", &["c"]),
            ("````\n```\n@a\n````\n@b", &["b"]),
            ("```rust\n@a\n```rust\n@b", &[]),
            ("``` @a ``` @b", &["b"]),
            ("  - ```\n    @a\n    ```", &[]),
            ("@ä.md", &["ä.md"]),
        ];
        for (text, expected) in cases {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    #[test]
    fn a_sentence_ends_behind_a_path() {
        for word in ["a.md", "a.md.", "a.md).", "a.md**:"] {
            assert_eq!(without_punctuation(word), "a.md");
        }
        assert!(looks_like_file("a/b") && looks_like_file("b.md,") && !looks_like_file("alice."));
    }
}
