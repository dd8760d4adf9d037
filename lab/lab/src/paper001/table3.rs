//! Paper 001, Table III: latencies of mixed operations by distribution, without a cache, and with
//! one.

use super::common::{FURTHER_VERBS, client_bytes, operations, reasons, trial, us_row};
use crate::paper001::designs::published::{TABLE_3, Table3, testbed};
use crate::paper001::designs::schemes::SCHEMES;
use crate::paper001::designs::trial::{Draw, TableTrial, Task, TrialFabric, TrialOperation};
use crate::scale::Scale;
use crate::{Progress, ReproReport, Result, threads};

pub(crate) const ID: &str = "001-table3";

/// Half a minute. With a cache a thirtieth of the paper's, in slots and in operations.
pub(crate) const SCALE: Scale = Scale {
    slots: 1_000_000,
    tables: 1,
    lookups: 10_000,
    seed: 0,
};

/// Slots of the tables without a cache, at most: latencies do not depend on them.
const SIMULATED_SLOTS: u64 = 1 << 18;

const LOAD: f64 = 0.5;

const REASONS: [(&str, &str); 3] = [
    (
        "us*RACE out of band",
        "a hit reads its record out of band, in a second round trip, and an insertion takes three; the paper's RACE has \
         records in its slots",
    ),
    ("us*RACE", FURTHER_VERBS),
    (
        "us, cached",
        "what a cache saves is the part of the lookups that ask for a key again, less what the client has written since, for the cache forgets \
         that: with ever more operations ever more, and the paper has thirty times as many. CuckooDuo's index leaves a thirteenth of the memory to it. Its own saves 31 % of the lookups' \
         time with Zipf's 0.99, 10 % with 0.90, and 45 % with the latest",
    ),
];

/// What a row of the table asks for.
fn task(row: &Table3) -> Task {
    let parts = match row.mode {
        "A" => vec![(TrialOperation::Get, 0.5), (TrialOperation::Update, 0.5)],
        _ => vec![(TrialOperation::Get, 0.95), (TrialOperation::PutNew, 0.05)],
    };
    let draw = match row.distribution {
        "zipf-0.99" => Draw::Zipf(0.99),
        "zipf-0.90" => Draw::Zipf(0.90),
        "latest" => Draw::Latest(0.99),
        _ => Draw::Uniform,
    };
    Task { parts, draw }
}

/// Measures the table.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let without = Scale {
        slots: scale.slots.min(SIMULATED_SLOTS),
        ..*scale
    };
    let outcomes = threads::in_order(2 * SCHEMES.len(), |job| {
        let scheme = &SCHEMES[job / 2];
        progress(scheme.name);
        let stops = vec![(LOAD, TABLE_3.iter().map(task).collect())];
        let trial = match job % 2 {
            0 => trial(&without, stops),
            _ => TableTrial {
                client_bytes: Some(client_bytes(scale)),
                ..trial(scale, stops)
            },
        };
        (scheme.run)(&trial, &TrialFabric::Simulated(Box::new(testbed())))
    })?;
    let mut rows = Vec::new();
    for (number, published) in TABLE_3.iter().enumerate() {
        for (scheme, of) in SCHEMES.iter().enumerate() {
            let columns = [
                ("us", published.without_cache, &outcomes[2 * scheme]),
                (
                    "us, cached",
                    published.with_cache,
                    &outcomes[2 * scheme + 1],
                ),
            ];
            for (column, paper, outcome) in columns {
                let Some(spent) = outcome.spent(0, number) else {
                    continue;
                };
                let cell = format!(
                    "{column}, YCSB-{}, {}, {}",
                    published.mode, published.distribution, of.name
                );
                rows.push(us_row(cell, Some(paper[of.published]), &spent));
            }
        }
    }
    let setup = format!(
        "Tables of {} slots, with a cache of {}, at a load of {LOAD}; {} and {} operations of each kind behind a simulated NIC with 3.2 us a round trip: the \
         network's time, without the client's. The cache, empty at first, has what the index leaves of {} bytes of the client's memory. Zipf's keys are \
         drawn as YCSB does, from 10^10 items.{}",
        without.slots,
        scale.slots,
        operations(&without),
        operations(scale),
        client_bytes(scale),
        reasons(&rows, &REASONS)
    );
    Ok(ReproReport {
        id: ID,
        setup,
        rows,
        plots: Vec::new(),
    })
}
