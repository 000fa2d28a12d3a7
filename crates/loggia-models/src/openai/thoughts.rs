//! Separates a summary of reasoning into its heading (a first line in bold type) and its text, while it
//! arrives.

use crate::request::Delta;

const MARK: &str = "**";
/// A first line longer than this is no heading.
const HEADING_LIMIT: usize = 200;

#[derive(Debug, Default)]
pub struct Thoughts {
    /// The beginning of a part, until it is known whether it is a heading.
    undecided: Option<String>,
    subject: String,
    /// Text of the same subject came before, in another part.
    continued: bool,
    /// Blank lines before the text are left out.
    begun: bool,
}

impl Thoughts {
    pub fn begin(&mut self) {
        self.undecided = Some(String::new());
    }

    pub fn push(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        let Some(start) = &mut self.undecided else { return self.say(text, deltas) };
        start.push_str(text);
        let may_be_heading = start.starts_with(MARK) || MARK.starts_with(start.as_str());
        let complete = start.contains('\n') || start.len() > HEADING_LIMIT;
        if complete || !may_be_heading {
            self.decide(deltas);
        }
    }

    pub fn end(&mut self, deltas: &mut Vec<Delta>) {
        self.decide(deltas);
    }

    fn decide(&mut self, deltas: &mut Vec<Delta>) {
        let Some(start) = self.undecided.take() else { return };
        let (line, rest) = start.split_once('\n').unwrap_or((&start, ""));
        let heading = line.trim().strip_prefix(MARK).and_then(|line| line.strip_suffix(MARK));
        let is_heading =
            |text: &&str| !text.is_empty() && text.len() <= HEADING_LIMIT && !text.contains(MARK);
        let heading = heading.map(str::trim).filter(is_heading);
        let (subject, text) = heading.map_or(("", start.as_str()), |heading| (heading, rest));
        self.continued = self.begun && self.subject == subject;
        self.begun = false;
        if self.subject != subject {
            subject.clone_into(&mut self.subject);
        }
        if heading.is_some() && text.trim().is_empty() {
            deltas.push(Delta::Thought { subject: self.subject.clone(), text: String::new() });
        }
        self.say(text, deltas);
    }

    fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        let text = if self.begun { text } else { text.trim_start_matches(['\r', '\n']) };
        if text.is_empty() {
            return;
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let gap = if first && self.continued { "\n\n" } else { "" };
        let subject = self.subject.clone();
        deltas.push(Delta::Thought { subject, text: format!("{gap}{text}") });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thoughts(parts: &[&[&str]]) -> Vec<(String, String)> {
        let (mut thoughts, mut deltas) = (Thoughts::default(), Vec::new());
        for part in parts {
            thoughts.begin();
            part.iter().for_each(|text| thoughts.push(text, &mut deltas));
            thoughts.end(&mut deltas);
        }
        let mut joined: Vec<(String, String)> = Vec::new();
        for delta in deltas {
            let Delta::Thought { subject, text } = delta else { panic!("{delta:?}") };
            match joined.last_mut() {
                Some((last, whole)) if *last == subject => whole.push_str(&text),
                _ => joined.push((subject, text)),
            }
        }
        joined
    }

    #[test]
    fn the_heading_of_a_part_is_its_subject() {
        let check = |parts: &[&[&str]], wanted: &[(&str, &str)]| {
            let wanted = wanted.iter().map(|(subject, text)| ((*subject).into(), (*text).into()));
            assert_eq!(thoughts(parts), wanted.collect::<Vec<_>>(), "{parts:?}");
        };
        check(&[&["plain ", "text"]], &[("", "plain text")]);
        check(&[&["**Look", "ing**", "\n", "\nat it", "\nmore"]], &[("Looking", "at it\nmore")]);
        check(&[&["*", "*A*", "*\n\nb"]], &[("A", "b")]);
        check(&[&["**Only**"]], &[("Only", "")]);
        check(&[&["**bold** and more"]], &[("", "**bold** and more")]);
        check(&[&["**a** or **b**"]], &[("", "**a** or **b**")]);
        check(&[&["*", "slanted*"]], &[("", "*slanted*")]);
        check(&[&["**A**\n\na"], &["**B**\n\nb"]], &[("A", "a"), ("B", "b")]);
        check(&[&["**A**\n\na"], &["**A**\n\nb"]], &[("A", "a\n\nb")]);
        check(&[&["a"], &["b"]], &[("", "a\n\nb")]);
        check(&[&[], &["", ""], &["x"]], &[("", "x")]);
        let long = "**".repeat(200);
        check(&[&[&long]], &[("", &long)]);
    }

    #[test]
    fn text_outside_of_a_part_is_passed_on() {
        let (mut thoughts, mut deltas) = (Thoughts::default(), Vec::new());
        thoughts.push("a", &mut deltas);
        assert_eq!(deltas, [Delta::Thought { subject: String::new(), text: "a".into() }]);
    }
}
