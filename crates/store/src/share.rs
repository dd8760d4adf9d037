//! Parts of a batch that are run on their own.

/// Some items of a batch, and their numbers in it.
pub(crate) struct Share<I> {
    pub(crate) numbers: Vec<usize>,
    pub(crate) items: Vec<I>,
}

impl<I> Default for Share<I> {
    fn default() -> Self {
        Self {
            numbers: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<I> Share<I> {
    pub(crate) fn push(&mut self, number: usize, item: I) {
        self.numbers.push(number);
        self.items.push(item);
    }
}
