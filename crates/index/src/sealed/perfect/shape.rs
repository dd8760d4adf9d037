//! How large a perfect hash function is. The module's page draws its bytes.

use super::filter;
use crate::Result;
use crate::slot::bad_option;
use serde::{Deserialize, Serialize};

/// Keys of a part, of a table that is as full as it was made for: what a search for pilots goes
/// through, again and again, should be in the processor's caches.
const KEYS_A_PART: u64 = 1 << 16;
/// Keys that share a pilot.
const KEYS_A_PILOT: f64 = 3.5;
/// The load factor unless another is asked for.
pub(in super::super) const LOAD_FACTOR: f64 = 0.99;
/// The highest load factor: above it a search for pilots takes long.
pub(in super::super) const MOST_LOAD: f64 = 0.995;

/// Bytes in front of what each part has.
pub(super) const HEAD: usize = 32;
/// Bytes of each part but its pilots.
pub(super) const PART: usize = 5;

/// The sizes of a table's perfect hash function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PerfectShape {
    /// Parts.
    pub parts: u32,
    /// Pilots of each part.
    pub pilots: u32,
    /// Bytes for the fingerprints of a filter; 0 without one.
    pub filter_bytes: u64,
    /// Bytes of a slot that holds a record of variable size; 0 where sizes are fixed, or records
    /// out of band.
    pub slot_bytes: u32,
}

impl PerfectShape {
    /// For so many keys.
    pub(in super::super) fn new(keys: u64, has_filter: bool) -> Self {
        let parts = keys.div_ceil(KEYS_A_PART).max(1);
        let of_each = keys as f64 / parts as f64;
        Self {
            parts: parts as u32,
            pilots: (of_each / KEYS_A_PILOT).ceil().max(1.0) as u32,
            filter_bytes: match has_filter {
                true => filter::most_bytes(keys),
                false => 0,
            },
            slot_bytes: 0,
        }
    }

    /// Bytes of the function.
    #[inline]
    pub(in super::super) const fn bytes(&self) -> u64 {
        let of_parts = self.parts as u64 * (PART as u64 + self.pilots as u64);
        let bytes = (HEAD as u64 + of_parts).saturating_add(self.filter_bytes);
        bytes.saturating_add(7) / 8 * 8
    }

    /// Refuses sizes that no table of so many slots has.
    pub(in super::super) fn check(&self, slots: u64) -> Result<()> {
        let most = slots.saturating_add(1);
        if !(1..=most).contains(&self.parts.into()) {
            return Err(bad_option("parts", self.parts, format!("1 to {most}")));
        }
        let pilots = u64::from(self.parts) * u64::from(self.pilots);
        let most = slots.saturating_add(self.parts.into());
        if !(u64::from(self.parts)..=most).contains(&pilots) {
            let limit = format!("1 to {most} in all");
            return Err(bad_option("pilots", pilots, limit));
        }
        let most = filter::most_bytes(slots);
        if self.filter_bytes > most {
            let limit = format!("at most {most}");
            return Err(bad_option("filter bytes", self.filter_bytes, limit));
        }
        Ok(())
    }
}

/// The most records that a builder places in so many slots: above the highest load factor a search
/// for pilots may take too long.
pub(in super::super) fn most_records(slots: u64) -> u64 {
    // What is rounded here is far below one slot in a thousand.
    let most = (slots as f64 * MOST_LOAD + 1e-6) as u64;
    // Of a few slots one is free.
    most.min(slots.saturating_sub(1))
}
