//! What the keys of new tables are hashed and spread by.

use crate::Address;
use farslot_index::hash::derive;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable of the environment that they are derived from, if it is set.
const VARIABLE: &str = "FARSLOT_TABLE_SEED";

/// The seeds of a store's new tables.
pub(crate) struct Seeds {
    /// What they are derived from, one after the other; nothing if each is drawn by chance.
    of: Option<u64>,
    derived: AtomicU64,
}

impl Seeds {
    /// Those of a simulation's seed, so that runs are the same again; elsewhere those of the
    /// environment's, if there is one.
    pub(crate) fn of(address: &Address) -> Self {
        let of = match address {
            Address::Sim { seed, .. } => Some(*seed),
            _ => of_environment(),
        };
        let derived = AtomicU64::new(0);
        Self { of, derived }
    }

    /// One that was not used before.
    pub(crate) fn next(&self) -> u64 {
        match self.of {
            Some(seed) => derive(seed, self.derived.fetch_add(1, Ordering::Relaxed)),
            None => rand::random(),
        }
    }
}

/// A number that no other table has, as good as surely. All have 19 digits: records in which they
/// stand have as many bytes, so that a simulated run takes as long again with the same seed.
pub(crate) fn draw_id() -> u64 {
    rand::random_range(10_u64.pow(18)..10_u64.pow(19))
}

fn of_environment() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok()?;
    let seed = text.parse();
    if seed.is_err() {
        log::warn!("{VARIABLE} is {text:?}, which is no number: seeds are drawn by chance");
    }
    seed.ok()
}
