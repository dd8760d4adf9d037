//! Paper 004's predetermination at the client of a remote cuckoo table: round trips of insertions
//! by occupancy, and of those that have no place, with it and without.

use crate::paper000::cuckoo_tables::HashingShape;
use crate::paper000::published;
use crate::scale::Scale;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::{NicProfile, SimEndpoint, World};
use farslot::fabric::{Endpoint, Executor, Limits, Nanos, OperationCounters, Rights};
use farslot::index::cuckoo::{CuckooTable, LookupOrder};
use farslot::index::{IndexError, IndexExt, PUT, UPKEEP};
use farslot_bench::simulated::{Records, TABLE_AT};
use std::rc::Rc;

pub(crate) const ID: &str = "004-remote";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 16,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// A table, and the occupancy up to which its insertions are told apart: nearly that where none
/// finds a place any more, but for two ways and one slot, of which paper 004 drops those without a
/// place.
const TABLES: [(HashingShape, f64); 4] = [
    (shape(2, 1), 0.9),
    (shape(2, 4), 0.98),
    (shape(3, 1), 0.9),
    (shape(3, 4), 0.98),
];

const fn shape(ways: u32, bucket_slots: u32) -> HashingShape {
    HashingShape { ways, bucket_slots }
}

const OCCUPANCIES: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98];

/// Insertions without a place that end a run.
const REFUSED: u64 = 256;
/// Records that are offered at most, by the slots.
const OFFERED: u64 = 3;

/// What some insertions have cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    count: u64,
    verbs: u64,
    round_trips: u64,
    most_round_trips: u64,
    /// In simulated time.
    ns: Nanos,
}

impl Cost {
    fn add(&mut self, spent: OperationCounters, ns: Nanos) {
        self.count += spent.count;
        self.verbs += spent.verbs;
        self.round_trips += spent.round_trips;
        self.most_round_trips = self.most_round_trips.max(spent.round_trips);
        self.ns += ns;
    }

    /// A mean; 0 of none.
    fn mean(self, sum: u64) -> f64 {
        sum as f64 / self.count.max(1) as f64
    }
}

/// The insertions up to an occupancy.
struct Step {
    occupancy: f64,
    placed: Cost,
    refused: Cost,
}

/// Insertions into a table until it was full, and the survey of the full table.
struct InsertionSurvey {
    steps: Vec<Step>,
    /// Beyond the last step, until there were enough that had no place.
    beyond: Step,
    /// Of the survey of the full table.
    survey: Cost,
    graph_bytes_a_slot: f64,
}

impl InsertionSurvey {
    fn all(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain([&self.beyond])
    }

    fn refused(&self) -> Cost {
        self.all().fold(Cost::default(), |sum, step| Cost {
            count: sum.count + step.refused.count,
            verbs: sum.verbs + step.refused.verbs,
            round_trips: sum.round_trips + step.refused.round_trips,
            most_round_trips: sum.most_round_trips.max(step.refused.most_round_trips),
            ns: sum.ns + step.refused.ns,
        })
    }

    /// Of all insertions, the refused included.
    fn round_trips(&self) -> u64 {
        let steps = self.all();
        steps
            .map(|step| step.placed.round_trips + step.refused.round_trips)
            .sum()
    }
}

/// Counts it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let runs = threads::in_order(TABLES.len() * 2, |number| {
        let (table, knows) = (TABLES[number / 2], number % 2 == 1);
        progress(&line(table.0, knows));
        fill(scale, table, knows)
    })?;
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (number, filled) in runs.iter().enumerate() {
        let name = line(TABLES[number / 2].0, number % 2 == 1);
        rows.extend(rows_of(filled, &name));
        let points = filled.steps.iter();
        let points = points.map(|step| (step.occupancy, step.placed.mean(step.placed.round_trips)));
        lines.push(Line::ours(name, points.collect()));
    }
    for (pair, (shape, _)) in runs.chunks_exact(2).zip(TABLES) {
        let name = name(shape);
        let [without, with] = [&pair[0], &pair[1]];
        let saved = 1.0 - with.round_trips() as f64 / without.round_trips() as f64;
        for (cell, value) in [
            (
                format!("round trips saved in all (%), {name}"),
                100.0 * saved,
            ),
            (
                format!("bytes of graph a slot, at most, {name}"),
                with.graph_bytes_a_slot,
            ),
            (
                format!("round trips of a survey of the full table, {name}"),
                with.survey.round_trips as f64,
            ),
            (
                format!("milliseconds of a survey of the full table, {name}"),
                with.survey.ns as f64 / 1e6,
            ),
        ] {
            rows.push(ReproRow::new(cell, None, value));
        }
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots of 8 bytes behind a simulated 100 Gb/s NIC, filled by single insertions of one \
             client; each row is of the insertions since the occupancy of the row before. Insertions without a place are \
             dropped, and go on until there are {REFUSED} of them. Without predetermination a search gives \
             up after 512 buckets or 16 levels.",
            scale.slots
        ),
        rows,
        plots: vec![Plot {
            title: "round trips of an insertion that finds a place, by occupancy".into(),
            x: Axis::linear("occupancy"),
            y: Axis::linear("round trips"),
            lines,
        }],
    })
}

fn rows_of(filled: &InsertionSurvey, name: &str) -> Vec<ReproRow> {
    let mut rows = Vec::new();
    let mut row = |cell: String, value| rows.push(ReproRow::new(cell, None, value));
    for step in &filled.steps {
        let (at, placed) = (
            format!("{name}, occupancy up to {:.2}", step.occupancy),
            step.placed,
        );
        row(
            format!("round trips an insertion, {at}"),
            placed.mean(placed.round_trips),
        );
        row(
            format!("verbs an insertion, {at}"),
            placed.mean(placed.verbs),
        );
        row(
            format!("us an insertion, {at}"),
            placed.mean(placed.ns) / 1e3,
        );
    }
    let most = filled.all().map(|step| step.placed.most_round_trips).max();
    row(
        format!("most round trips of an insertion, {name}"),
        most.unwrap_or(0) as f64,
    );
    let refused = filled.refused();
    row(
        format!("insertions without a place, {name}"),
        refused.count as f64,
    );
    row(
        format!("round trips an insertion without a place, {name}"),
        refused.mean(refused.round_trips),
    );
    row(
        format!("verbs an insertion without a place, {name}"),
        refused.mean(refused.verbs),
    );
    row(
        format!("us an insertion without a place, {name}"),
        refused.mean(refused.ns) / 1e3,
    );
    row(
        format!("occupancy in the end, {name}"),
        filled.beyond.occupancy,
    );
    rows
}

fn name(shape: HashingShape) -> String {
    let plural = if shape.bucket_slots == 1 { "" } else { "s" };
    format!("{}-way, {} slot{plural}", shape.ways, shape.bucket_slots)
}

fn line(shape: HashingShape, knows: bool) -> String {
    let with = if knows {
        "predetermined"
    } else {
        "searched remotely"
    };
    format!("{}, {with}", name(shape))
}

/// One client's table, and what is offered to it.
struct Client {
    world: World,
    executor: Executor<SimEndpoint>,
    table: CuckooTable<SimEndpoint>,
    records: Records,
    /// Numbers of the records that have found a place.
    held: Vec<u32>,
    offered: u32,
}

fn fill(
    scale: &Scale,
    (shape, limit): (HashingShape, f64),
    knows: bool,
) -> Result<InsertionSurvey> {
    let mut client = Client::new(scale, shape, knows)?;
    let slots = client.table.layout().slots();
    let mut steps = Vec::new();
    for occupancy in OCCUPANCIES
        .into_iter()
        .filter(|occupancy| *occupancy <= limit)
    {
        let wanted = (slots as f64 * occupancy) as usize;
        steps.push(client.put(|client, _| client.held.len() < wanted)?);
    }
    let refused: u64 = steps.iter().map(|step| step.refused.count).sum();
    let beyond = client.put(|_, step| refused + step.refused.count < REFUSED)?;
    let survey = client.survey()?;
    client.check()?;
    let bytes = client.table.layout().predetermination_bytes();
    Ok(InsertionSurvey {
        steps,
        beyond,
        survey,
        graph_bytes_a_slot: bytes as f64 / slots as f64,
    })
}

impl Client {
    fn new(scale: &Scale, shape: HashingShape, knows: bool) -> Result<Self> {
        let seed = scale.seed_of(0);
        let layout = shape.layout(scale.slots, seed)?;
        let bytes = u64::try_from(layout.table_bytes()).unwrap_or(u64::MAX);
        let offered = u32::try_from(layout.slots() * OFFERED).unwrap_or(u32::MAX);
        let world = World::new(seed, NicProfile::connectx5_edr());
        world.add_node(&[(bytes, Rights::ALL)]);
        let executor = Executor::new(world.endpoint(Limits::default()));
        let endpoint = Rc::clone(executor.endpoint());
        let opening = CuckooTable::open(endpoint, TABLE_AT, layout, LookupOrder::Parallel);
        let mut table = executor.block_on(opening)?;
        if knows {
            table = table.with_predetermination()?;
        }
        executor.block_on(table.start_writing())?;
        Ok(Self {
            world,
            executor,
            table,
            records: published::distinct_records(seed, offered),
            held: Vec::new(),
            offered: 0,
        })
    }

    /// Puts records for as long as that is wanted, and there are any.
    fn put(&mut self, goes_on: impl Fn(&Self, &Step) -> bool) -> Result<Step> {
        let mut step = Step {
            occupancy: 0.0,
            placed: Cost::default(),
            refused: Cost::default(),
        };
        while goes_on(self, &step) && self.offered < self.records.count() {
            let record = self.offered;
            self.offered += 1;
            let (key, value) = (self.records.key(record), self.records.value(record));
            let (before, from) = (self.counted(), self.world.now());
            let put = self.executor.block_on(self.table.put(&key, &value));
            let (spent, ns) = (self.counted().since(&before), self.world.now() - from);
            match put {
                Ok(true) => {
                    step.placed.add(spent.operation(PUT), ns);
                    self.held.push(record);
                }
                Err(IndexError::Full { .. }) => step.refused.add(spent.operation(PUT), ns),
                Ok(false) => {
                    return Err(LabError::wrong(1, u64::from(self.offered)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        step.occupancy = self.held.len() as f64 / self.table.layout().slots() as f64;
        Ok(step)
    }

    fn counted(&self) -> farslot::fabric::counters::CounterSnapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    /// What it costs to become the writer of the table as it is.
    fn survey(&self) -> Result<Cost> {
        self.executor.block_on(self.table.resign())?;
        let (before, from) = (self.counted(), self.world.now());
        self.executor.block_on(self.table.start_writing())?;
        let mut cost = Cost::default();
        let spent = self.counted().since(&before).operation(UPKEEP);
        cost.add(spent, self.world.now() - from);
        Ok(cost)
    }

    /// An error unless all records are there that found a place.
    fn check(&self) -> Result<()> {
        let keys: Vec<_> = self
            .held
            .iter()
            .map(|record| self.records.key(*record))
            .collect();
        let mut answers = farslot_bench::Answers::default();
        let gets = self
            .table
            .get_many(keys.iter().map(|key| &key[..]), |number, value| {
                let record = self.held[number];
                let is_right = |value: Option<farslot::index::Value>| {
                    value.is_some_and(|value| self.records.is_value(record, &value))
                };
                answers.note(value.map(is_right));
            });
        self.executor.block_on(gets);
        Ok(answers.check()?)
    }
}
