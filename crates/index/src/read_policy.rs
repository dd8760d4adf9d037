//! How the number of slots that a READ fetches is found, for every design with linear probing.

use crate::slot::KeyRule;
use crate::{IndexError, Result};
use farslot_model::{ModelError, NicModel, Objective, ReadSizeModel, Workload};

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

/// READs of slots that are longer than this are split: more would monopolise buffers and links.
pub(crate) const LONGEST_READ: usize = 16 << 10;

/// The most slots that one READ fetches.
pub(crate) fn most_slots(slot_bytes: usize) -> u64 {
    (LONGEST_READ / slot_bytes).max(1) as u64
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

    /// What the policy comes to for slots of that size: `fixed` makes it of a number of slots,
    /// `modelled` of the model and the lookups that it is to price.
    pub(crate) fn choose<T>(
        self,
        slot_bytes: usize,
        keys: KeyRule,
        fixed: impl FnOnce(u64) -> T,
        modelled: impl FnOnce(ReadSizeModel, Workload) -> std::result::Result<T, ModelError>,
    ) -> Result<T> {
        let (nic, objective, hit_ratio, capped) = match self {
            Self::Fixed(slots) => return Ok(fixed(u64::from(slots))),
            Self::Modelled {
                nic,
                objective,
                hit_ratio,
                capped,
            } => (nic, objective, hit_ratio, capped),
        };
        let longest = LONGEST_READ.max(slot_bytes);
        ReadSizeModel::new(slot_bytes, objective, nic)
            .and_then(|model| model.with_max_read_bytes(longest))
            .and_then(|model| {
                let model = if capped {
                    model.with_bandwidth_cap()
                } else {
                    model
                };
                modelled(model, Workload::new(hit_ratio, keys.hit_policy())?)
            })
            .map_err(|error| refused("read policy", error))
    }
}

/// The error for numbers that the model refuses.
pub(crate) fn refused(option: &'static str, error: ModelError) -> IndexError {
    IndexError::BadOption {
        option,
        value: "as given".into(),
        limit: error.to_string(),
    }
}
