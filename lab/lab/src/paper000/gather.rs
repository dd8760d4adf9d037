//! What a NIC that gathers saves cuckoo hashing: all buckets of a key in one request, which paper
//! 000, section 7, leaves to others.

use super::cuckoo_tables::{BUCKET_SLOTS, CuckooAt, HashingShape, no_place};
use super::linear_tables::WIDTH;
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::index::cuckoo::LookupOrder;
use farslot_bench::simulated::{Ask, Measured};

pub(crate) const ID: &str = "000-gather";

/// A few seconds.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// Hash functions of the tables.
const WAYS: [u32; 3] = [2, 3, 4];
/// Their load factor: what is read does not depend on it.
const LOAD: f64 = 0.9;

/// How the buckets are read, and whether the NIC can gather.
const KINDS: [(&str, LookupOrder, bool); 3] = [
    (
        "parallel, no gather in the NIC",
        LookupOrder::Parallel,
        false,
    ),
    ("parallel, gathering NIC", LookupOrder::Parallel, true),
    ("gathered, gathering NIC", LookupOrder::Gathered, true),
];

/// A way's lookups: many under way, and one at a time.
struct Measurement {
    rate: Measured,
    latency: Measured,
}

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let measured = threads::in_order(WAYS.len(), |number| {
        let ways = WAYS[number];
        progress(&format!("{ways} ways"));
        measure(scale, ways)
    })?;
    let mut rows = Vec::new();
    for (ways, kinds) in WAYS.into_iter().zip(&measured) {
        for ((name, ..), measured) in KINDS.iter().zip(kinds) {
            let mut row = |label: &str, value| {
                rows.push(ReproRow::new(
                    format!("{label}, {ways}-way, {name}"),
                    None,
                    value,
                ));
            };
            row(
                "million lookups/s",
                measured.rate.lookups_per_second() / 1e6,
            );
            row(
                "requests per lookup",
                measured.rate.table_reads_per_lookup(),
            );
            row(
                "median latency, us",
                measured.latency.latency_ns(50.0) / 1e3,
            );
        }
        let rate = |kind: usize| kinds[kind].rate.lookups_per_second();
        let cell = format!("gathered / parallel, lookups/s, {ways}-way");
        rows.push(ReproRow::new(cell, None, rate(2) / rate(0)));
    }
    let lines = KINDS.iter().enumerate().map(|(kind, (name, ..))| {
        let points = WAYS.into_iter().zip(&measured).map(|(ways, kinds)| {
            let rate = kinds[kind].rate.lookups_per_second();
            (f64::from(ways), rate / 1e6)
        });
        Line::ours(*name, points.collect())
    });
    let profile = NicProfile::connectx5_edr();
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Sealed cuckoo tables of at most {} slots of 8 bytes, {BUCKET_SLOTS} a bucket, load {LOAD}; hits by 28 \
             client threads, {} lookups a cell; rates with {WIDTH} lookups under way each, latencies with one. The \
             gathering NIC is assumed: that of the paper, with {} ns for each piece after the first in place of {} \
             ns for a message.",
            scale.slots, scale.lookups, profile.gather_piece_ns, profile.responder_ns.per_message
        ),
        rows,
        plots: vec![Plot {
            title: "Lookups/s of cuckoo hashing by hash functions".into(),
            x: Axis::linear("hash functions"),
            y: Axis::linear("million lookups/s"),
            lines: lines.collect(),
        }],
    })
}

fn measure(scale: &Scale, ways: u32) -> Result<Vec<Measurement>> {
    let shape = HashingShape {
        ways,
        bucket_slots: BUCKET_SLOTS,
    };
    let table = CuckooAt::build(shape, scale.slots, LOAD, scale.seed_of(0))?;
    let table = table.ok_or_else(|| no_place(LOAD))?;
    let measure = |(_, order, gathers): &(&str, LookupOrder, bool)| {
        let profile = NicProfile {
            gathers: *gathers,
            ..NicProfile::connectx5_edr()
        };
        let run = |width| {
            let experiment = table.experiment(*order, Ask::Hits, width, scale.lookups);
            table.run(&experiment, profile.clone())
        };
        Ok(Measurement {
            rate: run(WIDTH)?,
            latency: run(1)?,
        })
    };
    KINDS.iter().map(measure).collect()
}
