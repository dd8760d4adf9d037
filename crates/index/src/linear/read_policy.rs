//! How many slots the next READ fetches.

use super::layout::LinearLayout;
use crate::slot::KeyRule;
use crate::{IndexError, Result};
use farslot_model::{
    Hint, HintedReadSizes, HitPolicy, ModelError, NicModel, Objective, ReadSizeModel,
    ReadSizeTable, Workload,
};
use std::sync::Arc;

/// How the read size is found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReadPolicy {
    /// Always that many slots.
    Fixed(u32),
    /// What the model says for the load factor that the client knows of (paper 000, section 3).
    Modelled {
        /// What a READ costs.
        nic: NicModel,
        /// Whether latency or throughput counts.
        objective: Objective,
        /// The share of lookups that find their key, 0 to 1.
        hit_ratio: f64,
        /// Whether the bandwidth cap of paper 000, Eq. 2, applies.
        capped: bool,
    },
}

impl ReadPolicy {
    /// The model with the throughput objective, nine hits in ten, and no cap: the occupancy that it
    /// minimises prices bandwidth already.
    #[must_use]
    pub const fn throughput(nic: NicModel) -> Self {
        Self::Modelled {
            nic,
            objective: Objective::Throughput,
            hit_ratio: 0.9,
            capped: false,
        }
    }
}

/// READs that are longer than this are split: more would monopolise buffers and links.
pub(super) const LONGEST_READ: usize = 16 << 10;

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
    /// [`IndexError::BadOption`] for numbers that the model refuses.
    pub fn new(layout: &LinearLayout, policy: ReadPolicy) -> Result<Self> {
        let most = (LONGEST_READ / layout.slot_bytes()).max(1) as u64;
        let sizes = match policy {
            ReadPolicy::Fixed(slots) => Sizes::Fixed(u64::from(slots).clamp(1, most)),
            ReadPolicy::Modelled {
                nic,
                objective,
                hit_ratio,
                capped,
            } => {
                let stop = match layout.keys {
                    KeyRule::Unique => HitPolicy::StopAtMatch,
                    KeyRule::Multi => HitPolicy::AllMatches,
                };
                model(layout, nic, objective, capped)
                    .and_then(|model| by_load(model, layout.slots, Workload::new(hit_ratio, stop)?))
                    .map_err(|error| refused("read policy", error))?
            }
        };
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
    /// (paper 000, Eq. 10). Exactly up to that slot within a cluster, if one READ may be so long. In
    /// front of one a fixed size stays what it is, but for slots behind the empty one.
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

fn model(
    layout: &LinearLayout,
    nic: NicModel,
    objective: Objective,
    capped: bool,
) -> std::result::Result<ReadSizeModel, ModelError> {
    let slot_bytes = layout.slot_bytes();
    let longest = LONGEST_READ.max(slot_bytes);
    let model = ReadSizeModel::new(slot_bytes, objective, nic)?.with_max_read_bytes(longest)?;
    Ok(if capped {
        model.with_bandwidth_cap()
    } else {
        model
    })
}

/// The error for numbers that the model refuses.
pub(super) fn refused(option: &'static str, error: ModelError) -> IndexError {
    IndexError::BadOption {
        option,
        value: "as given".into(),
        limit: error.to_string(),
    }
}
