//! The figures of one table at one load factor, as rows.

use super::LookupScheme;
use crate::BenchRow;

/// A scheme at a load factor: what its rows begin with.
#[derive(Clone, Copy)]
pub(super) struct LoadPoint {
    pub(super) load: f64,
    pub(super) scheme: LookupScheme,
}

impl LoadPoint {
    pub(super) fn name(self, figure: &str) -> String {
        format!("load {}, {}, {figure}", self.load, self.scheme)
    }

    /// Bytes of remote memory and of the client's own for each of so many keys.
    pub(super) fn memory(self, remote: f64, client: f64, keys: u64) -> [BenchRow; 2] {
        [("remote memory", remote), ("client's memory", client)]
            .map(|(figure, bytes)| BenchRow::new(self.name(figure), bytes / keys as f64, "B/key"))
    }
}

/// What lookups of one kind came to: all hits, or all misses.
pub(super) struct Figures {
    /// Lookups/s with many under way.
    pub(super) per_second: f64,
    /// What that is compared with.
    pub(super) limit: f64,
    /// The same by the model.
    pub(super) model: Option<f64>,
    /// Nanoseconds of one lookup at a time: the median, and the 99th percentile.
    pub(super) latency: [f64; 2],
    /// Slots that a READ fetches.
    pub(super) read_slots: u64,
    /// READs, round trips and bytes of a lookup.
    pub(super) reads: f64,
    pub(super) round_trips: f64,
    pub(super) bytes: f64,
}

impl Figures {
    pub(super) fn rows(self, point: LoadPoint, kind: &str) -> [BenchRow; 3] {
        let rate = BenchRow::new(point.name(kind), self.per_second, "lookups/s");
        let rate = BenchRow {
            model: self.model,
            read_size: Some(self.read_slots),
            reads_per_lookup: Some(self.reads),
            round_trips_per_lookup: Some(self.round_trips),
            bytes_per_lookup: Some(self.bytes),
            ..rate.limited_by(self.limit)
        };
        let [p50, p99] = [("p50", 0), ("p99", 1)].map(|(quantile, which)| {
            let name = point.name(&format!("{kind}, one at a time, {quantile}"));
            BenchRow::new(name, self.latency[which], "ns")
        });
        [rate, p50, p99]
    }
}
