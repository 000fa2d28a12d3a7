//! The prompt history with backward search.

/// Maximum number of prompts.
pub const LIMIT: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Oldest first.
    entries: Vec<String>,
    /// The displayed entry and the draft before it.
    at: Option<(usize, String)>,
    pub search: Option<Search>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    pub query: String,
    hit: Option<usize>,
}

impl History {
    pub fn new(entries: Vec<String>) -> Self {
        let skip = entries.len().saturating_sub(LIMIT);
        Self { entries: entries.into_iter().skip(skip).collect(), ..Self::default() }
    }

    pub fn add(&mut self, text: &str) {
        self.leave();
        if self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        if self.entries.len() == LIMIT {
            self.entries.remove(0);
        }
        self.entries.push(text.to_owned());
    }

    /// Typing resets the position to the newest entry.
    pub fn leave(&mut self) {
        self.at = None;
    }

    pub fn older(&mut self, draft: &str) -> Option<String> {
        let from = self.at.as_ref().map_or(self.entries.len(), |(at, _)| *at);
        let at = from.checked_sub(1)?;
        let draft = self.at.take().map_or_else(|| draft.to_owned(), |(_, draft)| draft);
        self.at = Some((at, draft));
        self.entries.get(at).cloned()
    }

    pub fn newer(&mut self) -> Option<String> {
        let (at, draft) = self.at.take()?;
        match self.entries.get(at + 1) {
            Some(text) => {
                self.at = Some((at + 1, draft));
                Some(text.clone())
            }
            None => Some(draft),
        }
    }

    pub fn start_search(&mut self) {
        self.search = Some(Search::default());
    }

    /// Restarts the search from the newest entry after the query changed.
    pub fn search_again(&mut self) {
        self.search_before(self.entries.len());
    }

    pub fn search_older(&mut self) {
        let hit = self.search.as_ref().and_then(|search| search.hit);
        self.search_before(hit.unwrap_or(self.entries.len()));
    }

    fn search_before(&mut self, end: usize) {
        let Some(search) = &mut self.search else { return };
        let query = search.query.to_lowercase();
        let fits = |text: &String| text.to_lowercase().contains(&query);
        let earlier = self.entries.get(..end).unwrap_or_default();
        // Without an older match, keep the current one.
        if let Some(hit) = earlier.iter().rposition(fits) {
            search.hit = Some(hit);
        } else if end == self.entries.len() {
            search.hit = None;
        }
        if query.is_empty() {
            search.hit = None;
        }
    }

    pub fn found(&self) -> Option<&str> {
        let hit = self.search.as_ref()?.hit?;
        self.entries.get(hit).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> History {
        History::new(["run cargo test", "write a.txt: hi", "run ls"].map(str::to_owned).into())
    }

    #[test]
    fn up_and_down_walk_and_come_back_to_the_draft() {
        let mut history = three();
        let walked = [
            history.older("draft"),
            history.older("?"),
            history.older("?"),
            history.older("?"),
            history.newer(),
            history.newer(),
            history.newer(),
            history.newer(),
        ];
        let wanted = [
            Some("run ls"),
            Some("write a.txt: hi"),
            Some("run cargo test"),
            None,
            Some("write a.txt: hi"),
            Some("run ls"),
            Some("draft"),
            None,
        ];
        assert_eq!(walked.each_ref().map(Option::as_deref), wanted);
    }

    #[test]
    fn a_search_goes_backwards() {
        let mut history = three();
        history.start_search();
        let mut found = Vec::new();
        for step in ["r", "u", "older", "older"] {
            match (step, &mut history.search) {
                ("older", _) => history.search_older(),
                (letter, Some(search)) => {
                    search.query.push_str(letter);
                    history.search_again();
                }
                _ => {}
            }
            found.push(history.found().unwrap_or("").to_owned());
        }
        assert_eq!(found, ["run ls", "run ls", "run cargo test", "run cargo test"]);
    }

    #[test]
    fn repeated_prompts_are_one_entry() {
        let mut history = History::default();
        ["a", "a", "b", "a"].into_iter().for_each(|text| history.add(text));
        assert_eq!(history.entries, ["a", "b", "a"]);
    }
}
