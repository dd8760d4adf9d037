//! How full the parts of a table are.

/// Parts of a table that are told apart.
const PARTS: u64 = 64;

/// Slots in use in each of up to 64 equal parts of a table.
pub(crate) struct Parts {
    /// Of which the table consists: slots, or buckets.
    pieces: u64,
    used: Vec<u64>,
    slots: Vec<u64>,
}

impl Parts {
    /// Of a table of so many pieces.
    pub(crate) fn new(pieces: u64) -> Self {
        let parts = PARTS.min(pieces.max(1)) as usize;
        Self {
            pieces,
            used: vec![0; parts],
            slots: vec![0; parts],
        }
    }

    /// Counts the piece of this number, which has so many slots, and so many of them in use.
    pub(crate) fn count(&mut self, piece: u64, used: u64, slots: u64) {
        let parts = self.used.len();
        let part = u128::from(piece) * parts as u128 / u128::from(self.pieces.max(1));
        let part = (part as usize).min(parts - 1);
        self.used[part] += used;
        self.slots[part] += slots;
    }

    /// Slots in use in all.
    pub(crate) fn used(&self) -> u64 {
        self.used.iter().sum()
    }

    /// Slots in use per slot of each part, 0 to 1.
    pub(crate) fn load_factors(&self) -> Vec<f64> {
        let parts = self.used.iter().zip(&self.slots);
        parts
            .map(|(used, slots)| *used as f64 / (*slots).max(1) as f64)
            .collect()
    }
}
