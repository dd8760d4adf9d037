//! What paper 001 and its published code say, and the hardware that they say it of.

use farslot::fabric::sim::NicProfile;

/// Slots of the tables of the published counts, which is a tenth of the paper's tables.
pub(crate) const COUNTED_SLOTS: u64 = 3_000_000;
/// Bytes of a key, and of a value (section V).
pub(crate) const FIELD_BYTES: u32 = 64;
/// Slots of a bucket, bits of a fingerprint (section V).
pub(crate) const BUCKET_SLOTS: u32 = 8;
pub(crate) const FINGERPRINT_BITS: u32 = 16;
/// Slots of the stash.
pub(crate) const STASH: u32 = 32;

/// The paper's testbed: ConnectX-5 over RoCE at 100 Gb/s, with 3.2 us a round trip (section V-A, figure 7(e)). What the
/// paper does not say is as in paper 000's profile of the same NIC.
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

/// Table I, in the order of the schemes; the upper end where it has a range. RACE's row is not among them.
pub(crate) const TABLE_1: [Table1; 3] = [
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
        load: 0.692,
        lookup: took(16.0, 1.0, 3.4),
        insert: [took(17.0, 2.0, 6.7), took(74.0, 12.7, 42.9)],
        update: took(17.0, 2.0, 6.4),
        remove: took(17.0, 2.0, 6.3),
    },
];

/// Table III without a cache, microseconds: mode, distribution, and each scheme's.
pub(crate) const TABLE_3: [(&str, &str, [f64; 3]); 8] = [
    ("A", "zipf-0.99", [4.91, 5.04, 5.27]),
    ("A", "zipf-0.90", [4.95, 5.09, 5.27]),
    ("A", "uniform", [4.97, 5.12, 5.27]),
    ("A", "latest", [4.85, 4.98, 5.23]),
    ("D", "zipf-0.99", [3.42, 3.74, 3.89]),
    ("D", "zipf-0.90", [3.41, 3.76, 3.89]),
    ("D", "uniform", [3.46, 3.77, 3.92]),
    ("D", "latest", [3.35, 3.66, 3.88]),
];

/// Slots of a bucket in the figures by bucket size.
pub(crate) const BUCKET_SIZES: [u32; 4] = [4, 8, 12, 16];

/// CuckooDuo's load factors by [`BUCKET_SIZES`] (section V-A).
pub(crate) const LOADS_BY_SIZE: [f64; 4] = [0.900, 0.980, 0.997, 0.999];
/// The same of the published code at [`COUNTED_SLOTS`]: MapEmbed, TEA, and RACE.
pub(crate) const MAP_EMBED_LOADS: [f64; 4] = [0.894, 0.916, 0.921, 0.932];
pub(crate) const TEA_LOADS: [f64; 4] = [0.625, 0.788, 0.852, 0.888];
pub(crate) const RACE_LOADS: [f64; 4] = [0.817, 0.920, 0.947, 0.961];
