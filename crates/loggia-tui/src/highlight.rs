//! Syntax highlighting, line by line.
//!
//! A code block keeps its state ([`Code`]), so that each line is highlighted once, even while the
//! block grows. Grammars classify text ([`Syntax`]); the theme chooses colours. Lines and blocks
//! beyond the limits are shown plain.
//!
//! Loading the common grammars takes half a second, which must not delay the first frame:
//! [`Highlighter::when_ready`] shows plain code until [`warm`] has run on another thread, and
//! [`Highlighter::waiting`] loads on use.

use std::sync::OnceLock;

use ratatui::text::Span;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::safe::printable;
use crate::theme::{Depth, Syntax, Theme};

/// Maximum length of a highlighted line in bytes.
const LONGEST_LINE: usize = 1_000;
/// Maximum number of highlighted lines and bytes of a block.
const MOST_LINES: usize = 5_000;
const MOST_BYTES: usize = 256 * 1024;

/// The grammars, loaded once per process.
static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
/// Set after [`warm`].
static WARM: OnceLock<()> = OnceLock::new();

struct Grammars {
    syntaxes: SyntaxSet,
    meanings: Vec<(Scope, Syntax)>,
}

/// Maps scope names to classes. The first match of the innermost scope wins.
const MEANINGS: &[(&str, Syntax)] = &[
    ("comment", Syntax::Comment),
    ("constant.character.escape", Syntax::Escape),
    ("string", Syntax::Text),
    ("constant", Syntax::Number),
    ("keyword.operator", Syntax::Plain),
    ("keyword", Syntax::Keyword),
    ("storage", Syntax::Keyword),
    ("variable.language", Syntax::Keyword),
    ("variable.function", Syntax::Function),
    ("variable", Syntax::Name),
    ("entity.name.function", Syntax::Function),
    ("support.function", Syntax::Function),
    ("support.macro", Syntax::Function),
    ("entity.name.tag", Syntax::Keyword),
    ("entity.name.section", Syntax::Heading),
    ("entity.name", Syntax::Type),
    ("support", Syntax::Type),
    ("entity.other.attribute-name", Syntax::Attribute),
    ("meta.annotation", Syntax::Attribute),
    ("markup.heading", Syntax::Heading),
    ("markup.inserted", Syntax::Text),
    ("markup.deleted", Syntax::Invalid),
    ("invalid", Syntax::Invalid),
    // Code inside a string starts again as plain.
    ("source", Syntax::Plain),
];

fn grammars() -> &'static Grammars {
    GRAMMARS.get_or_init(|| {
        let meaning = |(name, kind): &(&str, Syntax)| Scope::new(name).ok().map(|it| (it, *kind));
        let meanings = MEANINGS.iter().filter_map(meaning).collect();
        Grammars { syntaxes: two_face::syntax::extra_newlines(), meanings }
    })
}

/// Loads the grammars and the common languages. Blocks for about half a second: call it on another
/// thread after the first frame.
pub fn warm() {
    let theme = Theme::default();
    let highlighter = Highlighter::waiting();
    let samples = [
        ("rust", "pub fn main() -> Result<(), E> { let x: u8 = 1; println!(\"a{x}\\n\"); } // c"),
        ("python", "@d\ndef f(a: int = 1) -> str:\n    return f\"{a}\"  # c"),
        ("typescript", "export const f = async (a: number): Promise<T> => `${a}`; // c"),
        ("javascript", "const f = (a) => `${a}` + /x/.test('y'); // c"),
        ("sh", "for f in *.txt; do echo \"$f\" | grep -v 'x' > /dev/null; done # c"),
        ("json", "{\"a\": [1, true, null, \"x\\n\"]}"),
        ("toml", "[a]\nb = \"c\" # d"),
        ("yaml", "a: [1, \"b\"] # c\n- d: e"),
        ("diff", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b"),
    ];
    for (language, text) in samples {
        let mut code = highlighter.code(language, &theme);
        text.lines().for_each(|line| drop(code.line(line, &theme)));
    }
    WARM.get_or_init(|| ());
}

/// How code is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highlighter {
    waits: bool,
}

impl Highlighter {
    /// Loads the grammars on first use.
    pub fn waiting() -> Self {
        Self { waits: true }
    }

    /// Shows plain code until the grammars are loaded.
    pub fn when_ready() -> Self {
        Self { waits: false }
    }

    pub fn is_ready(self) -> bool {
        self.waits || WARM.get().is_some()
    }

    /// Starts a code block in the language of a fence.
    pub fn code(self, language: &str, theme: &Theme) -> Code {
        let wanted = theme.depth != Depth::None && !language.is_empty();
        let grammars = match (wanted, self.waits) {
            (false, _) => None,
            (true, true) => Some(grammars()),
            (true, false) => WARM.get().and_then(|()| GRAMMARS.get()),
        };
        let state = grammars.and_then(|grammars| {
            let syntax = find(&grammars.syntaxes, language)?;
            Some(State { grammars, parse: ParseState::new(syntax), stack: ScopeStack::new() })
        });
        Code { state, lines: 0, bytes: 0 }
    }

    /// Starts a code block in the language of a file.
    pub fn file(self, path: &str, theme: &Theme) -> Code {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or(name, |(_, extension)| extension);
        let code = self.code(name, theme);
        if code.state.is_some() { code } else { self.code(extension, theme) }
    }
}

fn find<'a>(syntaxes: &'a SyntaxSet, language: &str) -> Option<&'a SyntaxReference> {
    let token = language.split([',', ' ', '{', ':']).next().unwrap_or_default();
    let token = match token {
        "" | "text" | "txt" | "plain" | "plaintext" | "output" => return None,
        "shell" | "console" | "shell-session" | "zsh" => "sh",
        "jsonc" | "json5" | "jsonl" => "json",
        "golang" => "go",
        "c++" => "cpp",
        "jsx" | "mjs" | "cjs" => "js",
        other => other,
    };
    syntaxes.find_syntax_by_token(token)
}

/// The highlighting state of a code block.
#[derive(Clone)]
pub struct Code {
    /// None: plain, from the start or beyond a limit.
    state: Option<State>,
    lines: usize,
    bytes: usize,
}

#[derive(Clone)]
struct State {
    grammars: &'static Grammars,
    parse: ParseState,
    stack: ScopeStack,
}

impl Code {
    /// Highlights the next line.
    pub fn line(&mut self, text: &str, theme: &Theme) -> Vec<Span<'static>> {
        let text = printable(text);
        self.lines += 1;
        self.bytes += text.len();
        let within =
            text.len() <= LONGEST_LINE && self.lines <= MOST_LINES && self.bytes <= MOST_BYTES;
        let spans = match &mut self.state {
            Some(state) if within => state.line(&text, theme),
            _ => None,
        };
        spans.unwrap_or_else(|| {
            self.state = None;
            vec![Span::raw(text.into_owned())]
        })
    }
}

impl State {
    /// None if the grammar fails.
    fn line(&mut self, text: &str, theme: &Theme) -> Option<Vec<Span<'static>>> {
        let line = format!("{text}\n");
        let operations = self.parse.parse_line(&line, &self.grammars.syntaxes).ok()?;
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut from = 0;
        let ends = operations.iter().map(|(at, _)| *at).chain([text.len()]);
        let mut steps = operations.iter().map(|(_, operation)| operation);
        for end in ends {
            let end = end.min(text.len());
            if end > from {
                let style = theme.syntax(self.meaning());
                let piece = text.get(from..end)?;
                match spans.last_mut() {
                    Some(span) if span.style == style => span.content.to_mut().push_str(piece),
                    _ => spans.push(Span::styled(piece.to_owned(), style)),
                }
                from = end;
            }
            if let Some(operation) = steps.next() {
                self.stack.apply(operation).ok()?;
            }
        }
        Some(spans)
    }

    fn meaning(&self) -> Syntax {
        let known = |scope: &Scope| {
            let fits = |(name, _): &&(Scope, Syntax)| name.is_prefix_of(*scope);
            self.grammars.meanings.iter().find(fits).map(|(_, kind)| *kind)
        };
        self.stack.as_slice().iter().rev().find_map(known).unwrap_or(Syntax::Plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Color;

    fn colors(language: &str, lines: &[&str]) -> Vec<Vec<(String, Option<Color>)>> {
        let theme = Theme::default();
        let mut code = Highlighter::waiting().code(language, &theme);
        let spans = |spans: Vec<Span<'static>>| {
            spans.iter().map(|span| (span.content.to_string(), span.style.fg)).collect()
        };
        lines.iter().map(|line| spans(code.line(line, &theme))).collect()
    }

    #[test]
    fn code_is_coloured_by_what_it_is() {
        let lines = colors("rust", &["let a = \"x\"; // y"]);
        let line: Vec<(&str, Option<Color>)> =
            lines[0].iter().map(|(text, color)| (text.trim(), *color)).collect();
        assert!(line.contains(&("let", Some(Color::Magenta))), "{line:?}");
        assert!(line.contains(&("\"x\"", Some(Color::Green))), "{line:?}");
    }

    #[test]
    fn a_comment_over_lines_stays_one() {
        let theme = Theme::default();
        let mut code = Highlighter::waiting().code("c", &theme);
        code.line("/* a", &theme);
        let inside = code.line("int b;", &theme);
        assert_eq!(inside[0].style, theme.syntax(Syntax::Comment));
    }

    #[test]
    fn names_of_languages_and_files_are_understood() {
        let theme = Theme::default();
        for language in [
            "rust",
            "rs",
            "Python",
            "py",
            "ts",
            "tsx",
            "bash",
            "shell",
            "json",
            "go",
            "c++",
            "toml",
            "yaml",
            "html",
            "css",
            "sql",
            "diff",
            "java",
            "rust,ignore",
            "kotlin",
        ] {
            let code = Highlighter::waiting().code(language, &theme);
            assert!(code.state.is_some(), "{language}");
        }
        for path in ["src/main.rs", "Makefile", "a/Dockerfile", "x.tsx", "Cargo.toml", "a.b.py"] {
            let code = Highlighter::waiting().file(path, &theme);
            assert!(code.state.is_some(), "{path}");
        }
        for language in ["", "text", "no-such-language"] {
            assert!(Highlighter::waiting().code(language, &theme).state.is_none(), "{language}");
        }
    }

    #[test]
    fn long_code_is_not_highlighted() {
        let long = "let x = 1;".repeat(200);
        let lines = colors("rust", &["let a = 1;", &long, "let b = 1;"]);
        assert!(lines[0].len() > 1);
        assert_eq!(lines[1], vec![(long, None)]);
        assert_eq!(lines[2], vec![("let b = 1;".to_owned(), None)]);
    }

    #[test]
    fn code_is_plain_until_the_grammars_are_ready() {
        let theme = Theme::default();
        let highlighter = Highlighter::when_ready();
        assert!(!highlighter.is_ready() && Highlighter::waiting().is_ready());
        assert!(highlighter.code("rust", &theme).state.is_none());
        warm();
        assert!(highlighter.is_ready());
        assert!(highlighter.code("rust", &theme).state.is_some());
    }

    #[test]
    fn without_colours_nothing_is_looked_up() {
        let theme = Theme::plain();
        assert!(Highlighter::waiting().code("rust", &theme).state.is_none());
    }
}
