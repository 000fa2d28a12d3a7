//! The marked answer, which Enter gives. Only arrows mark one, for the visible question, and typing
//! clears the mark.

/// The index of the marked answer. The default is for a question whose rejection may be marked
/// initially; it never marks an answer that allows something.
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

    /// Marks the first answer, then the next one.
    pub fn down(&mut self, answers: usize) {
        let last = answers.saturating_sub(1);
        self.marked = Some(self.marked.map_or(0, |index| (index + 1).min(last)));
    }

    /// Marks the last answer, then the previous one.
    pub fn up(&mut self, answers: usize) {
        let last = answers.saturating_sub(1);
        self.marked = Some(self.marked.map_or(last, |index| index.saturating_sub(1)));
    }
}
