//! The schemes of a table that is restored with other sizes than it had: with more room, or on
//! another number of nodes.

use super::format::SnapshotHead;
use crate::Result;
use crate::catalog::record::Scheme;
use crate::slot_map::{SlotMap, partition_share};

/// How a table is sharded over so many nodes, and the schemes of its partitions: each with the room
/// for its share of what all partitions had room for together.
pub(super) fn over(
    nodes: u16,
    head: &SnapshotHead,
    seed: u64,
) -> Result<(Option<SlotMap>, Vec<Scheme>)> {
    let slots = (nodes > 1).then(|| SlotMap::even(nodes, seed));
    let partitions = head.schemes.len() as u64;
    let scheme = &head.schemes[0];
    let (key, value) = scheme.stored_sizes();
    let record = (key.most() + value.most()) as u64;
    let share = |all: u64, largest| partition_share(all.saturating_mul(partitions), largest, nodes);
    let mut scheme = resized(
        scheme,
        |number| share(number, 1),
        |bytes| share(bytes, record),
    )?;
    if let Scheme::Race(layout) = &mut scheme {
        let all = layout.reserve.saturating_mul(partitions);
        layout.reserve = all.div_ceil(nodes.max(1).into());
    }
    Ok((slots, vec![scheme; nodes.into()]))
}

/// The scheme of a table that reserves memory to grow into, with at most so many bytes of it, but
/// with a quarter more than so many bytes of records out of band need; any other scheme as it is.
pub(super) fn within(scheme: &Scheme, most: u64, needed: u64) -> Result<Scheme> {
    let Scheme::Race(layout) = scheme else {
        return Ok(scheme.clone());
    };
    let needed = 1.25 * needed as f64 / layout.heap_bytes.max(1) as f64;
    let share = (most as f64 / layout.table_bytes() as f64).max(needed);
    // One that is made of segments takes what it needs.
    if layout.segment > 0 || share >= 1.0 || layout.most_subtables == layout.roots {
        return Ok(scheme.clone());
    }
    let mut layout = layout.clone();
    let subtables = (layout.most_subtables as f64 * share) as u64;
    layout.most_subtables = subtables.max(layout.roots);
    layout.heap_bytes = ((layout.heap_bytes as f64 * share) as u64 / 64 * 64).max(64);
    let scheme = Scheme::Race(layout);
    scheme.check()?;
    Ok(scheme)
}

/// The scheme of a table with an eighth more room.
pub(super) fn enlarged(scheme: &Scheme) -> Result<Scheme> {
    let more = |number: u64| number.saturating_add(number / 8).saturating_add(1);
    resized(scheme, more, more)
}

/// The scheme of a table that has other numbers of slots, and of bytes out of band.
fn resized(
    scheme: &Scheme,
    slots: impl Fn(u64) -> u64,
    bytes: impl Fn(u64) -> u64,
) -> Result<Scheme> {
    let heap = |all: u64| match all {
        0 => 0,
        all => bytes(all).saturating_add(63) / 64 * 64,
    };
    let mut scheme = scheme.clone();
    match &mut scheme {
        Scheme::Linear(layout) => {
            layout.slots = slots(layout.slots);
            layout.longest_probe = layout.slots;
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        Scheme::Cuckoo(layout) => {
            layout.buckets = slots(layout.buckets);
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        // It takes what it needs where it comes to lie.
        Scheme::Race(layout) if layout.segment > 0 => {}
        Scheme::Race(layout) => {
            layout.groups = slots(layout.groups);
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        Scheme::Duo(layout) => {
            layout.buckets = slots(layout.buckets);
            layout.heap_bytes = heap(layout.heap_bytes);
            layout.reserve_bytes = heap(layout.reserve_bytes);
        }
        Scheme::Sealed(layout) => {
            layout.homes = slots(layout.homes);
            layout.slots = slots(layout.slots);
        }
        Scheme::Set(layout) => *layout = layout.resized(slots, bytes),
        Scheme::Chained(layout) => *layout = layout.scaled(slots),
        Scheme::Ordered(layout) => *layout = layout.scaled(slots),
        Scheme::Queue(layout) => {
            layout.items = slots(layout.items.into()).clamp(1, 1 << 30) as u32;
        }
    }
    scheme.check()?;
    Ok(scheme)
}
