//! Records that are not in the slots.

use super::work::{VerbCosts, Work};

/// Records out of band, as lookups come to them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfBand {
    /// The share of the records that are out of band, 0 to 1.
    pub share: f64,
    /// READs of such a record.
    pub reads: f64,
    /// Bytes of these READs together, on average.
    pub bytes: f64,
    /// The probability that another key's slot looks like that of the key.
    pub false_match: f64,
    /// Whether all records that look like the key's, among the slots that were read, are read side
    /// by side; else one after the other until the key's is found.
    pub together: bool,
}

impl OutOfBand {
    /// Records whose slots have 10 bits of the key's hash.
    #[must_use]
    pub const fn tagged(share: f64, bytes: f64) -> Self {
        Self {
            share,
            reads: 1.0,
            bytes,
            false_match: 1.0 / 1024.0,
            together: false,
        }
    }

    /// Records of a sealed linear table, whose slots have 8 bits.
    #[must_use]
    pub const fn sealed(bytes: f64, reads: f64) -> Self {
        Self {
            share: 1.0,
            reads,
            bytes,
            false_match: 1.0 / 256.0,
            together: true,
        }
    }

    /// Records of a cuckoo table of signatures, which are one of 255.
    #[must_use]
    pub const fn signed(bytes: f64) -> Self {
        Self {
            share: 1.0,
            reads: 1.0,
            bytes,
            false_match: 1.0 / 255.0,
            together: true,
        }
    }

    /// The READs of a record that is the key's.
    pub(super) fn found(&self, costs: &VerbCosts) -> Work {
        costs.transfer(self.bytes / self.reads) * (self.reads * self.share)
    }

    /// The READs of records that are not, where a lookup looks at the slots of so many other keys.
    pub(super) fn in_vain(&self, costs: &VerbCosts, compared: f64, hit: bool) -> Work {
        let one = costs.transfer(self.bytes / self.reads);
        let one = if self.together && hit {
            one.waited_for(costs.post_ns)
        } else {
            one
        };
        one * (compared.max(0.0) * self.share * self.false_match)
    }
}
