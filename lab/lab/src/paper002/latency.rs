//! Paper 002, table 1 (left), figure 2 and section 4.3: what a find-or-put waits for by load factor
//! and chunk size, and what chunks that are chosen while running wait for.

use super::das5;
use crate::scale::{Reproduction, Scale};
use crate::stats::Mean;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::{HostId, RunEnd, SimEndpoint, Simulation, World};
use farslot::fabric::{Endpoint, Limits, Rights, VerbKind};
use farslot::model::Objective;
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedWordSet};
use farslot_set::{Layout, MAX_WORD};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

pub(crate) const TABLE1: Reproduction = Reproduction {
    id: "002-table1",
    title: "paper 002, table 1 (left): latencies and round trips of find-or-put",
    scale: SCALE,
    run: |scale, progress| run("002-table1", &TABLE_LOADS, scale, progress),
};

pub(crate) const FIG2: Reproduction = Reproduction {
    id: "002-fig2",
    title: "paper 002, figure 2 and section 4.3: latencies and round trips by load factor",
    scale: SCALE,
    run: |scale, progress| run("002-fig2", &ALL_LOADS, scale, progress),
};

/// A minute of one core each; with fewer slots the clusters at load 0.9 differ from table to table.
const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 3,
    lookups: 1,
    seed: 0,
};

/// The table's load factors and chunk sizes, its latencies in us, and its round trips.
const TABLE_LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
const SIZES: [usize; 5] = [8, 16, 32, 64, 128];
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
/// The figure's. The paper's go on to 0.92, where a find-or-put may find no room in its reach.
const ALL_LOADS: [f64; 11] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9];
/// Load factor, chunk size and round trips of section 4.3.
const PROBES: [(f64, usize, f64); 2] = [(0.75, 32, 1.04), (0.75, 64, 1.006)];
/// Load factor and chunk sizes of the latencies that the network is fitted on.
const FITTED: (f64, [usize; 2]) = (0.5, [8, 128]);
/// The paper measures at intervals of this much load.
const INTERVAL: f64 = 0.02;
/// Buckets of all chunks of a find-or-put.
const REACH: usize = 4096;
/// Insertions under way between the intervals, where nothing is measured.
const WIDTH: usize = 32;

/// One interval: means of a find-or-put.
#[derive(Clone, Copy)]
struct Interval {
    latency_us: f64,
    round_trips: f64,
}

/// What a trial varies.
#[derive(Clone, Copy)]
struct LatencyTrial {
    /// C; chosen while running if none.
    size: Option<usize>,
    /// Load factors before which is measured.
    loads: &'static [f64],
    slots: u64,
    seed: u64,
}

/// The paper's latency and round trips.
fn papers(load: f64, buckets: usize) -> [Option<f64>; 2] {
    let row = TABLE_LOADS.iter().position(|of| *of == load);
    let column = SIZES.iter().position(|of| *of == buckets);
    let in_table = row.zip(column);
    let probes = PROBES
        .iter()
        .find(|(of, size, _)| (*of, *size) == (load, buckets));
    [
        in_table.map(|(row, column)| LATENCIES[row][column]),
        in_table
            .map(|(row, column)| ROUND_TRIPS[row][column])
            .or(probes.map(|(_, _, probes)| *probes)),
    ]
}

/// Measures at these load factors.
fn run(
    id: &'static str,
    loads: &'static [f64],
    scale: &Scale,
    progress: Progress<'_>,
) -> Result<ReproReport> {
    let tables = scale.tables as usize;
    let sizes: Vec<_> = SIZES.into_iter().map(Some).chain([None]).collect();
    let trials = threads::in_order(sizes.len() * tables, |number| {
        progress("find-or-put");
        measure(LatencyTrial {
            size: sizes[number / tables],
            loads,
            slots: scale.slots,
            seed: scale.seed_of((number % tables) as u32),
        })
    })?;
    let mean = |size: usize, load: usize, of: fn(&Interval) -> f64| {
        let tables = &trials[size * tables..(size + 1) * tables];
        Mean::of(tables.iter().map(|table| of(&table[load])))
    };
    let latency = |size, load| mean(size, load, |interval| interval.latency_us);
    let trips = |size, load| mean(size, load, |interval| interval.round_trips);
    let mut rows = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        for (size, buckets) in SIZES.into_iter().enumerate() {
            let [papers_us, papers_trips] = papers(*load, buckets);
            let cell = format!("latency (us), load {load}, C = {buckets}");
            let row = latency(size, at).row(cell, papers_us);
            let is_fitted = *load == FITTED.0 && FITTED.1.contains(&buckets);
            rows.push(if is_fitted {
                row.fitted()
            } else {
                row.predicted()
            });
            let cell = format!("round trips, load {load}, C = {buckets}");
            rows.push(trips(size, at).row(cell, papers_trips).predicted());
        }
        let fixed = (0..SIZES.len()).map(|size| latency(size, at).mean);
        let best = fixed.fold(f64::INFINITY, f64::min);
        let chosen = latency(SIZES.len(), at);
        let cell = format!("latency (us), load {load}, C chosen while running");
        rows.push(chosen.row(cell, None).predicted());
        let cell = format!("latency with C chosen over that with the best fixed C, load {load}");
        rows.push(ReproRow::new(cell, None, chosen.mean / best).predicted());
    }
    let plot = |title: &str, label, of: &dyn Fn(usize, usize) -> Mean, which: usize| {
        let mut lines = Vec::new();
        for (size, buckets) in sizes.iter().enumerate() {
            let name = match buckets {
                Some(buckets) => format!("C = {buckets}"),
                None => "C chosen".into(),
            };
            let points = loads.iter().enumerate();
            let ours = points.map(|(at, load)| (*load, of(size, at).mean));
            lines.push(Line::ours(name.clone(), ours.collect()));
            let theirs = |load: &f64| Some((*load, papers(*load, (*buckets)?)[which]?));
            let theirs: Vec<_> = loads.iter().filter_map(theirs).collect();
            if !theirs.is_empty() {
                lines.push(Line::paper(name, theirs));
            }
        }
        Plot {
            title: title.into(),
            x: Axis::linear("load factor"),
            y: Axis::linear(label),
            lines,
        }
    };
    let plots = vec![
        plot(
            "latency of find-or-put by load factor",
            "latency (us)",
            &latency,
            0,
        ),
        plot(
            "round trips of find-or-put by load factor",
            "round trips",
            &trips,
            1,
        ),
    ];
    let setup = format!(
        "Two simulated machines, each with half of a table of {} buckets. A process on a third inserts random words, one at a time; means of what it \
         inserts over the last {INTERVAL} of load before each load factor, over {tables} tables. The network's latency and its growth by the byte are \
         fitted on the paper's cells at load 0.5 with C = 8 and 128, taken for those of find-or-puts in another machine's memory; what a verb occupies \
         is what paper 003 says of ConnectX-3; the other cells are predicted. Round trips are READs less the one that is requested ahead and \
         not waited for.",
        scale.slots
    );
    Ok(ReproReport::emulated(id, setup, rows, plots))
}

/// Fills one table, and measures before each of the load factors.
fn measure(trial: LatencyTrial) -> Result<Vec<Interval>> {
    let layout = Layout::new(2, trial.slots / 2, 0)?;
    let world = World::new(trial.seed, das5::profile());
    let nodes = [(); 2].map(|()| world.add_node(&[(layout.region_bytes(), Rights::ALL)]));
    let chunks = match trial.size {
        Some(size) => ChunkSizes::fixed(size, REACH / size)?,
        None => ChunkSizes::chosen(das5::model(), Objective::Latency, 0.0)?,
    };
    let mut simulation = Simulation::new(world);
    let client = simulation.add_client(HostId(0), Limits::default());
    let endpoint = Rc::clone(simulation.endpoint(client));
    let parts = nodes.map(Part::of_node).into();
    let set = SharedWordSet::new(Reach::new(endpoint, layout, 0, parts)?, chunks);
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
    trial: LatencyTrial,
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
            // Beside the chunks that were needed, each find-or-put has requested one more.
            round_trips: posted.verbs_of(VerbKind::Read) as f64 / measured - 1.0,
        });
        inserted = until;
    }
    Ok(intervals)
}
