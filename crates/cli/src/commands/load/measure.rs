//! A first look through a file, to make a table that fits it.

use crate::commands::table_args::TableArgs;
use crate::formats::Reader;
use farslot::layout::{LARGEST_RECORD, record_block_bytes, record_bytes};
use farslot::{Expiry, FieldSize, TableOptions};
use farslot_terminal::failure::{Failure, Result};
use std::io::BufRead;

/// Keys that a table is made for, at the least.
const LEAST_CAPACITY: u64 = 1_000;
/// Heap beyond what the records need: what clients have taken and not used yet.
const SPARE_HEAP: u64 = 16 << 20;

/// Heap for records in so many bytes of blocks.
const fn heap_bytes(blocks: u64) -> u64 {
    blocks + blocks / 4 + SPARE_HEAP
}

/// What records there are to be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// How many.
    pub records: u64,
    /// Bytes of the longest key.
    pub longest_key: usize,
    /// Bytes of the longest value.
    pub longest_value: usize,
    /// Bytes of the blocks that hold them out of band.
    pub block_bytes: u64,
    /// The same where each has the moment at which it expires.
    pub expiring_block_bytes: u64,
    /// Whether the file says of any when it expires.
    pub some_expire: bool,
}

/// Looks through a file. Bad lines are passed over.
///
/// # Errors
/// If the file cannot be read.
pub fn measure<R: BufRead>(reader: &mut Reader<R>) -> Result<Measure> {
    let mut measure = Measure::default();
    while let Some(record) = reader.next().map_err(Failure::io("reading"))? {
        if let Ok(record) = record {
            measure.add(record.key.len(), record.value.len());
            measure.some_expire |= record.expires.is_some();
        }
    }
    Ok(measure)
}

impl Measure {
    /// Adds a record with a key and a value of these lengths, unless no table could hold it.
    pub fn add(&mut self, key: usize, value: usize) {
        let Some(block) = record_block_bytes(key, value) else {
            return;
        };
        self.records += 1;
        self.longest_key = self.longest_key.max(key);
        self.longest_value = self.longest_value.max(value);
        self.block_bytes += block as u64;
        let expiring = record_block_bytes(key, value + Expiry::BYTES);
        self.expiring_block_bytes += expiring.unwrap_or(block) as u64;
    }

    /// So many records, on average as long as these.
    #[must_use]
    pub fn of_so_many(self, records: u64) -> Self {
        let blocks = |bytes: u64| {
            let all = u128::from(bytes) * u128::from(records) / u128::from(self.records.max(1));
            u64::try_from(all).unwrap_or(u64::MAX)
        };
        Self {
            records,
            block_bytes: blocks(self.block_bytes),
            expiring_block_bytes: blocks(self.expiring_block_bytes),
            ..self
        }
    }

    /// A table that holds these records and a quarter more, in all that `shape` does not say.
    ///
    /// # Errors
    /// A usage failure for options that do not go together.
    pub fn options(&self, shape: &TableArgs) -> Result<TableOptions> {
        let capacity = (self.records + self.records / 4).max(LEAST_CAPACITY);
        let spec = shape.spec(Some(capacity));
        let mut options = shape.options(Some(capacity))?;
        let blocks = match spec.expiring {
            Some(true) => self.expiring_block_bytes,
            _ => self.block_bytes,
        };
        if spec.key().is_none() {
            options = options.keys(self.up_to(self.longest_key));
        }
        if spec.value().is_none() {
            options = options.values(self.up_to(self.longest_value));
        }
        if spec.heap.is_none() && spec.slots.is_none() && spec.scheme().has_heap() {
            options = options.heap_bytes(heap_bytes(blocks));
        }
        Ok(options)
    }

    /// Heap for these records, a quarter more, and what clients keep for themselves.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        heap_bytes(self.block_bytes)
    }

    /// Some room for longer fields, where a record of both may be as long.
    fn up_to(&self, longest: usize) -> FieldSize {
        let roomy = |bytes: usize| bytes.next_power_of_two().max(64);
        let both = record_bytes(roomy(self.longest_key), roomy(self.longest_value));
        let most = if both <= LARGEST_RECORD {
            roomy(longest)
        } else {
            longest.max(1)
        };
        FieldSize::UpTo(u32::try_from(most).unwrap_or(u32::MAX))
    }
}
