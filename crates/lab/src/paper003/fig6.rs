//! Paper 003, figure 6: TATP in Storm, by the verbs of its transactions.

use super::common::{Rate, fitted_rows, rate};
use super::fits::fit;
use super::mix::{Kind, Mix, Step};
use super::systems::{CALL, PAPERS_THREADS, READ, System, read_or_call};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, Result, threads};

pub(crate) const ID: &str = "003-fig6";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 16, 32];
/// Storm (oversub) beside calls alone, at 32 machines.
const GAIN: f64 = 1.49;

/// A kind of transaction, by the rows that it reads and writes in the mean.
struct Transaction {
    /// % of all.
    percent: f64,
    reads: f64,
    /// Rows that are locked as they are read, and then written.
    writes: f64,
}

/// A facility is there for 2.5 of 4 types, active in 85 of 100 rows, and then two of its start
/// times are early enough.
const FORWARDINGS: f64 = 0.625 * 0.85 * 2.0;

/// TATP's mix. The last three find the subscriber by its number, in an index.
const TATP: [Transaction; 7] = [
    // GET_SUBSCRIBER_DATA, GET_ACCESS_DATA.
    of(35.0, 1.0, 0.0),
    of(35.0, 1.0, 0.0),
    // GET_NEW_DESTINATION.
    of(10.0, 1.0 + FORWARDINGS, 0.0),
    // UPDATE_SUBSCRIBER_DATA, UPDATE_LOCATION.
    of(2.0, 0.0, 2.0),
    of(14.0, 1.0, 1.0),
    // INSERT_CALL_FORWARDING, DELETE_CALL_FORWARDING.
    of(2.0, 2.0, 1.0),
    of(2.0, 1.0, 1.0),
];

const fn of(percent: f64, reads: f64, writes: f64) -> Transaction {
    Transaction {
        percent,
        reads,
        writes,
    }
}

/// What validates the rows that were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Validation {
    /// A READ of each, but for a transaction of one READ, which is atomic by itself.
    Several,
    /// A READ of each.
    All,
    /// A call for each where all else is calls; a READ else.
    AsRead,
}

const VALIDATIONS: [(Validation, &str); 3] = [
    (
        Validation::Several,
        "READs validate, none where a transaction reads one row and writes none",
    ),
    (Validation::All, "READs validate all rows"),
    (Validation::AsRead, "rows are validated as they are read"),
];
const SYSTEMS: [System; 2] = [System::Oversubscribed, System::Calls];

fn mix(system: System, validation: Validation, load: f64) -> Mix {
    let by_calls = system == System::Calls;
    let read = if by_calls {
        vec![(CALL, 1.0)]
    } else {
        read_or_call(load)
    };
    let validate = if by_calls && validation == Validation::AsRead {
        CALL
    } else {
        READ
    };
    TATP.iter()
        .map(|transaction| {
            let is_atomic = transaction.reads <= 1.0 && transaction.writes == 0.0;
            let validated = if is_atomic && validation == Validation::Several {
                0.0
            } else {
                transaction.reads
            };
            let mut steps: Vec<(Step, f64)> = read
                .iter()
                .map(|(step, times)| (*step, times * transaction.reads))
                .collect();
            // A call that locks and reads, a READ to validate, a call that writes and unlocks.
            steps.push((CALL, transaction.writes));
            steps.push((validate, validated));
            steps.push((CALL, transaction.writes));
            Kind {
                share: transaction.percent / 100.0,
                steps,
            }
        })
        .collect()
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let fits = fit();
    // All machines as the paper's text has them validate, the largest cluster in the other ways
    // too.
    let sizes = MACHINES.map(|machines| (machines, 0));
    let last = MACHINES[MACHINES.len() - 1];
    let cells: Vec<_> = sizes.into_iter().chain([(last, 1), (last, 2)]).collect();
    let rates: Vec<Rate> = threads::in_order(cells.len() * SYSTEMS.len(), |number| {
        let (machines, way) = cells[number / SYSTEMS.len()];
        let system = SYSTEMS[number % SYSTEMS.len()];
        progress(&format!("{}, {machines} machines", system.name()));
        let mix = mix(system, VALIDATIONS[way].0, fits.load);
        rate(
            scale,
            system.profile(&fits),
            &mix,
            (machines, PAPERS_THREADS),
        )
    })?;
    let mut rows = Vec::new();
    for (number, (machines, way)) in cells.iter().enumerate() {
        let [oversubscribed, calls] = [0, 1].map(|system| rates[number * SYSTEMS.len() + system]);
        if *way == 0 {
            for (system, rate) in SYSTEMS.iter().zip([oversubscribed, calls]) {
                let name = system.name();
                rows.push(rate.row(format!(
                    "M transactions/s of a machine, {name}, {machines} machines"
                )));
            }
        }
        if *machines == last {
            let cell = format!(
                "oversub / calls alone, {machines} machines, {}",
                VALIDATIONS[*way].1
            );
            rows.push(oversubscribed.over(calls, cell, GAIN).predicted());
        }
    }
    rows.extend(fitted_rows(&fits).into_iter().take(1));
    let lines = SYSTEMS.iter().enumerate().map(|(column, system)| {
        let points = MACHINES.iter().enumerate().map(|(number, machines)| {
            (
                f64::from(*machines),
                rates[number * SYSTEMS.len() + column].simulated,
            )
        });
        Line::ours(system.name(), points.collect())
    });
    let setup = format!(
        "Simulated, by the verbs of TATP's mix (35, 35, 10, 2, 14, 2, 2 %), not by its tables: reads as figure 4's lookups, a call that locks each row that is \
         written, READs that validate what was read, and a call that writes and unlocks each row (section 5.4). No transaction aborts. {} transactions a \
         cell. The collisions are those of figure 4; nothing is fitted here. The paper does not say what validates where all is by calls, nor whether a \
         single READ is validated: the three ways are rows of their own.",
        scale.lookups
    );
    let plot = Plot {
        title: "TATP by machines".into(),
        x: Axis::linear("machines"),
        y: Axis::linear("M transactions/s of a machine"),
        lines: lines.collect(),
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}
