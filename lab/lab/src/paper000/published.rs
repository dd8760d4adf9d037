//! The figures of paper 000 that ours stand beside.

use farslot::FieldSize;
use farslot::index::Sizing;
use farslot::index::linear::{KeyRule, LinearLayout, LinearOptions, SlotKind};
use farslot::model::{ModelError, TableLoad};
use farslot_bench::simulated::Records;

/// The load factors of its section 5.
pub(crate) const LOADS: [f64; 7] = [0.25, 0.5, 0.65, 0.8, 0.85, 0.9, 0.95];

/// Bytes of its smallest record, and of the slot that holds it inline: those of tables 1 and 2.
pub(crate) const RECORD_BYTES: usize = 8;

/// A way of probing, as its table 1 has it at each of [`LOADS`].
pub(crate) struct Probing {
    /// The column's heading.
    pub(crate) name: &'static str,
    /// Slots that one READ fetches.
    pub(crate) read_sizes: [u32; 7],
    /// READs per lookup.
    pub(crate) requests: [f64; 7],
    /// Whether Eq. 2 bounds the read size.
    pub(crate) capped: bool,
}

/// "Fixed Linear": 256 bytes, always.
pub(crate) const FIXED: Probing = Probing {
    name: "Fixed Linear",
    read_sizes: [32; 7],
    requests: [1.00, 1.00, 1.01, 1.22, 1.53, 2.46, 7.41],
    capped: false,
};

/// "Var. Linear (uncons.)": what Eq. 1 gives.
pub(crate) const UNCONSTRAINED: Probing = Probing {
    name: "Var. Linear (uncons.)",
    read_sizes: [5, 13, 29, 96, 174, 201, 547],
    requests: [1.03, 1.03, 1.02, 1.02, 1.01, 1.08, 1.16],
    capped: false,
};

/// "Variable Linear": what Eq. 1 gives under Eq. 2.
pub(crate) const VARIABLE: Probing = Probing {
    name: "Variable Linear",
    read_sizes: [5, 13, 23, 23, 23, 23, 23],
    requests: [1.03, 1.03, 1.04, 1.39, 1.85, 3.17, 10.05],
    capped: true,
};

/// Table 2: lookups/s of variable linear probing at the first three of [`LOADS`] (rows), with the
/// read sizes for them (columns).
pub(crate) const TABLE_2: [[f64; 3]; 3] = [
    [50.8e6, 43.0e6, 34.5e6],
    [42.3e6, 43.9e6, 35.1e6],
    [31.0e6, 39.2e6, 35.2e6],
];

/// Its way of storing records, as tables 3 and 4 and figure 11 have it at load [`STORAGE_LOAD`].
pub(crate) struct PublishedStorage {
    /// The row's heading.
    pub(crate) name: &'static str,
    /// Slots that one READ fetches of tables with inline records of each of [`RECORD_SIZES`].
    pub(crate) inline: [u32; 3],
    /// The same where records lie out of band.
    pub(crate) out_of_band: u32,
    /// READs per lookup to the table and to the heap, out of band.
    pub(crate) requests: [f64; 2],
}

/// The load factor of its section 5.7.
pub(crate) const STORAGE_LOAD: f64 = 0.65;

/// Bytes of the records there.
pub(crate) const RECORD_SIZES: [usize; 3] = [8, 32, 128];

/// Bytes of its slot of a record out of band: a signature of 1 byte and an offset of 4.
pub(crate) const OUT_OF_BAND_SLOT: usize = 5;

/// "Parallel Cuckoo".
pub(crate) const CUCKOO_STORING: PublishedStorage = PublishedStorage {
    name: "Parallel Cuckoo",
    inline: [4; 3],
    out_of_band: 4,
    requests: [3.00, 1.08],
};

/// "Fixed Linear": 256 bytes, always.
pub(crate) const FIXED_STORING: PublishedStorage = PublishedStorage {
    name: "Fixed Linear",
    inline: [32, 8, 2],
    out_of_band: 51,
    requests: [1.00, 1.04],
};

/// "Variable Linear".
pub(crate) const VARIABLE_STORING: PublishedStorage = PublishedStorage {
    name: "Variable Linear",
    inline: [23, 9, 6],
    out_of_band: 29,
    requests: [1.02, 1.04],
};

/// Record sizes, in bytes, with the most slots that Eq. 2 lets a READ fetch ("Variable Linear" of
/// tables 1 and 3).
pub(crate) const CAPS: [(usize, u32); 3] = [(8, 23), (32, 9), (128, 6)];

/// Keys that there are for each of its records: its tables have 120 x 2^20 records with random keys
/// of 4 bytes (section 5.1), so that a lookup matches 0.029 records beside the one it is after.
pub(crate) const KEYS_PER_RECORD: f64 = (1u64 << 32) as f64 / (120u64 << 20) as f64;

/// The tables that its model was asked about: 120 x 2^20 records (section 5.1).
pub(crate) fn table_load(load: f64) -> Result<TableLoad, ModelError> {
    let records = 120u64 << 20;
    TableLoad::new((records as f64 / load).round() as u64, records)
}

/// A table of its 8-byte records: 4 bytes of key and 4 of value, of which our slots hold 31 bits.
pub(crate) fn layout(slots: u64, keys: KeyRule, seed: u64) -> farslot::index::Result<LinearLayout> {
    let four_bytes = FieldSize::Fixed(4);
    LinearOptions {
        slot: Some(SlotKind::Word),
        ..LinearOptions::new(Sizing {
            load_factor: Some(1.0),
            keys,
            ..Sizing::new(slots, four_bytes, four_bytes, seed)
        })
    }
    .layout()
}

/// So many of its 8-byte records, each with a key of its own.
pub(crate) fn distinct_records(seed: u64, count: u32) -> Records {
    Records::distinct(seed, count, RECORD_BYTES - 4)
}

/// The points of a line over [`LOADS`], from the value at each of them.
pub(crate) fn by_load(value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let points = LOADS.into_iter().enumerate();
    points.map(|(row, load)| (load, value(row))).collect()
}
