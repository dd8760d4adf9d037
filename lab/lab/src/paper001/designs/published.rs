//! What paper 001 and its published code say, and the hardware that they say it of.

use farslot::fabric::sim::NicProfile;

/// Slots of the tables of the published counts, which is a tenth of the paper's tables.
pub(crate) const COUNTED_SLOTS: u64 = 3_000_000;
/// Slots of the paper's tables (section V).
pub(crate) const TABLE_SLOTS: u64 = 30_000_000;
/// Bytes of a key, and of a value (section V).
pub(crate) const FIELD_BYTES: u32 = 64;
/// Slots of a bucket, bits of a fingerprint (section V).
pub(crate) const BUCKET_SLOTS: u32 = 8;
pub(crate) const FINGERPRINT_BITS: u32 = 16;
/// Slots of the stash.
pub(crate) const STASH: u32 = 32;

/// The paper's testbed: ConnectX-5 over RoCE at 100 Gb/s, with 3.2 us a round trip (section V-A,
/// figure 7(e)). What the paper does not say is as in paper 000's profile of the same NIC.
pub(crate) fn testbed() -> NicProfile {
    NicProfile {
        name: "paper-001".into(),
        read_latency_ns: 3200.0,
        ..NicProfile::connectx5_edr()
    }
}

/// The same with a tenth of the bandwidth (section V-B), in which a byte takes ten times as long.
pub(crate) fn bandwidth_limited() -> NicProfile {
    let whole = testbed();
    NicProfile {
        name: "paper-001-10g".into(),
        link_bytes_per_ns: whole.link_bytes_per_ns / 10.0,
        latency_per_byte_ns: whole.latency_per_byte_ns * 10.0,
        ..whole
    }
}

/// Bytes of a key, and of a value, where bandwidth is limited: 16 times as many.
pub(crate) const LIMITED_FIELD_BYTES: u32 = 16 * FIELD_BYTES;

/// What an operation takes: slots read and written, round trips, and microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) items: f64,
    pub(crate) round_trips: f64,
    pub(crate) us: f64,
}

const fn took(items: f64, round_trips: f64, us: f64) -> Took {
    Took {
        items,
        round_trips,
        us,
    }
}

/// A design's row of Table I.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table1 {
    pub(crate) bits_per_key: Option<f64>,
    pub(crate) load: f64,
    pub(crate) lookup: Took,
    /// At a low load factor, and at the highest.
    pub(crate) insert: [Took; 2],
    pub(crate) update: Took,
    pub(crate) remove: Took,
}

/// Table I: CuckooDuo, MapEmbed, RACE, TEA; the upper end where it has a range.
pub(crate) const TABLE_1: [Table1; 4] = [
    Table1 {
        bits_per_key: Some(16.0),
        load: 0.981,
        lookup: took(1.0, 1.0, 3.2),
        insert: [took(1.0, 1.0, 3.55), took(6.7, 2.0, 6.98)],
        update: took(2.0, 2.0, 6.2),
        remove: took(1.0, 1.0, 3.2),
    },
    Table1 {
        bits_per_key: Some(4.0),
        load: 0.90,
        lookup: took(8.0, 1.0, 3.3),
        insert: [took(9.0, 2.0, 6.7), took(124.0, 3.4, 30.1)],
        update: took(9.0, 2.0, 6.5),
        remove: took(9.0, 2.0, 6.5),
    },
    Table1 {
        bits_per_key: None,
        load: 0.929,
        lookup: took(32.0, 1.0, 4.2),
        insert: [took(33.0, 2.0, 7.8), took(33.0, 2.0, 7.85)],
        update: took(33.0, 2.0, 7.1),
        remove: took(33.0, 2.0, 7.1),
    },
    Table1 {
        bits_per_key: None,
        load: 0.692,
        lookup: took(16.0, 1.0, 3.4),
        insert: [took(17.0, 2.0, 6.7), took(74.0, 12.7, 42.9)],
        update: took(17.0, 2.0, 6.4),
        remove: took(17.0, 2.0, 6.3),
    },
];

/// Microseconds that each verb of a batch takes the testbed beside the first and beside its bytes:
/// what a lookup of RACE, two READs of 16 slots, takes longer in Table I than one of TEA, one READ
/// of 16 slots, less 2 KiB at 100 Gb/s. Fitted, on these two cells.
pub(crate) const FURTHER_VERB_US: f64 = TABLE_1[2].lookup.us - TABLE_1[3].lookup.us - 0.16;
/// How many times as much two threads do as one, at most: section V-B says 1.6 to 1.8.
pub(crate) const GAIN_OF_DOUBLED_THREADS: f64 = 1.8;

/// A row of Table III: microseconds of CuckooDuo, MapEmbed, RACE, TEA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table3 {
    /// YCSB's workload.
    pub(crate) mode: &'static str,
    pub(crate) distribution: &'static str,
    pub(crate) without_cache: [f64; 4],
    /// With a cache, beside the index, in 0.017 of the remote memory's bytes.
    pub(crate) with_cache: [f64; 4],
}

const fn row(
    mode: &'static str,
    distribution: &'static str,
    without_cache: [f64; 4],
    with_cache: [f64; 4],
) -> Table3 {
    Table3 {
        mode,
        distribution,
        without_cache,
        with_cache,
    }
}

/// Table III.
#[rustfmt::skip]
pub(crate) const TABLE_3: [Table3; 8] = [
    row("A", "zipf-0.99", [4.91, 5.04, 6.39, 5.27], [4.38, 4.52, 5.61, 4.66]),
    row("A", "zipf-0.90", [4.95, 5.09, 6.41, 5.27], [4.78, 4.93, 6.12, 5.06]),
    row("A", "uniform",   [4.97, 5.12, 6.42, 5.27], [5.00, 5.19, 6.47, 5.33]),
    row("A", "latest",    [4.85, 4.98, 6.38, 5.23], [4.06, 4.18, 5.15, 4.33]),
    row("D", "zipf-0.99", [3.42, 3.74, 5.07, 3.89], [2.35, 2.62, 3.39, 2.66]),
    row("D", "zipf-0.90", [3.41, 3.76, 5.08, 3.89], [3.06, 3.36, 4.40, 3.43]),
    row("D", "uniform",   [3.46, 3.77, 5.09, 3.92], [3.50, 3.89, 5.14, 3.98]),
    row("D", "latest",    [3.35, 3.66, 5.03, 3.88], [1.84, 2.09, 2.68, 2.11]),
];

/// The client's memory by the remote memory's bytes of records, where index and cache share it
/// (section V-B).
pub(crate) const CLIENT_MEMORY: f64 = 0.017;
/// Operations of a workload by the table's slots (section V: 300,000 on 30 million): how often keys
/// come again, and so what a cache is worth, depends on it.
pub(crate) const OPERATIONS_PER_SLOT: f64 = 0.01;

/// Slots of a bucket in the figures by bucket size.
pub(crate) const BUCKET_SIZES: [u32; 4] = [4, 8, 12, 16];

/// CuckooDuo's load factors by [`BUCKET_SIZES`] (section V-A).
pub(crate) const LOADS_BY_SIZE: [f64; 4] = [0.900, 0.980, 0.997, 0.999];
/// The same of the published code at [`COUNTED_SLOTS`]: MapEmbed, TEA, and RACE.
pub(crate) const MAP_EMBED_LOADS: [f64; 4] = [0.894, 0.916, 0.921, 0.932];
pub(crate) const TEA_LOADS: [f64; 4] = [0.625, 0.788, 0.852, 0.888];
pub(crate) const RACE_LOADS: [f64; 4] = [0.817, 0.920, 0.947, 0.961];

/// Seconds in which a table of 30 million slots is doubled (section V-C, Table I): CuckooDuo
/// actively, RACE, MapEmbed actively, CuckooDuo lazily, MapEmbed lazily.
pub(crate) const GROWTH_SECONDS: [f64; 5] = [4.0, 7.9, 8.1, 0.6, 0.708];
