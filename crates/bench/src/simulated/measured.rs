//! What clients have done in a span of virtual time.

use super::posted::PostedReads;
use farslot::fabric::counters::CounterSnapshot;
use farslot::fabric::{Nanos, OperationCounters};
use farslot::index::{GET, GET_ALL};
use hdrhistogram::Histogram;

/// The longest latency that is told from longer ones, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;
/// The most READs of a lookup that are told from more.
const MOST_READS: u64 = 1 << 20;

/// What client threads have done together: lookups that ended in the span, and records that were
/// found in it, also by lookups that took longer.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Nanoseconds of virtual time.
    pub span: Nanos,
    /// Lookups.
    pub lookups: u64,
    /// Records that were found.
    pub records: u64,
    /// READs that these lookups posted.
    pub posted: PostedReads,
    /// What the endpoints counted in the span.
    pub counted: CounterSnapshot,
    /// The most that a client keeps of the table in its own memory, in bytes.
    pub client_bytes: u64,
    /// How long each took.
    latency: Histogram<u64>,
    /// How many READs each posted.
    reads: Histogram<u64>,
}

impl Default for Measured {
    fn default() -> Self {
        let histogram = |most| Histogram::new_with_max(most, 3).expect("bounds of a histogram");
        Self {
            span: 0,
            lookups: 0,
            records: 0,
            posted: PostedReads::default(),
            counted: CounterSnapshot::default(),
            client_bytes: 0,
            latency: histogram(LONGEST),
            reads: histogram(MOST_READS),
        }
    }
}

impl Measured {
    /// Forgets what was done until now: from here on it counts.
    pub(super) fn begin(&mut self) {
        *self = Self {
            client_bytes: self.client_bytes,
            ..Self::default()
        };
    }

    /// Notes a lookup that has ended.
    pub(super) fn note(&mut self, latency: Nanos, posted: PostedReads) {
        self.lookups += 1;
        self.posted += posted;
        self.latency.saturating_record(latency);
        self.reads
            .saturating_record(posted.to_table + posted.to_heap);
    }

    /// Lookups per second.
    #[must_use]
    pub fn lookups_per_second(&self) -> f64 {
        self.per_second(self.lookups)
    }

    /// Matching records per second.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        self.per_second(self.records)
    }

    /// Payload bytes per second: the effective bandwidth.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.posted.bytes)
    }

    /// READs of slots, per lookup.
    #[must_use]
    pub fn table_reads_per_lookup(&self) -> f64 {
        self.per_lookup(self.posted.to_table)
    }

    /// READs of records out of band, per lookup.
    #[must_use]
    pub fn heap_reads_per_lookup(&self) -> f64 {
        self.per_lookup(self.posted.to_heap)
    }

    /// All READs per lookup.
    #[must_use]
    pub fn reads_per_lookup(&self) -> f64 {
        self.table_reads_per_lookup() + self.heap_reads_per_lookup()
    }

    /// Verbs that waited for each other, per lookup that ended in the span.
    #[must_use]
    pub fn round_trips_per_lookup(&self) -> f64 {
        self.counted_per_lookup(|counted| counted.round_trips)
    }

    /// Bytes of payload, those of headers and pages of the table included, per lookup that ended in
    /// the span.
    #[must_use]
    pub fn bytes_per_lookup(&self) -> f64 {
        self.counted_per_lookup(|counted| counted.bytes)
    }

    fn counted_per_lookup(&self, of: impl Fn(&OperationCounters) -> u64) -> f64 {
        let classes = [GET, GET_ALL].map(|class| self.counted.operation(class));
        let lookups: u64 = classes.iter().map(|class| class.count).sum();
        classes.iter().map(of).sum::<u64>() as f64 / lookups as f64
    }

    /// The share of lookups that posted at least so many READs.
    #[must_use]
    pub fn share_with_reads(&self, at_least: u64) -> f64 {
        self.per_lookup(self.reads.count_between(at_least, MOST_READS))
    }

    /// The latency that so many percent of the lookups did not exceed, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self, percent: f64) -> f64 {
        self.latency.value_at_percentile(percent) as f64
    }

    /// The mean latency of the lookups, in nanoseconds.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        self.latency.mean()
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.span as f64
    }

    fn per_lookup(&self, count: u64) -> f64 {
        count as f64 / self.lookups as f64
    }
}
