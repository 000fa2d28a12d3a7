//! Events as readers get them: shared, so that they are in memory once for any number of readers.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use loggia_core::Envelope;

/// Consecutive events. Holding them costs one reference, not one for each event.
#[derive(Clone, Default)]
pub struct Events {
    block: Arc<Vec<Arc<Envelope>>>,
    range: Range<usize>,
}

impl Events {
    /// Up to `most` events of a block, starting at `start`.
    pub(super) fn of(block: &Arc<Vec<Arc<Envelope>>>, start: usize, most: usize) -> Self {
        let start = start.min(block.len());
        let end = block.len().min(start.saturating_add(most));
        Self { block: block.clone(), range: start..end }
    }
}

impl Deref for Events {
    type Target = [Arc<Envelope>];

    fn deref(&self) -> &[Arc<Envelope>] {
        self.block.get(self.range.clone()).unwrap_or_default()
    }
}

impl From<Vec<Arc<Envelope>>> for Events {
    fn from(events: Vec<Arc<Envelope>>) -> Self {
        let range = 0..events.len();
        Self { block: Arc::new(events), range }
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Arc<Envelope>;
    type IntoIter = std::slice::Iter<'a, Arc<Envelope>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Events {
    type Item = Arc<Envelope>;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(self)
    }
}

pub struct IntoIter(Events);

impl Iterator for IntoIter {
    type Item = Arc<Envelope>;

    fn next(&mut self) -> Option<Arc<Envelope>> {
        let next = self.0.first()?.clone();
        self.0.range.start += 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for IntoIter {}

impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(&**self).finish()
    }
}
