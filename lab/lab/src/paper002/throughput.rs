//! Paper 002, table 1, right, and figure 3: find-or-puts a second of 2 to 48 machines with 1 to 16
//! processes each.

use super::das5;
use crate::scale::Scale;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::{NodeConfig, RunEnd, SimEndpoint, Simulation, World};
use farslot::fabric::{Limits, RegionId, RemoteAddr, Rights};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedWordSet};
use farslot_set::{Layout, MAX_WORD};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

pub(crate) const ID: &str = "002-throughput";

/// Half a minute: buckets of a process, and find-or-puts of all processes behind a cell.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 13,
    tables: 1,
    lookups: 200_000,
    seed: 0,
};

const MACHINES: [usize; 6] = [2, 4, 8, 16, 32, 48];
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];
/// The table: M find-or-puts/s by processes a machine, of 2, 32 and 48 machines.
const PAPERS: [(usize, [f64; 5]); 3] = [
    (2, [1.28, 2.21, 3.83, 6.18, 10.17]),
    (32, [8.51, 16.09, 28.76, 49.41, 81.55]),
    (48, [11.73, 22.05, 37.82, 63.36, 114.85]),
];
/// C and M.
const CHUNK: usize = 32;
const CHUNKS: usize = 32;
/// How much higher than the paper's a rate may be without being named.
const NEAR: f64 = 0.15;
/// Find-or-puts of a process, at least.
const LEAST: usize = 40;

/// Measures both.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let count = MACHINES.len() * PROCESSES.len();
    let rates = threads::in_order(count, |number| {
        let machines = MACHINES[number / PROCESSES.len()];
        let processes = PROCESSES[number % PROCESSES.len()];
        progress(&format!("{machines} machines, {processes} processes each"));
        measure(scale, machines, processes)
    })?;
    let at = |machines: usize, processes: usize| rates[machines * PROCESSES.len() + processes];
    let papers = |machines: usize, processes: usize| {
        let of = PAPERS.iter().find(|(of, _)| *of == MACHINES[machines]);
        of.map(|(_, rates)| rates[processes])
    };
    let mut rows = Vec::new();
    let mut too_high = Vec::new();
    for (number, machines) in MACHINES.iter().enumerate() {
        let mut of_these = Vec::new();
        for (column, processes) in PROCESSES.iter().enumerate() {
            let cell = format!("M find-or-puts/s, {machines} machines, {processes} processes each");
            let row = ReproRow::new(cell, papers(number, column), at(number, column));
            if row.ratio.is_some_and(|ratio| ratio > 1.0 + NEAR) {
                of_these.push(processes.to_string());
            }
            rows.push(row.predicted());
        }
        if !of_these.is_empty() {
            too_high.push(format!("{machines} machines with {}", of_these.join(", ")));
        }
    }
    for (number, machines) in MACHINES.iter().enumerate() {
        for (column, processes) in PROCESSES.iter().enumerate() {
            let cell = format!(
                "speed-up over 2 machines with 1 process each, {machines} machines, {processes} \
                 processes each"
            );
            let paper = papers(number, column).map(|rate| rate / PAPERS[0].1[0]);
            rows.push(ReproRow::new(cell, paper, at(number, column) / at(0, 0)).predicted());
        }
    }
    let lines = PROCESSES.iter().enumerate().map(|(column, processes)| {
        let points = MACHINES.iter().enumerate();
        let points =
            points.map(|(number, machines)| (*machines as f64, at(number, column) / at(0, 0)));
        Line::ours(format!("{processes} processes"), points.collect())
    });
    let lines_of_paper = PROCESSES.iter().enumerate().map(|(column, processes)| {
        let points = PAPERS
            .iter()
            .map(|(machines, rates)| (*machines as f64, rates[column] / PAPERS[0].1[0]));
        Line::paper(format!("{processes} processes"), points.collect())
    });
    let setup = format!(
        "Simulated: each process owns {} buckets, reaches those of its machine without verbs and all others by them, and does one \
             find-or-put after the other, of a new word and of one that it has inserted in turn; C = {CHUNK}, M = {CHUNKS}; at least {LEAST} \
             find-or-puts a process, {} in all. A verb's latency and its growth by the byte are fitted on this table's left side at load 0.5 with C = 8 and \
             128, taken for find-or-puts in the other machine's memory; what a verb occupies is what paper 003 says of ConnectX-3; nothing is fitted on \
             throughput. One machine alone uses no verbs, and virtual time charges nothing for loads: its column is not here. Switches between machines, \
             and processors that processes share, are not simulated: more than 15 % too high are the rates of {} processes each.",
        scale.slots,
        scale.lookups,
        too_high.join("; of ")
    );
    let plot = Plot {
        title: "speed-up of find-or-put over 2 machines with 1 process each".into(),
        x: Axis::linear("machines"),
        y: Axis::linear("speed-up"),
        lines: lines.chain(lines_of_paper).collect(),
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}

/// M find-or-puts a second.
fn measure(scale: &Scale, machines: usize, processes: usize) -> Result<f64> {
    let ranks = machines * processes;
    let layout = Layout::new(ranks as u64, scale.slots, 0)?;
    let world = World::new(scale.seed, das5::profile());
    let regions = vec![(layout.region_bytes(), Rights::ALL); processes];
    let nodes: Vec<_> = (0..machines)
        .map(|_| {
            let host = Some(world.add_host());
            world.add_node_with(&NodeConfig {
                host,
                ..NodeConfig::new(&regions)
            })
        })
        .collect();
    let each = (scale.lookups as usize / ranks)
        .max(LEAST)
        .min(scale.slots as usize / 2);
    let mut simulation = Simulation::new(world.clone());
    let mut tasks = Vec::new();
    for rank in 0..ranks {
        let own = rank / processes;
        let client = simulation.add_client(world.host_of(nodes[own]), Limits::default());
        let parts = (0..ranks).map(|part| {
            let (node, region) = (nodes[part / processes], RegionId((part % processes) as u16));
            if part / processes == own {
                Part::Simulated(world.node_handle(node), region)
            } else {
                Part::Remote(RemoteAddr {
                    node,
                    region,
                    offset: 0,
                })
            }
        });
        let endpoint = Rc::clone(simulation.endpoint(client));
        let reach = Reach::new(endpoint, layout, rank, parts.collect())?;
        let set = SharedWordSet::new(reach, ChunkSizes::fixed(CHUNK, CHUNKS)?);
        let seed = scale.seed.wrapping_mul(1 << 20).wrapping_add(rank as u64);
        let task = async move |_| insert_and_find(&set, each, seed).await;
        tasks.push(simulation.spawn(client, task));
    }
    match simulation.run() {
        RunEnd::Done => {}
        end => unreachable!("nothing can wait for ever, or for a time limit: {end:?}"),
    }
    for task in tasks {
        task.try_take()
            .unwrap_or_else(|| unreachable!("its run has ended"))?;
    }
    Ok((ranks * each) as f64 / world.now() as f64 * 1e3)
}

/// Half inserts, half finds.
async fn insert_and_find(set: &SharedWordSet<SimEndpoint>, count: usize, seed: u64) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut inserted: Vec<u64> = Vec::new();
    let mut wrong = 0;
    for number in 0..count {
        let is_new = number % 2 == 0;
        let word = if is_new {
            random.next_u64() & MAX_WORD
        } else {
            inserted[random.random_range(0..inserted.len())]
        };
        wrong += u64::from(set.find_or_put(word).await?.is_inserted() != is_new);
        if is_new {
            inserted.push(word);
        }
    }
    if wrong > 0 {
        return Err(LabError::wrong(wrong, count as u64));
    }
    Ok(())
}
