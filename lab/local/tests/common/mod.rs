//! What several of these tests hash by.

use std::hash::{DefaultHasher, Hasher};

/// Spreads keys, but for those below 7, which have one hash.
#[derive(Default)]
pub struct SevenEqual(u64);

impl Hasher for SevenEqual {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = match key {
            0..7 => 42,
            _ => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(key);
                hasher.finish()
            }
        };
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
