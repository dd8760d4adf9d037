//! How many slots the next READ fetches.

use super::layout::LinearLayout;
use crate::Result;
use crate::read_policy::{ReadPolicy, most_slots};
use farslot_model::{Hint, HintedReadSizes, ModelError, ReadSizeModel, ReadSizeTable, Workload};
use std::sync::Arc;

/// The read sizes of a table for all load factors. Made once, shared by all clients of a process.
#[derive(Clone, Debug)]
pub struct ReadSizes {
    sizes: Sizes,
    pub(super) look_ahead: bool,
    most: u64,
}

#[derive(Clone, Debug)]
enum Sizes {
    Fixed(u64),
    ByLoad {
        oblivious: Arc<ReadSizeTable>,
        hinted: Arc<HintedReadSizes>,
    },
}

impl ReadSizes {
    /// The read sizes that `policy` gives for a table.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for numbers that the model refuses.
    pub fn new(layout: &LinearLayout, policy: ReadPolicy) -> Result<Self> {
        let most = most_slots(layout.slot_bytes());
        let sizes = policy.choose(
            layout.slot_bytes(),
            layout.keys,
            |slots| Sizes::Fixed(slots.clamp(1, most)),
            |model, workload| by_load(model, layout.slots, workload),
        )?;
        Ok(Self {
            sizes,
            look_ahead: false,
            most,
        })
    }

    /// Requests the chunk that follows before it has looked at the one it asked for (paper 002,
    /// section 3.3): fewer round trips at high load, for more messages.
    #[must_use]
    pub fn looking_ahead(self) -> Self {
        Self {
            look_ahead: true,
            ..self
        }
    }

    /// Slots to read at a load factor.
    #[must_use]
    pub fn at_load(&self, load: f64) -> u64 {
        match &self.sizes {
            Sizes::Fixed(slots) => *slots,
            Sizes::ByLoad { oblivious, .. } => {
                (oblivious.read_size(load) as u64).clamp(1, self.most)
            }
        }
    }

    /// Slots to read at a load factor where a cluster is known, for who reads on to the empty slot
    /// (paper 000, Eq. 10). Exactly up to that slot within a cluster, if one READ may be so long.
    /// In front of one a fixed size stays what it is, but for slots behind the empty one.
    pub(super) fn hinted(&self, load: f64, hint: Hint) -> u64 {
        let slots = match (&self.sizes, hint) {
            (Sizes::Fixed(slots), Hint::Ahead { .. }) => {
                hint.to_empty_slot().saturating_add(1).min(*slots)
            }
            (Sizes::Fixed(_), Hint::Inside { left }) => left.saturating_add(1),
            (Sizes::ByLoad { hinted, .. }, _) => hinted.read_size(load, hint) as u64,
        };
        slots.clamp(1, self.most)
    }
}

fn by_load(
    model: ReadSizeModel,
    capacity: u64,
    workload: Workload,
) -> std::result::Result<Sizes, ModelError> {
    let oblivious = Arc::new(ReadSizeTable::new(&model, capacity, workload)?);
    let hinted = HintedReadSizes::new(Arc::clone(&oblivious), model, capacity, workload)?;
    Ok(Sizes::ByLoad {
        oblivious,
        hinted: Arc::new(hinted),
    })
}
