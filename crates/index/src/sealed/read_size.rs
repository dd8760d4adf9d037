//! How many slots one READ fetches: chosen once, for the table never changes.

use super::layout::{SealedLayout, SlotOrder};
use crate::Result;
use crate::read_policy::{ReadPolicy, most_slots};
use farslot_model::{ProbeDistribution, TableLoad};

/// Slots that one READ fetches of a table with so many records.
pub(super) fn read_size(layout: &SealedLayout, records: u64, policy: ReadPolicy) -> Result<u64> {
    if layout.order == SlotOrder::Perfect {
        return Ok(1);
    }
    let slot_bytes = layout.slot_bytes();
    let size = policy.choose(
        slot_bytes,
        layout.keys,
        |slots| slots,
        |model, workload| {
            // The slots behind the last home belong to it: a full table ends there. A hit needs a
            // key.
            let table = TableLoad::new(layout.slots, records.max(1))?;
            let distances = match layout.order {
                SlotOrder::Arrival => ProbeDistribution::lookup(table, workload)?,
                // Slots with one key each are not probed.
                SlotOrder::ByHash | SlotOrder::Perfect => {
                    ProbeDistribution::ordered(table, workload)?
                }
            };
            Ok(model.choose(&distances).read_size as u64)
        },
    )?;
    Ok(size.clamp(1, most_slots(slot_bytes)))
}
