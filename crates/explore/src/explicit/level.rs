//! The codes of a level's states, in blocks that threads take and give.

/// States of a block: enough to make taking one cheap, few enough to share small levels.
pub(super) const BLOCK: usize = 512;

/// Codes, in blocks of up to [`BLOCK`].
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Vec<u64>>,
    states: u64,
}

impl Blocks {
    pub(super) fn add(&mut self, block: Vec<u64>) {
        if !block.is_empty() {
            self.states += block.len() as u64;
            self.blocks.push(block);
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.states += other.states;
        self.blocks.append(&mut other.blocks);
    }

    pub(super) fn block(&self, number: usize) -> Option<&[u64]> {
        self.blocks.get(number).map(Vec::as_slice)
    }

    pub(super) fn codes(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().flatten().copied()
    }

    pub(super) fn len(&self) -> u64 {
        self.states
    }

    pub(super) fn is_empty(&self) -> bool {
        self.states == 0
    }
}

/// A level that was expanded, and the next one.
#[derive(Debug)]
pub(super) struct ExpandedLevel {
    pub(super) current: Blocks,
    pub(super) next: Blocks,
}

/// Where a thread collects the states that it has found.
#[derive(Debug, Default)]
pub(super) struct Collector {
    full: Blocks,
    open: Vec<u64>,
}

impl Collector {
    #[inline]
    pub(super) fn add(&mut self, code: u64) {
        if self.open.len() == BLOCK {
            self.full.add(std::mem::take(&mut self.open));
        }
        if self.open.capacity() == 0 {
            self.open.reserve_exact(BLOCK);
        }
        self.open.push(code);
    }

    /// All that was collected; the collector is empty then.
    pub(super) fn finish(&mut self) -> Blocks {
        self.open.shrink_to_fit();
        self.full.add(std::mem::take(&mut self.open));
        std::mem::take(&mut self.full)
    }
}
