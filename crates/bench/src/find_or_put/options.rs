//! What the benchmark may vary.

use super::draw::Mix;
use crate::{BenchError, Result};

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The mixes.
    pub mixes: Vec<Mix>,
    /// Load factors, rising, at least 1/16 apart and up to 0.95.
    pub loads: Vec<f64>,
    /// Slots of each table: 2^10 to 2^31.
    pub slots: u64,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// What the elements derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mixes: vec![Mix { found: 50 }, Mix { found: 80 }, Mix { found: 20 }],
            loads: vec![0.5, 0.75, 0.9],
            slots: 1 << 22,
            repetitions: 5,
            seed: 0,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        if !(1 << 10..=1 << 31).contains(&self.slots) {
            return Err(BenchError::bad("slots", self.slots, "from 2^10 to 2^31"));
        }
        if self.repetitions == 0 {
            return Err(BenchError::bad("repetitions", 0, "at least 1"));
        }
        if self.mixes.is_empty() {
            return Err(BenchError::bad("number of mixes", 0, "at least 1"));
        }
        let mut before = 0.0;
        for load in &self.loads {
            if !(before + 1.0 / 16.0..=0.95).contains(load) {
                let limit = "at least 1/16 above the one before, and at most 0.95";
                return Err(BenchError::bad_text("load factor", load.to_string(), limit));
            }
            before = *load;
        }
        if self.loads.is_empty() {
            return Err(BenchError::bad("number of load factors", 0, "at least 1"));
        }
        Ok(())
    }
}
