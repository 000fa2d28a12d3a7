//! Which answer Enter gives. Only arrows mark one, for the question that is on the screen; whatever is
//! typed takes the mark away.

/// The marked answer by its index. The default is for a question whose refusal may be marked from the
/// start; it never marks an answer that allows something.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mark {
    marked: Option<usize>,
    default: Option<usize>,
}

impl Mark {
    pub fn starting_at(default: Option<usize>) -> Self {
        Self { marked: default, default }
    }

    pub fn get(&self) -> Option<usize> {
        self.marked
    }

    pub fn clear(&mut self) {
        self.marked = self.default;
    }

    /// The first of so many answers, then one further down.
    pub fn down(&mut self, answers: usize) {
        let last = answers.saturating_sub(1);
        self.marked = Some(self.marked.map_or(0, |index| (index + 1).min(last)));
    }

    /// The last of so many answers, then one further up.
    pub fn up(&mut self, answers: usize) {
        let last = answers.saturating_sub(1);
        self.marked = Some(self.marked.map_or(last, |index| index.saturating_sub(1)));
    }
}
