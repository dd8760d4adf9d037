//! Our own placement of CuckooDuo, to be counted.

use super::cost::{Cost, CountedTable};
use farslot::index::duo::placement::Shape;
use farslot::index::duo::placement::counting::Vault;

/// CuckooDuo's index as it is, over a vault of hashes.
pub(crate) struct Ours {
    vault: Vault,
    shape: Shape,
}

impl Ours {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            vault: Vault::new(shape),
            shape,
        }
    }

    /// The vault, to look keys up.
    pub(crate) const fn vault(&self) -> &Vault {
        &self.vault
    }
}

impl CountedTable for Ours {
    fn slots(&self) -> u64 {
        self.shape.slots()
    }

    fn insert(&mut self, hash: u64) -> Option<Cost> {
        let spent = self.vault.insert(hash)?;
        Some(Cost {
            insertions: 1,
            round_trips: spent.round_trips,
            // A slot each.
            accesses: spent.accessed,
            items: spent.accessed,
            moved: spent.moved,
            adjusted: spent.adjusted.into(),
            collided: spent.unresolved.into(),
            pathless: spent.no_path.into(),
        })
    }
}
