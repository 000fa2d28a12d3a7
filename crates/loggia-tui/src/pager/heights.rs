//! The heights of all cells with prefix sums; every operation takes logarithmic time.

#[derive(Debug, Clone, Default)]
pub struct Heights {
    single: Vec<usize>,
    /// A Fenwick tree.
    sums: Vec<usize>,
}

impl Heights {
    pub fn get(&self, index: usize) -> usize {
        self.single.get(index).copied().unwrap_or_default()
    }

    pub fn push(&mut self, height: usize) {
        self.single.push(height);
        let place = self.single.len();
        let start = place - lowest_bit(place);
        let mut sum = height;
        let mut child = place - 1;
        while child > start {
            sum += self.sums.get(child - 1).copied().unwrap_or_default();
            child -= lowest_bit(child);
        }
        self.sums.push(sum);
    }

    pub fn set(&mut self, index: usize, height: usize) {
        let Some(single) = self.single.get_mut(index) else { return };
        let before = std::mem::replace(single, height);
        let mut place = index + 1;
        while let Some(sum) = self.sums.get_mut(place - 1) {
            *sum = *sum + height - before;
            place += lowest_bit(place);
        }
    }

    /// The number of lines before this cell.
    pub fn before(&self, index: usize) -> usize {
        let mut place = index.min(self.single.len());
        let mut sum = 0;
        while place > 0 {
            sum += self.sums.get(place - 1).copied().unwrap_or_default();
            place -= lowest_bit(place);
        }
        sum
    }

    pub fn total(&self) -> usize {
        self.before(self.single.len())
    }
}

fn lowest_bit(place: usize) -> usize {
    place & place.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_heights(
            heights in prop::collection::vec(0usize..50, 0..40),
            changes in prop::collection::vec((0usize..40, 0usize..50), 0..20),
        ) {
            let mut plain = heights.clone();
            let mut made = Heights::default();
            heights.iter().for_each(|height| made.push(*height));
            for (index, height) in changes {
                made.set(index, height);
                if let Some(slot) = plain.get_mut(index) {
                    *slot = height;
                }
            }
            for index in 0..=plain.len() {
                prop_assert_eq!(made.before(index), plain[..index].iter().sum::<usize>());
            }
            prop_assert_eq!(made.total(), plain.iter().sum::<usize>());
        }
    }
}
