//! The tables, side by side in one region, and clients of each scheme.

use super::Options;
use crate::answers::Answers;
use crate::gets::{self, ReadsTaken};
use crate::{Keys, Progress, Result, paper000, threads};
use farslot::fabric::shm::{Node, ShmEndpoint};
use farslot::fabric::{
    Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, window,
};
use farslot::index::cuckoo::{CuckooLayout, CuckooOptions, CuckooTable, LookupOrder};
use farslot::index::linear::{LinearLayout, LinearTable, ReadPolicy, ReadSizes};
use farslot::index::sealed::{SealedForm, SealedOptions, SealedTable, SlotOrder};
use farslot::index::{BATCH_WIDTH, FieldSize, Index, IndexExt, IndexError, KeyRule, SlotKind};
use farslot::model::Objective;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Bytes of a table beside its slots: its header, and what follows the last home of a sealed one.
const BESIDES: u64 = 1 << 16;
/// Bytes that are zeroed by one WRITE.
const PIECE: usize = 1 << 20;
/// Records that a thread puts at a time.
const AT_A_TIME: u32 = 1 << 14;

/// Where each table lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Areas {
    each: u64,
}

impl Areas {
    pub(super) const fn new(table_bytes: u64) -> Self {
        Self {
            each: table_bytes + BESIDES,
        }
    }

    const fn at(self, number: u64) -> RemoteAddr {
        RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset: number * self.each,
        }
    }

    /// The end of the last one.
    pub(super) const fn end(self) -> u64 {
        4 * self.each
    }
}

/// Which table lies where: unique keys, keys that may have several records, cuckoo, sealed.
const UNIQUE: u64 = 0;
const MULTI: u64 = 1;
const CUCKOO: u64 = 2;
const SEALED: u64 = 3;

/// The value of key number `index`: 31 bits.
fn value_of(index: u32) -> [u8; 4] {
    (index & (u32::MAX >> 1)).to_le_bytes()
}

pub(super) struct Tables {
    node: Node,
    areas: Areas,
    keys: Keys,
    options: Options,
    unique: LinearLayout,
    multi: LinearLayout,
    cuckoo: CuckooLayout,
    /// Records in the linear tables; the others are built anew at each load.
    records: u32,
}

impl Tables {
    pub(super) fn new(node: Node, options: &Options) -> Result<Self> {
        let slots = options.table_bytes / 8;
        let four = FieldSize::Fixed(4);
        let cuckoo = CuckooOptions {
            load_factor: 1.0,
            slot: Some(SlotKind::Word),
            ..CuckooOptions::new(slots, four, four, options.seed)
        };
        Ok(Self {
            areas: Areas::new(options.table_bytes),
            keys: Keys::new(options.seed),
            unique: paper000::layout(slots, KeyRule::Unique, options.seed)?,
            multi: paper000::layout(slots, KeyRule::Multi, options.seed)?,
            cuckoo: cuckoo.layout()?,
            options: options.clone(),
            node,
            records: 0,
        })
    }

    fn executor(&self) -> Executor<ShmEndpoint> {
        let endpoint = ShmEndpoint::new(vec![self.node.clone()], Limits::default());
        Executor::new(Rc::new(endpoint))
    }

    /// Brings all tables to so many records.
    pub(super) fn fill(&mut self, records: u32, load: f64, progress: Progress<'_>) -> Result<()> {
        for (area, layout) in [(UNIQUE, &self.unique), (MULTI, &self.multi)] {
            progress(&format!("load {load}: filling a linear table"));
            self.fill_linear(area, layout, records)?;
        }
        self.records = records;
        let owned: Vec<_> = (0..records)
            .map(|index| (self.keys.short(index), value_of(index)))
            .collect();
        let borrowed: Vec<_> = owned
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        progress(&format!("load {load}: building the cuckoo table"));
        let executor = self.executor();
        let endpoint = || Rc::clone(executor.endpoint());
        self.clear(&executor, CUCKOO)?;
        let opening = CuckooTable::open(
            endpoint(),
            self.areas.at(CUCKOO),
            self.cuckoo.clone(),
            LookupOrder::Parallel,
        );
        let cuckoo = executor.block_on(opening)?;
        executor.block_on(cuckoo.build(&borrowed))?;
        progress(&format!("load {load}: building the sealed table"));
        self.clear(&executor, SEALED)?;
        let sealed = executor.block_on(self.open_sealed(endpoint(), load))?;
        Ok(executor.block_on(sealed.build(&borrowed))?)
    }

    /// Makes an area an empty table.
    fn clear(&self, executor: &Executor<ShmEndpoint>, area: u64) -> Result<()> {
        let (at, bytes) = (self.areas.at(area), self.areas.each);
        let endpoint = executor.endpoint();
        for offset in (0..bytes).step_by(PIECE) {
            let mut zeros = endpoint
                .core()
                .buffers
                .take(PIECE.min((bytes - offset) as usize))?;
            zeros.fill(0);
            executor.block_on(endpoint.write(at.plus(offset), zeros))?;
        }
        Ok(())
    }

    fn fill_linear(&self, area: u64, layout: &LinearLayout, records: u32) -> Result<()> {
        let next = AtomicU32::new(self.records);
        let policy = ReadPolicy::throughput(self.options.nic);
        let sizes = ReadSizes::new(layout, policy)?;
        let (node, keys, at) = (&self.node, self.keys, self.areas.at(area));
        threads::on_each(threads::available(), || {
            let endpoint = Rc::new(ShmEndpoint::new(vec![node.clone()], Limits::default()));
            let executor = Executor::new(Rc::clone(&endpoint));
            let opening = LinearTable::open(endpoint, at, layout.clone(), sizes.clone());
            let table = executor.block_on(opening)?;
            let mut answers = Answers::default();
            loop {
                let first = next.fetch_add(AT_A_TIME, Ordering::Relaxed);
                if first >= records {
                    break;
                }
                let piece: Vec<_> = (first..records.min(first.saturating_add(AT_A_TIME)))
                    .map(|index| (keys.short(index), value_of(index)))
                    .collect();
                let piece = piece.iter().map(|(key, value)| (&key[..], &value[..]));
                executor.block_on(table.put_many(piece, |_, new| answers.note(new)));
            }
            executor.block_on(table.flush())?;
            answers.check()
        })
    }

    async fn open_sealed(
        &self,
        endpoint: Rc<ShmEndpoint>,
        load: f64,
    ) -> Result<SealedTable<ShmEndpoint>> {
        let four = FieldSize::Fixed(4);
        let layout = SealedOptions {
            load_factor: load,
            form: Some(SealedForm::Inline),
            order: SlotOrder::ByHash,
            ..SealedOptions::new(four, four, self.options.seed)
        };
        let layout = layout.layout(
            (self.options.table_bytes as f64 / 8.0 * load).round() as u64,
            0,
        )?;
        let policy = ReadPolicy::throughput(self.options.nic);
        Ok(SealedTable::open(endpoint, self.areas.at(SEALED), layout, policy).await?)
    }

    /// A client of each scheme.
    pub(super) fn open(&self, load: f64) -> Result<Vec<Box<dyn Scheme>>> {
        let nic = self.options.nic;
        // Paper 000: latency counts, lookups miss, and the link's bandwidth bounds a READ.
        let papers = ReadPolicy::Modelled {
            nic,
            objective: Objective::Latency,
            hit_ratio: 0.0,
            capped: true,
        };
        let mut schemes: Vec<Box<dyn Scheme>> = Vec::new();
        let linear = [
            (
                "linear, all matches, fixed 256 B",
                MULTI,
                &self.multi,
                ReadPolicy::Fixed(32),
            ),
            ("linear, all matches, variable", MULTI, &self.multi, papers),
            (
                "linear, stop at match",
                UNIQUE,
                &self.unique,
                ReadPolicy::throughput(nic),
            ),
        ];
        for (name, area, layout, policy) in linear {
            let executor = self.executor();
            let endpoint = Rc::clone(executor.endpoint());
            let sizes = ReadSizes::new(layout, policy)?;
            let opening = LinearTable::open(endpoint, self.areas.at(area), layout.clone(), sizes);
            let table = executor.block_on(opening)?;
            let slots = Some(table.read_size());
            schemes.push(Client::boxed(name, executor, table, area == MULTI, slots));
        }
        for (name, order) in [
            ("cuckoo 3 x 4, parallel", LookupOrder::Parallel),
            ("cuckoo 3 x 4, sequential", LookupOrder::Sequential),
        ] {
            let executor = self.executor();
            let endpoint = Rc::clone(executor.endpoint());
            let opening =
                CuckooTable::open(endpoint, self.areas.at(CUCKOO), self.cuckoo.clone(), order);
            let table = executor.block_on(opening)?;
            schemes.push(Client::boxed(name, executor, table, false, None));
        }
        let executor = self.executor();
        let table = executor.block_on(self.open_sealed(Rc::clone(executor.endpoint()), load))?;
        let slots = Some(table.read_size());
        schemes.push(Client::boxed(
            "sealed, by hash",
            executor,
            table,
            false,
            slots,
        ));
        Ok(schemes)
    }
}

/// One scheme as it is measured.
pub(super) trait Scheme {
    fn name(&self) -> &'static str;
    /// Slots of a READ.
    fn read_slots(&self) -> Option<u64>;
    /// Looks up keys, which are all there or all not; returns lookups/s.
    fn lookups(&self, keys: &[(u32, [u8; 4])], are_there: bool) -> Result<f64>;
    /// READs per lookup of hits or of misses, so far.
    fn reads_per_lookup(&self, hits: bool) -> f64;
}

struct Client<I> {
    name: &'static str,
    executor: Executor<ShmEndpoint>,
    table: I,
    /// Whether a lookup returns all records of its key.
    all_matches: bool,
    read_slots: Option<u64>,
    reads_taken: ReadsTaken,
}

impl<I: Index + 'static> Client<I> {
    fn boxed(
        name: &'static str,
        executor: Executor<ShmEndpoint>,
        table: I,
        all_matches: bool,
        read_slots: Option<u64>,
    ) -> Box<dyn Scheme> {
        Box::new(Self {
            name,
            executor,
            table,
            all_matches,
            read_slots,
            reads_taken: ReadsTaken::default(),
        })
    }

    fn reads_posted(&self) -> u64 {
        use farslot::fabric::VerbKind::{Read, ReadMany};
        let counted = self.executor.endpoint().core().counters.snapshot();
        counted.verbs_of(Read) + counted.verbs_of(ReadMany)
    }

    /// Gets all records of these keys, of which each has one, or none; returns lookups/s.
    fn get_all(&self, keys: &[(u32, [u8; 4])], are_there: bool) -> Result<f64> {
        let found = usize::from(are_there);
        let lookups = keys.iter().map(async |(number, key)| {
            let values = self.table.get_all(key).await?;
            let rightly = values.iter().all(|value| **value == value_of(*number));
            Ok::<_, IndexError>(rightly && values.len() == found)
        });
        let mut answers = Answers::default();
        let since = Instant::now();
        let looking = window(BATCH_WIDTH, lookups, |_, answer| answers.note(answer));
        self.executor.block_on(looking);
        let rate = keys.len() as f64 / since.elapsed().as_secs_f64();
        answers.check()?;
        Ok(rate)
    }

    fn get(&self, keys: &[(u32, [u8; 4])], are_there: bool) -> Result<f64> {
        let slices = keys.iter().map(|(_, key)| &key[..]);
        gets::per_second(&self.executor, &self.table, slices, |at| {
            are_there.then(|| value_of(keys[at].0))
        })
    }
}

impl<I: Index + 'static> Scheme for Client<I> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read_slots(&self) -> Option<u64> {
        self.read_slots
    }

    fn lookups(&self, keys: &[(u32, [u8; 4])], are_there: bool) -> Result<f64> {
        let before = self.reads_posted();
        let rate = match self.all_matches {
            true => self.get_all(keys, are_there)?,
            false => self.get(keys, are_there)?,
        };
        let reads = self.reads_posted() - before;
        self.reads_taken.add(are_there, keys.len(), reads);
        Ok(rate)
    }

    fn reads_per_lookup(&self, hits: bool) -> f64 {
        self.reads_taken.per_lookup(hits)
    }
}
