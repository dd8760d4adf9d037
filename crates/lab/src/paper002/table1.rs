//! Paper 002, table 1, left: what a find-or-put waits for by load factor and chunk size, and what chunks that are chosen while
//! running wait for.

use super::das5;
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::{NodeConfig, RunEnd, SimEndpoint, Simulation, World};
use farslot::fabric::{Endpoint, Limits, RegionId, Rights, VerbKind};
use farslot::model::Objective;
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedWordSet};
use farslot_set::{Layout, MAX_WORD};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

pub(crate) const ID: &str = "002-table1";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 17,
    tables: 3,
    lookups: 1,
    seed: 0,
};

/// The table's load factors and chunk sizes, its latencies in us, and its round trips.
const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
pub(super) const SIZES: [usize; 5] = [8, 16, 32, 64, 128];
const LATENCIES: [[f64; 5]; 5] = [
    [3.69, 3.71, 3.99, 4.17, 4.50],
    [3.74, 3.72, 4.00, 4.18, 4.50],
    [3.90, 3.78, 4.00, 4.18, 4.51],
    [4.50, 4.00, 4.09, 4.20, 4.52],
    [7.70, 5.64, 4.92, 4.54, 4.66],
];
const ROUND_TRIPS: [[f64; 5]; 5] = [
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [1.1, 1.0, 1.0, 1.0, 1.0],
    [1.3, 1.1, 1.0, 1.0, 1.0],
    [2.1, 1.4, 1.1, 1.0, 1.0],
    [5.7, 3.2, 2.0, 1.4, 1.1],
];
/// The paper measures at intervals of this much load.
pub(super) const INTERVAL: f64 = 0.02;
/// Buckets of all chunks of a find-or-put.
const REACH: usize = 4096;
/// Insertions under way between the intervals, where nothing is measured.
const WIDTH: usize = 32;

/// One interval: means of a find-or-put.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    pub(super) latency_us: f64,
    pub(super) reads: f64,
}

/// What a trial varies.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    /// C; chosen while running if none.
    pub(super) size: Option<usize>,
    /// Whether the process reaches its own half of the table without verbs, as the paper's.
    pub(super) direct: bool,
    /// Load factors before which is measured.
    pub(super) loads: &'static [f64],
    pub(super) slots: u64,
    pub(super) seed: u64,
}

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = scale.tables as usize;
    let sizes: Vec<_> = SIZES.into_iter().map(Some).chain([None]).collect();
    let trials = threads::in_order(sizes.len() * 2 * tables, |number| {
        let (way, table) = (number / tables, number % tables);
        progress("find-or-put");
        measure(Trial {
            size: sizes[way / 2],
            direct: way % 2 == 0,
            loads: &LOADS,
            slots: scale.slots,
            seed: scale.seed_of(table as u32),
        })
    })?;
    let of = |size: usize, direct: bool| {
        let way = size * 2 + usize::from(!direct);
        &trials[way * tables..(way + 1) * tables]
    };
    let mut rows = Vec::new();
    for (load, _) in LOADS.iter().enumerate() {
        for (size, _) in SIZES.iter().enumerate() {
            let latency = Mean::of(of(size, true).iter().map(|table| table[load].latency_us));
            let cell = format!("latency (us), load {}, C = {}", LOADS[load], SIZES[size]);
            rows.push(latency.row(cell, Some(LATENCIES[load][size])));
            // Beside the chunks that were needed, each find-or-put has requested one more.
            let trips = Mean::of(of(size, false).iter().map(|table| table[load].reads - 1.0));
            let cell = format!("round trips, load {}, C = {}", LOADS[load], SIZES[size]);
            rows.push(trips.row(cell, Some(ROUND_TRIPS[load][size])));
        }
        let fixed = (0..SIZES.len())
            .map(|size| Mean::of(of(size, true).iter().map(|table| table[load].latency_us)).mean);
        let best = fixed.fold(f64::INFINITY, f64::min);
        let chosen = Mean::of(
            of(SIZES.len(), true)
                .iter()
                .map(|table| table[load].latency_us),
        );
        let cell = format!("latency (us), load {}, C chosen while running", LOADS[load]);
        rows.push(chosen.row(cell, None));
        let cell = format!(
            "latency with C chosen over that with the best fixed C, load {}",
            LOADS[load]
        );
        rows.push(ReproRow::new(cell, None, chosen.mean / best));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Two simulated machines, each with half of a table of {} buckets. One process inserts random words \
             until the load factor is 0.9, one at a time, and reaches its own half without verbs; means of what it inserts over the \
             last {INTERVAL} of load before each load factor, over {tables} tables. The network's latency and its growth by the byte are fitted on the \
             paper's cells at load 0.5 with C = 8 and 128; the others are predicted. Round trips are the READs of a process that \
             reaches both halves by verbs, less the one that is requested ahead and not waited for.",
            scale.slots
        ),
        rows,
        plots: vec![Plot {
            title: "latency of find-or-put by load factor".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("latency (us)"),
            lines: lines(&of),
        }],
    })
}

fn lines<'t>(of: &impl Fn(usize, bool) -> &'t [Vec<Interval>]) -> Vec<Line> {
    let ours = |size: usize| -> Vec<(f64, f64)> {
        let mean =
            |load: usize| Mean::of(of(size, true).iter().map(|table| table[load].latency_us)).mean;
        LOADS
            .iter()
            .enumerate()
            .map(|(at, load)| (*load, mean(at)))
            .collect()
    };
    let mut lines = Vec::new();
    for (at, size) in SIZES.into_iter().enumerate() {
        lines.push(Line::ours(format!("C = {size}"), ours(at)));
        let paper = LOADS
            .into_iter()
            .zip(LATENCIES)
            .map(|(load, row)| (load, row[at]));
        lines.push(Line::paper(format!("C = {size}"), paper.collect()));
    }
    lines.push(Line::ours("C chosen", ours(SIZES.len())));
    lines
}

/// Fills one table, and measures before each of the load factors.
pub(super) fn measure(trial: Trial) -> Result<Vec<Interval>> {
    let layout = Layout::new(2, trial.slots / 2, 0)?;
    let world = World::new(trial.seed, das5::profile());
    let nodes = [(); 2].map(|()| {
        let host = Some(world.add_host());
        let regions = [(layout.region_bytes(), Rights::ALL)];
        world.add_node_with(&NodeConfig {
            host,
            ..NodeConfig::new(&regions)
        })
    });
    let chunks = match trial.size {
        Some(size) => ChunkSizes::fixed(size, REACH / size)?,
        None => ChunkSizes::chosen(das5::model(), Objective::Latency, 0.0)?,
    };
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(world.host_of(nodes[0]), Limits::default());
    let own = if trial.direct {
        Part::Simulated(world.node_handle(nodes[0]), RegionId(0))
    } else {
        Part::of_node(nodes[0])
    };
    let endpoint = Rc::clone(simulation.endpoint(client));
    let reach = Reach::new(endpoint, layout, 0, vec![own, Part::of_node(nodes[1])])?;
    let set = SharedWordSet::new(reach, chunks);
    let task = simulation.spawn(client, async move |endpoint| {
        fill(&set, &endpoint, trial).await
    });
    match simulation.run() {
        RunEnd::Done => task
            .try_take()
            .unwrap_or_else(|| unreachable!("its run has ended")),
        end => unreachable!("nothing can wait for ever, or for a time limit: {end:?}"),
    }
}

async fn fill(
    set: &SharedWordSet<SimEndpoint>,
    endpoint: &SimEndpoint,
    trial: Trial,
) -> Result<Vec<Interval>> {
    let mut random = ChaCha8Rng::seed_from_u64(trial.seed);
    let mut words = std::iter::repeat_with(move || random.next_u64() & MAX_WORD);
    let mut intervals = Vec::new();
    let mut inserted = 0;
    for load in trial.loads {
        let [from, until] =
            [load - INTERVAL, *load].map(|load| (trial.slots as f64 * load) as usize);
        let unmeasured: Vec<_> = words.by_ref().take(from - inserted).collect();
        let mut wrong = 0;
        set.find_or_put_all(&unmeasured, WIDTH, |_, put| {
            wrong += u64::from(!put.is_ok_and(|put| put.is_inserted()));
        })
        .await;
        let (start, before) = (endpoint.now(), endpoint.core().counters.snapshot());
        for word in words.by_ref().take(until - from) {
            wrong += u64::from(!set.find_or_put(word).await?.is_inserted());
        }
        if wrong > 0 {
            return Err(LabError::wrong(wrong, until as u64));
        }
        let measured = (until - from) as f64;
        let posted = endpoint.core().counters.snapshot().since(&before);
        intervals.push(Interval {
            latency_us: (endpoint.now() - start) as f64 / 1e3 / measured,
            reads: posted.verbs_of(VerbKind::Read) as f64 / measured,
        });
        inserted = until;
    }
    Ok(intervals)
}
