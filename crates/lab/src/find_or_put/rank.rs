//! One process of a measurement: Farslot's table and the limit, in memory that the processes have mapped of each other.

use super::stream::{BATCH, Stream};
use super::{Options, Timed};
use crate::{LabError, Result};
use farslot::fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot::fabric::{RegionId, Rights, prefetch};
use farslot_set::job::Job;
use farslot_set::{Layout, Outcome, Segments, WordSet};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What the limit is called.
pub(super) const LIMIT: &str = "CAS";
/// Words whose cache lines are asked for before the first of them is looked at, as by the set.
const AHEAD: usize = 16;

/// The memory of all ranks, mapped here.
struct Memory {
    layout: Layout,
    parts: Vec<MappedWords>,
    /// Serves this rank's part for as long as it is held.
    _own: Node,
}

impl Memory {
    fn new(job: &mut Job, buckets: u64, number: usize) -> Result<Self> {
        let (rank, ranks) = (job.rank(), u64::from(job.ranks()));
        let layout = Layout::new(ranks, buckets / ranks, 0)?;
        let region = RegionSpec {
            len: layout.region_bytes(),
            rights: Rights::ALL,
        };
        let name = format!("find-or-put-{}-{number}", std::process::id());
        let own = Node::serve(&name, &[region])?;
        let mut parts = Vec::new();
        for (of, name) in job.all_gather(name.as_bytes())?.iter().enumerate() {
            let node = if of == rank as usize {
                own.clone()
            } else {
                shm::attach(&String::from_utf8_lossy(name), Rights::ALL)?
            };
            parts.push(MappedWords::of(&node, RegionId(0))?);
        }
        Ok(Self {
            layout,
            parts,
            _own: own,
        })
    }
}

/// Every rank's part of all measurements, in the same order; rank 0 has the times of all.
pub(super) fn measure(options: &Options, job: &mut Job) -> Result<Vec<Timed>> {
    let mut all = Vec::new();
    let mut number = 0;
    for &found in &options.found {
        let mut of_mix = ["farslot", LIMIT].map(|system| Timed {
            system,
            found,
            operations: Vec::new(),
            rounds: Vec::new(),
        });
        for _ in 0..options.rounds {
            for timed in &mut of_mix {
                number += 1;
                let memory = Memory::new(job, options.buckets, number)?;
                let stream = Stream::new(options.seed, job.rank(), job.ranks(), found);
                let (operations, spans) = if timed.system == LIMIT {
                    in_bands(job, options, stream, limit(&memory))?
                } else {
                    let set = Segments::mapped(memory.layout, job.rank() as usize, memory.parts)?;
                    in_bands(job, options, stream, farslot(&WordSet::over(set)))?
                };
                timed.operations = operations;
                timed.rounds.push(spans);
                // Nobody's memory goes before all are done with it.
                job.barrier()?;
            }
        }
        all.extend(of_mix);
    }
    Ok(all)
}

/// What is done with a batch: the elements, and how many of them are new.
fn farslot(set: &WordSet) -> impl FnMut(&[u64], u64) -> Result<()> + '_ {
    |batch, new| {
        let (mut inserted, mut full) = (0, 0);
        set.find_or_put_all(batch, |_, put| match put {
            Outcome::Inserted(_) => inserted += 1,
            Outcome::Found(_) => {}
            Outcome::Full => full += 1,
        })?;
        if inserted == new && full == 0 {
            return Ok(());
        }
        Err(LabError::wrong(
            inserted.abs_diff(new) + full,
            batch.len() as u64,
        ))
    }
}

fn limit(memory: &Memory) -> impl FnMut(&[u64], u64) -> Result<()> + '_ {
    // The buckets behind a part's header: as many as the set's.
    let each = memory.layout.buckets_per_rank();
    let header = memory.layout.region_bytes() / 8 - each;
    let all = memory.layout.buckets();
    let word = move |element: u64| {
        let home = ((u128::from(element << 1) * u128::from(all)) >> 64) as u64;
        &memory.parts[(home / each) as usize][(header + home % each) as usize]
    };
    move |batch, new| {
        for element in batch.iter().take(AHEAD) {
            prefetch(word(*element));
        }
        let mut inserted = 0;
        for (at, element) in batch.iter().enumerate() {
            if let Some(later) = batch.get(at + AHEAD) {
                prefetch(word(*later));
            }
            let word = word(*element);
            let seen = word.load(Ordering::Acquire);
            if seen != *element && inserted < new {
                // Whether it succeeds or not, it costs what it costs.
                let _ = word.compare_exchange(seen, *element, Ordering::AcqRel, Ordering::Acquire);
                inserted += 1;
            }
        }
        Ok(())
    }
}

/// Runs a stream band by band, all ranks together; returns the operations of all and the slowest one's time, of each
/// band.
fn in_bands(
    job: &mut Job,
    options: &Options,
    mut stream: Stream,
    mut each: impl FnMut(&[u64], u64) -> Result<()>,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut all_operations, mut spans) = (Vec::new(), Vec::new());
    let mut batch = Vec::with_capacity(BATCH);
    for target in Stream::targets(options.buckets, job.ranks()) {
        job.barrier()?;
        let started = Instant::now();
        let mut operations = 0;
        while stream.inserted() < target {
            let new = stream.fill(&mut batch, target);
            each(&batch, new)?;
            operations += batch.len() as u64;
        }
        let span = started.elapsed().as_nanos() as u64;
        let part = [operations, span].map(u64::to_le_bytes);
        let parts = job.all_gather(part.as_flattened())?;
        let of = |part: &[u8], at: usize| -> u64 {
            let bytes = part.get(at * 8..at * 8 + 8);
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        all_operations.push(parts.iter().map(|part| of(part, 0)).sum());
        spans.push(
            parts
                .iter()
                .map(|part| of(part, 1))
                .max()
                .unwrap_or_default(),
        );
    }
    Ok((all_operations, spans))
}
