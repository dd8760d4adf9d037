//! Tables that are written in memory of this process.

use super::memory::TableMemory;
use super::records::Records;
use super::table::SimulatedTable;
use crate::Result;
use crate::answers::Answers;
use farslot::index::cuckoo::CuckooLayout;
use farslot::index::linear::LinearLayout;
use farslot::index::sealed::{SealedLayout, SealedOptions};
use farslot::index::{AnyIndex, IndexExt};
use farslot::layout::Scheme;
use farslot::{LookupOrder, OpenOptions, ReadPolicy};

/// Records that are put at a time.
const AT_A_TIME: u32 = 1 << 12;

/// A linear table that is filled step by step.
pub struct Filling {
    memory: TableMemory,
    layout: LinearLayout,
    table: AnyIndex,
    records: u32,
}

impl Filling {
    /// An empty table.
    ///
    /// # Errors
    /// For a layout that no table has, or where there is not so much memory.
    pub fn new(layout: LinearLayout) -> Result<Self> {
        let memory = TableMemory::new(layout.table_bytes())?;
        let table = SimulatedTable::new(Scheme::Linear(layout.clone()), &OpenOptions::default());
        let executor = memory.executor();
        let table = executor.block_on(table.open(executor.endpoint()))?;
        Ok(Self {
            memory,
            layout,
            table,
            records: 0,
        })
    }

    /// What a client must know of the table.
    #[must_use]
    pub fn layout(&self) -> &LinearLayout {
        &self.layout
    }

    /// The memory that the table lies in.
    #[must_use]
    pub fn memory(&self) -> &TableMemory {
        &self.memory
    }

    /// Bytes of the slots, and of the heap as far as it is taken.
    ///
    /// # Errors
    /// What the table says.
    pub fn bytes_taken(&self) -> Result<u64> {
        let occupancy = self.memory.executor().block_on(self.table.occupancy())?;
        let slots = occupancy.slots * self.layout().slot_bytes() as u64;
        Ok(slots + occupancy.heap_used)
    }

    /// How many records fill the table up to a load factor.
    #[must_use]
    pub fn records_at(&self, load: f64) -> u32 {
        (self.layout().slots as f64 * load).round() as u32
    }

    /// Puts those of the records that it does not have yet: it has the first ones.
    ///
    /// # Errors
    /// [`BenchError::WrongAnswers`](crate::BenchError::WrongAnswers) where a record is not new, or
    /// what the table says.
    pub fn fill_with(&mut self, records: &Records) -> Result<()> {
        let executor = self.memory.executor();
        while self.records < records.count() {
            let end = records.count().min(self.records.saturating_add(AT_A_TIME));
            let piece: Vec<_> = (self.records..end)
                .map(|record| (records.key(record), records.value(record)))
                .collect();
            let piece = piece.iter().map(|(key, value)| (&key[..], &value[..]));
            let mut answers = Answers::default();
            executor.block_on(self.table.put_many(piece, |_, new| answers.note(new)));
            answers.check()?;
            self.records = end;
        }
        Ok(executor.block_on(self.table.flush())?)
    }
}

/// The memory of a sealed cuckoo table with these records.
///
/// # Errors
/// Where the records have no place, or what the table says.
pub fn built_cuckoo(layout: &CuckooLayout, records: &Records) -> Result<TableMemory> {
    let memory = TableMemory::new(layout.table_bytes())?;
    let executor = memory.executor();
    let table = SimulatedTable::cuckoo(layout.clone(), LookupOrder::Parallel);
    let table = executor.block_on(table.open(executor.endpoint()))?;
    let owned = records.owned();
    executor.block_on(table.build(&borrowed(&owned)))?;
    Ok(memory)
}

/// A sealed linear table.
pub struct BuiltSealed {
    /// The memory that it lies in.
    pub memory: TableMemory,
    /// What a client must know of it.
    pub layout: SealedLayout,
}

impl BuiltSealed {
    /// The table of exactly these records.
    ///
    /// # Errors
    /// For options that no table has, or what the table says.
    pub fn new(options: &SealedOptions, records: &Records) -> Result<Self> {
        let owned = records.owned();
        let borrowed = borrowed(&owned);
        let layout = options.layout_for(&borrowed)?;
        let memory = TableMemory::new(layout.table_bytes())?;
        let built = Self { memory, layout };
        // Whoever builds reads nothing.
        let table = built.open(ReadPolicy::Fixed(1))?;
        built.memory.executor().block_on(table.build(&borrowed))?;
        Ok(built)
    }

    /// Slots of a READ by a policy: found once, in place of by each client.
    ///
    /// # Errors
    /// For a policy that the model refuses.
    pub fn read_size(&self, policy: ReadPolicy) -> Result<u32> {
        Ok(self.open(policy)?.state().read_size as u32)
    }

    fn open(&self, policy: ReadPolicy) -> Result<AnyIndex> {
        let table = SimulatedTable::by_policy(Scheme::Sealed(self.layout.clone()), policy);
        let executor = self.memory.executor();
        executor.block_on(table.open(executor.endpoint()))
    }
}

fn borrowed<const KEY: usize>(records: &[([u8; KEY], Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let records = records.iter();
    records.map(|(key, value)| (&key[..], &value[..])).collect()
}
