//! Tables of records of many sizes: filled in memory of this process, measured behind a simulated NIC.

use crate::answers::Answers;
use crate::filling::{TABLE_AT, copy_to_world};
use crate::lookup_sim::clients::{Clients, Rates};
use crate::{BenchError, Keys, Result};
use farslot::FieldSize;
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, SimEndpoint, World};
use farslot::fabric::{Executor, Limits, Nanos, Rights, window};
use farslot::index::linear::{LinearLayout, LinearTable, ReadPolicy, ReadSizes};
use farslot::index::{Index, Value, heap};
use farslot::model::{NicModel, RecordSize};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::iter;
use std::rc::Rc;

/// Bytes of every key.
pub(super) const KEY_BYTES: usize = 4;

/// Records of which each has a size of a mix, in proportion.
#[derive(Clone)]
pub(super) struct Records {
    keys: Keys,
    /// Bytes of each record's value.
    values: Rc<[u16]>,
    /// Values are padded to that many bytes, where the table holds no shorter ones.
    padded: Option<usize>,
}

impl Records {
    /// So many records, of sizes of at most 2^16 bytes that include the key.
    pub(super) fn new(count: u32, sizes: &[RecordSize], seed: u64) -> Self {
        let total: f64 = sizes.iter().map(|size| size.weight).sum();
        let value_of = |index: u32| {
            // Multiples of the golden ratio spread evenly: of any stretch of records each size has its
            // share, and chance adds nothing to what is measured.
            let mut left = (f64::from(index) * 0.618_033_988_749_894_9).fract() * total;
            let reached = sizes.iter().find(|size| {
                left -= size.weight;
                left < 0.0
            });
            let bytes = reached.or(sizes.last()).map_or(0, |size| size.bytes);
            bytes.saturating_sub(KEY_BYTES) as u16
        };
        Self {
            keys: Keys::new(seed),
            values: (0..count).map(value_of).collect(),
            padded: None,
        }
    }

    /// The same, with values of one size.
    pub(super) fn padded_to(&self, value: usize) -> Self {
        Self {
            padded: Some(value),
            ..self.clone()
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.values.len() as u32
    }

    /// The size of the values, for a table's options.
    pub(super) fn value_size(&self) -> FieldSize {
        match self.padded {
            Some(bytes) => FieldSize::Fixed(bytes as u32),
            None => FieldSize::UpTo(self.values.iter().copied().max().unwrap_or(0).into()),
        }
    }

    /// The heap that holds them all, whatever the slots hold, with what lies idle in it.
    pub(super) fn heap_bytes(&self) -> u64 {
        let blocks = self.values.iter().map(|value| {
            let bytes = heap::record_bytes(KEY_BYTES, usize::from(*value));
            heap::class_for(bytes).map_or(0, heap::block_bytes) as u64
        });
        blocks.sum::<u64>() / 8 * 9 + (1 << 20)
    }

    fn key(&self, index: u32) -> [u8; KEY_BYTES] {
        self.keys.short(index)
    }

    fn value(&self, index: u32) -> Vec<u8> {
        let len = usize::from(self.values[index as usize]);
        let mut value: Vec<u8> = (0..len).map(|at| byte(index, at)).collect();
        value.resize(self.padded.unwrap_or(len), 0);
        value
    }

    /// Whether a lookup has found the record: its length, and its first and last word.
    fn is(&self, index: u32, found: Option<&[u8]>) -> bool {
        let len = usize::from(self.values[index as usize]);
        let Some(found) = found else {
            return false;
        };
        let here = |at| found[at] == byte(index, at);
        found.len() == self.padded.unwrap_or(len)
            && (0..len.min(8)).all(here)
            && (len.saturating_sub(8)..len).all(here)
    }
}

fn byte(index: u32, at: usize) -> u8 {
    (index.rotate_left(at as u32 % 32) as u8).wrapping_add(at as u8)
}

/// A table that holds its records.
pub(super) struct Filled {
    executor: Executor<ShmEndpoint>,
    table: LinearTable<ShmEndpoint>,
    records: Records,
}

impl Filled {
    /// Puts the records into a new table.
    pub(super) fn new(layout: LinearLayout, records: Records) -> Result<Self> {
        const AT_A_TIME: u32 = 1 << 12;
        let region = RegionSpec {
            len: layout.table_bytes() as u64,
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region])?;
        let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
        let executor = Executor::new(Rc::clone(&endpoint));
        let policy = ReadPolicy::throughput(NicModel::shared_memory());
        let sizes = ReadSizes::new(&layout, policy)?;
        let table = executor.block_on(LinearTable::open(endpoint, TABLE_AT, layout, sizes))?;
        for first in (0..records.count()).step_by(AT_A_TIME as usize) {
            let end = records.count().min(first + AT_A_TIME);
            let some: Vec<_> = (first..end)
                .map(|index| (records.key(index), records.value(index)))
                .collect();
            let some = some.iter().map(|(key, value)| (&key[..], &value[..]));
            let mut answers = Answers::default();
            executor.block_on(table.put_many(some, |_, new| answers.note(new)));
            answers.check()?;
        }
        executor.block_on(table.flush())?;
        Ok(Self {
            executor,
            table,
            records,
        })
    }

    pub(super) fn layout(&self) -> &LinearLayout {
        self.table.layout()
    }

    /// Bytes of slots and of heap that was taken, per record.
    pub(super) fn memory(&self) -> Result<f64> {
        let occupancy = self.executor.block_on(self.table.occupancy())?;
        let slots = occupancy.slots * self.layout().slot_bytes() as u64;
        Ok((slots + occupancy.heap_used) as f64 / f64::from(self.records.count()))
    }

    /// What the client threads of one machine do in a second, with so many lookups under way in each.
    pub(super) fn rates(
        &self,
        profile: &NicProfile,
        sizes: &ReadSizes,
        width: usize,
        span: Nanos,
        seed: u64,
    ) -> Result<Rates> {
        let client = |endpoint, seed| {
            let (layout, sizes) = (self.layout().clone(), sizes.clone());
            look_up_for_ever(endpoint, layout, sizes, self.records.clone(), width, seed)
        };
        let clients = Clients::start(self.world(profile, seed)?, seed, client);
        // A lookup in slots of 1 KiB takes some 100 us where 28 threads have 24 under way each.
        clients.rates_after(span / 2, span)
    }

    /// Nanoseconds of so many lookups, each of a client that has no other under way; sorted.
    pub(super) fn latencies(
        &self,
        profile: &NicProfile,
        sizes: &ReadSizes,
        lookups: u32,
        seed: u64,
    ) -> Result<Vec<Nanos>> {
        let world = self.world(profile, seed)?;
        let endpoint = world.endpoint(Limits::default());
        let executor = Executor::new(Rc::clone(&endpoint));
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (layout, sizes) = (self.layout().clone(), sizes.clone());
        executor.block_on(async {
            let table = LinearTable::open(endpoint, TABLE_AT, layout, sizes).await?;
            let mut latencies = Vec::with_capacity(lookups as usize);
            let mut answers = Answers::default();
            for _ in 0..lookups {
                let index = random.random_range(0..self.records.count());
                let since = table.now();
                let found = table.get(&self.records.key(index)).await;
                latencies.push(table.now() - since);
                answers.note(self.records.judge(index, found));
            }
            answers.check()?;
            latencies.sort_unstable();
            Ok(latencies)
        })
    }

    fn world(&self, profile: &NicProfile, seed: u64) -> Result<World> {
        copy_to_world(&self.executor, self.layout(), seed, profile.clone())
    }
}

impl Records {
    fn judge(
        &self,
        index: u32,
        found: farslot::index::Result<Option<Value>>,
    ) -> farslot::index::Result<bool> {
        found.map(|value| self.is(index, value.as_deref()))
    }
}

/// Looks up random records until an answer is wrong.
async fn look_up_for_ever(
    endpoint: Rc<SimEndpoint>,
    layout: LinearLayout,
    sizes: ReadSizes,
    records: Records,
    width: usize,
    seed: u64,
) -> BenchError {
    let table = match LinearTable::open(endpoint, TABLE_AT, layout, sizes).await {
        Ok(table) => table,
        Err(error) => return error.into(),
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let failed = RefCell::new(None);
    let next = || {
        let going = failed.borrow().is_none();
        going.then(|| random.random_range(0..records.count()))
    };
    let lookups = iter::from_fn(next).map(|index| {
        let (table, records) = (&table, &records);
        async move { records.judge(index, table.get(&records.key(index)).await) }
    });
    window(width, lookups, |_, answer| {
        let mut answers = Answers::default();
        answers.note(answer);
        if let Err(error) = answers.check() {
            *failed.borrow_mut() = Some(error);
        }
    })
    .await;
    failed.take().expect("lookups end by an error only")
}
