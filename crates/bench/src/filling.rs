//! Tables of paper 000's records, filled step by step in memory of this process and loaded from there
//! into simulated nodes: an insertion costs less here than simulated verbs do, and the bytes are the
//! same.

use crate::answers::Answers;
use crate::keys::Keys;
use crate::{Result, paper000};
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, World};
use farslot::fabric::{EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, Rights};
use farslot::index::Index;
use farslot::index::linear::{KeyRule, LinearLayout, LinearTable, ReadPolicy, ReadSizes};
use farslot::model::NicModel;
use std::rc::Rc;

/// Where the table lies, here and in the simulated node.
pub(crate) const TABLE_AT: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// Bytes that are loaded at a time.
const PIECE: usize = 1 << 20;

/// A table of 8-byte records that is being filled. Key number i has the value that [`value_of`] gives.
pub(crate) struct Filling {
    executor: Executor<ShmEndpoint>,
    table: LinearTable<ShmEndpoint>,
    keys: Keys,
    records: u32,
}

/// The value of key number `index`: 31 bits.
#[inline]
pub(crate) fn value_of(index: u32) -> [u8; 4] {
    (index & (u32::MAX >> 1)).to_le_bytes()
}

impl Filling {
    /// An empty table.
    pub(crate) fn new(slots: u64, rule: KeyRule, seed: u64) -> Result<Self> {
        let layout = paper000::layout(slots, rule, seed)?;
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
        Ok(Self {
            executor,
            table,
            keys: Keys::new(seed),
            records: 0,
        })
    }

    /// What a client must know of the table.
    pub(crate) fn layout(&self) -> &LinearLayout {
        self.table.layout()
    }

    /// The keys of the table: the first [`records`](Self::records) of these.
    pub(crate) fn keys(&self) -> Keys {
        self.keys
    }

    /// How many records it has.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Puts records until so much of the table is full.
    pub(crate) fn fill_to(&mut self, load: f64) -> Result<()> {
        const AT_A_TIME: u32 = 1 << 12;
        let wanted = (self.layout().slots as f64 * load).round() as u32;
        while self.records < wanted {
            let end = wanted.min(self.records.saturating_add(AT_A_TIME));
            let records: Vec<_> = (self.records..end)
                .map(|index| (self.keys.short(index), value_of(index)))
                .collect();
            let records = records.iter().map(|(key, value)| (&key[..], &value[..]));
            let mut answers = Answers::default();
            let puts = self.table.put_many(records, |_, new| answers.note(new));
            self.executor.block_on(puts);
            answers.check()?;
            self.records = end;
        }
        Ok(self.executor.block_on(self.table.flush())?)
    }

    /// A world with one node that holds the table as it is now.
    pub(crate) fn world(&self, seed: u64, profile: NicProfile) -> Result<World> {
        copy_to_world(&self.executor, self.layout(), seed, profile)
    }
}

/// A world with one node that holds a table as it is now, at [`TABLE_AT`] here and there.
pub(crate) fn copy_to_world(
    executor: &Executor<ShmEndpoint>,
    layout: &LinearLayout,
    seed: u64,
    profile: NicProfile,
) -> Result<World> {
    let bytes = layout.table_bytes() as u64;
    let world = World::new(seed, profile);
    let node = world.add_node(&[(bytes, Rights::ALL)]);
    let node = world.node_handle(node);
    let endpoint = executor.endpoint();
    for offset in (0..bytes).step_by(PIECE) {
        let len = PIECE.min((bytes - offset) as usize);
        let piece = endpoint.read(TABLE_AT.plus(offset), len);
        let piece = executor.block_on(piece)?;
        node.with_region_mut(TABLE_AT.region, |words| {
            let first = (offset / 8) as usize;
            words[first..first + piece.words().len()].copy_from_slice(piece.words());
        });
    }
    Ok(world)
}
