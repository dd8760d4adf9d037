//! What a fabric costs, measured: the parameters of the model and of the simulator (paper 000,
//! section 3.5, which measures two of them).
//!
//! Everything is measured by the verbs alone, over any fabric: how long one takes when nothing else
//! is under way, by its payload; how many a second complete when as many are under way as help; and
//! so for how long a saturated NIC is busy with each. READs go to random places, aligned to 8 bytes
//! as slots are.
//!
//! Where the memory is mapped no NIC moves the bytes: what loading a cache line takes a processor
//! is measured too, and what a verb takes beside it.
//!
//! Others' tables are not touched. In a store that is in use all verbs go to a table that is made
//! for it,
//! [`SCRATCH_TABLE`]: READs, WRITEs of zeros over zeros, compare-and-swaps of 0 by 0 and additions
//! of 0, so that it is an empty table before, meanwhile and after. It stays, for the next
//! calibration: tables cannot be dropped.

mod bed;
mod file;
mod fit;
mod measure;
mod probe;
mod real_bed;
mod sim_bed;

pub use file::file_text;
pub use fit::{Line, NicOccupancy};
pub use measure::{Calibration, LatencyRow, OccupancyRow, SweepRow, VerbRow};
pub use probe::VerbProbe;
pub(crate) use real_bed::SHM_PROFILE;

use crate::{BenchError, Progress, Result};
use farslot::fabric::RegionId;
use farslot::layout::Scheme;
use farslot::{
    Address, FieldSize, OpenOptions, SlotKind, Store, StoreError, TableOptions, TableRecord,
};
use probe::ScratchMemory;
use real_bed::{RealBed, ShmSource, TcpSource, VerbsSource};
use sim_bed::SimBed;

/// The name of the table whose memory is measured.
pub const SCRATCH_TABLE: &str = "farslot-calibrate";

/// Bytes of the smallest table to measure in.
const SMALLEST_SCRATCH: u64 = 1 << 20;

/// What a calibration may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the table that real memory is measured in, unless it is there already: much more
    /// than caches hold.
    pub scratch_bytes: u64,
    /// Client threads, if not as many as help.
    pub clients: Option<usize>,
    /// What the places of the READs derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scratch_bytes: 256 << 20,
            clients: None,
            seed: 0,
        }
    }
}

/// Measures the fabric at an address, opened with these options.
///
/// # Errors
/// [`BenchError::BadOption`], [`BenchError::ScratchInUse`], or what the store says.
pub fn run(
    address: &str,
    opening: OpenOptions,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Calibration> {
    if options.clients == Some(0) {
        return Err(BenchError::bad("clients", 0, "at least 1"));
    }
    if options.scratch_bytes < SMALLEST_SCRATCH {
        return Err(BenchError::bad(
            "scratch bytes",
            options.scratch_bytes,
            "at least 2^20",
        ));
    }
    let parsed: Address = address.parse()?;
    if let Address::Sim { profile, seed, .. } = &parsed {
        let profile = farslot::nic_profile(profile).map_err(|error| StoreError::BadAddress {
            address: address.into(),
            reason: error.to_string(),
        })?;
        let mut bed = SimBed::new(profile, seed.wrapping_add(options.seed));
        return measure::calibrate(&mut bed, address, options.clients, progress);
    }
    let store = Store::open_with(address, opening)?;
    let scratch = scratch_of(&scratch_table(&store, options.scratch_bytes)?);
    let mib = scratch.bytes >> 20;
    if let Some(node) = store.shm_node() {
        let page = node.info().page_bytes >> 10;
        let description = format!("shared memory, {mib} MiB in pages of {page} KiB");
        let mut bed = RealBed::new(ShmSource(node), scratch, description, options.seed);
        return measure::calibrate(&mut bed, address, options.clients, progress);
    }
    if matches!(parsed, Address::Verbs { .. }) {
        let description = format!("RDMA verbs, {mib} MiB");
        let mut bed = RealBed::new(VerbsSource(store), scratch, description, options.seed);
        return measure::calibrate(&mut bed, address, options.clients, progress);
    }
    let description = format!("TCP, {mib} MiB");
    let mut bed = RealBed::new(TcpSource(store), scratch, description, options.seed);
    measure::calibrate(&mut bed, address, options.clients, progress)
}

/// The table to measure in, made if it is not there; an error if there is anything in it.
fn scratch_table(store: &Store, bytes: u64) -> Result<TableRecord> {
    let found = store
        .tables()?
        .into_iter()
        .find(|table| table.name == SCRATCH_TABLE);
    let record = match found {
        Some(record) => record,
        None => {
            let four = FieldSize::Fixed(4);
            let options = TableOptions::new(bytes / 8)
                .load_factor(1.0)
                .keys(four)
                .values(four);
            store.create(SCRATCH_TABLE, &options.slots(SlotKind::Word))?
        }
    };
    let is_ours = matches!(&record.scheme, Scheme::Linear(layout)
        if layout.kind == SlotKind::Word && layout.slots >= SMALLEST_SCRATCH / 8);
    let occupancy = store.table(SCRATCH_TABLE)?.occupancy()?;
    if !is_ours || occupancy.used_slots > 0 {
        return Err(BenchError::ScratchInUse {
            table: SCRATCH_TABLE,
        });
    }
    Ok(record)
}

/// The slots of a table without a heap: they are its last bytes.
fn scratch_of(record: &TableRecord) -> ScratchMemory {
    let end = record.offset + record.scheme.table_bytes() as u64;
    // What stands before the slots is far less than one part in 16 of any scratch table.
    let first = (record.offset + record.scheme.table_bytes() as u64 / 16).next_multiple_of(64);
    ScratchMemory {
        region: RegionId(0),
        first,
        bytes: (end - first) / 64 * 64,
        nodes: 1,
    }
}

#[cfg(test)]
#[path = "calibrate_tests.rs"]
mod tests;
