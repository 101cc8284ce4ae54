//! Hands out link numbers, and a number that was given back as late as possible again.
//!
//! Late, because the kernel removes the veth pair of an ended sandbox some time after its netns.

use std::collections::HashSet;

#[derive(Debug)]
pub(crate) struct Indices {
    taken: HashSet<u32>,
    next: u32,
    capacity: u32,
}

impl Indices {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            taken: HashSet::new(),
            next: 0,
            capacity,
        }
    }

    /// A number that nobody holds, or nothing when all are held.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let free = (0..self.capacity)
            .map(|step| (self.next + step) % self.capacity)
            .find(|index| !self.taken.contains(index))?;
        self.next = (free + 1) % self.capacity;
        self.taken.insert(free);
        Some(free)
    }

    /// Marks a number that an earlier process handed out; false if it is held or out of range.
    pub(crate) fn take_exactly(&mut self, index: u32) -> bool {
        if index >= self.capacity || !self.taken.insert(index) {
            return false;
        }
        self.next = (index + 1) % self.capacity;
        true
    }

    /// The numbers that are held.
    pub(crate) fn taken(&self) -> impl Iterator<Item = u32> {
        self.taken.iter().copied()
    }

    /// Gives a number back. Repeatable.
    pub(crate) fn give_back(&mut self, index: u32) {
        self.taken.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_given_back_comes_last() {
        let mut indices = Indices::new(4);
        assert_eq!(indices.take(), Some(0));
        assert_eq!(indices.take(), Some(1));
        indices.give_back(0);
        assert_eq!(indices.take(), Some(2));
        assert_eq!(indices.take(), Some(3));
        assert_eq!(indices.take(), Some(0));
        assert_eq!(indices.take(), None);
    }

    #[test]
    fn an_adopted_number_is_not_handed_out_twice() {
        let mut indices = Indices::new(3);
        assert!(indices.take_exactly(1));
        assert!(!indices.take_exactly(1));
        assert!(!indices.take_exactly(3));
        assert_eq!([indices.take(), indices.take()], [Some(2), Some(0)]);
        assert_eq!(indices.take(), None);
    }
}
