//! How many slots one READ fetches: chosen once, for the table never changes.

use super::layout::{SealedLayout, SlotOrder};
use crate::linear::ReadPolicy;
use crate::slot::KeyRule;
use crate::{IndexError, Result};
use farslot_model::{
    HitPolicy, ModelError, NicModel, Objective, ProbeDistribution, ReadSizeModel, TableLoad,
    Workload,
};

/// READs of slots are no longer than this: more would monopolise buffers and links.
const LONGEST_READ: usize = 16 << 10;

/// Slots that one READ fetches of a table with so many records.
pub(super) fn read_size(layout: &SealedLayout, records: u64, policy: ReadPolicy) -> Result<u64> {
    let most = (LONGEST_READ / layout.slot_bytes()).max(1) as u64;
    let size = match policy {
        ReadPolicy::Fixed(slots) => u64::from(slots),
        ReadPolicy::Modelled {
            nic,
            objective,
            hit_ratio,
            capped,
        } => best(layout, records, (nic, objective), hit_ratio, capped).map_err(refused)?,
    };
    Ok(size.clamp(1, most))
}

fn best(
    layout: &SealedLayout,
    records: u64,
    (nic, objective): (NicModel, Objective),
    hit_ratio: f64,
    capped: bool,
) -> std::result::Result<u64, ModelError> {
    let slot_bytes = layout.slot_bytes();
    let longest = LONGEST_READ.max(slot_bytes);
    let model = ReadSizeModel::new(slot_bytes, objective, nic)?.with_max_read_bytes(longest)?;
    let model = if capped {
        model.with_bandwidth_cap()
    } else {
        model
    };
    let stop = match layout.keys {
        KeyRule::Unique => HitPolicy::StopAtMatch,
        KeyRule::Multi => HitPolicy::AllMatches,
    };
    let workload = Workload::new(hit_ratio, stop)?;
    // The slots behind the last home belong to it: a full table ends there. A hit needs a key.
    let table = TableLoad::new(layout.slots, records.max(1))?;
    let distances = match layout.order {
        SlotOrder::Arrival => ProbeDistribution::lookup(table, workload)?,
        SlotOrder::ByHash => ProbeDistribution::ordered(table, workload)?,
    };
    Ok(model.choose(&distances).read_size as u64)
}

fn refused(error: ModelError) -> IndexError {
    IndexError::BadOption {
        option: "read policy",
        value: "as given".into(),
        limit: error.to_string(),
    }
}
