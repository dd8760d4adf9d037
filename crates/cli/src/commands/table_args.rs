//! The options that say what a table shall be, for `create` and `load --create`.

use bytesize::ByteSize;
use clap::ValueEnum;
use farslot::{FieldSize, HashKind, SlotKind, TableOptions};

/// What a table shall be, beyond its capacity.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Table options")]
pub struct TableArgs {
    /// Most bytes of a key [default: 256]
    #[arg(long, value_name = "BYTES", value_parser = field_bytes)]
    pub max_key: Option<u32>,
    /// Bytes of every key: fixed sizes make smaller, faster slots
    #[arg(long, value_name = "BYTES", value_parser = field_bytes, conflicts_with = "max_key")]
    pub key_size: Option<u32>,
    /// Most bytes of a value [default: 1024]
    #[arg(long, value_name = "BYTES", value_parser = value_bytes)]
    pub max_value: Option<u32>,
    /// Bytes of every value
    #[arg(long, value_name = "BYTES", value_parser = value_bytes, conflicts_with = "max_value")]
    pub value_size: Option<u32>,
    /// How full the table is, 0 to 1, when its capacity is reached
    #[arg(long, value_name = "FRACTION", default_value = "0.75", value_parser = fraction)]
    pub load_factor: f64,
    /// Let a key have several records
    #[arg(long)]
    pub multi_key: bool,
    /// What a slot holds [default: what suits the sizes]
    #[arg(long, value_name = "KIND")]
    pub slots: Option<SlotArg>,
    /// Bytes of key and value that a hybrid slot has room for: a multiple of 8 [default: 32]
    #[arg(long, value_name = "BYTES", requires = "slots")]
    pub inline_bytes: Option<u32>,
    /// Memory for records that do not fit into slots [default: enough for records of the largest size]
    #[arg(long, value_name = "SIZE")]
    pub heap: Option<ByteSize>,
    /// The hash function
    #[arg(long, value_name = "HASH", default_value = "xxh3")]
    pub hash: HashArg,
}

/// What a slot holds, as an option.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum SlotArg {
    /// Key and value in one word of 63 bits
    Word,
    /// A word of key and a word of value
    Pair,
    /// Key and value of fixed sizes
    Inline,
    /// A reference to a record elsewhere
    Heap,
    /// Key and value of any sizes where they fit, else a reference
    Hybrid,
}

/// The hash function, as an option.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum HashArg {
    /// XXH3 with a random seed
    Xxh3,
    /// Knuth's multiplicative hash, for keys of at most 8 bytes
    Knuth,
}

impl TableArgs {
    /// The size of the keys, if it was said.
    #[must_use]
    pub fn key(&self) -> Option<FieldSize> {
        size(self.key_size, self.max_key)
    }

    /// The size of the values, if it was said.
    #[must_use]
    pub fn value(&self) -> Option<FieldSize> {
        size(self.value_size, self.max_value)
    }

    /// The options of a table with this capacity.
    #[must_use]
    pub fn options(&self, capacity: u64) -> TableOptions {
        let mut options = TableOptions::new(capacity)
            .load_factor(self.load_factor)
            .hash(match self.hash {
                HashArg::Xxh3 => HashKind::Xxh3,
                HashArg::Knuth => HashKind::Knuth,
            });
        if let Some(key) = self.key() {
            options = options.keys(key);
        }
        if let Some(value) = self.value() {
            options = options.values(value);
        }
        if let Some(slot) = self.slots {
            options = options.slots(match slot {
                SlotArg::Word => SlotKind::Word,
                SlotArg::Pair => SlotKind::Pair,
                SlotArg::Inline => SlotKind::Inline,
                SlotArg::Heap => SlotKind::Heap,
                SlotArg::Hybrid => SlotKind::Hybrid,
            });
        }
        if let Some(bytes) = self.inline_bytes {
            options = options.inline_bytes(bytes);
        }
        if let Some(heap) = self.heap {
            options = options.heap_bytes(heap.as_u64());
        }
        if self.multi_key {
            options = options.multi_key();
        }
        options
    }
}

fn size(fixed: Option<u32>, most: Option<u32>) -> Option<FieldSize> {
    fixed
        .map(FieldSize::Fixed)
        .or_else(|| most.map(FieldSize::UpTo))
}

/// A number of at least 1, which may be written as `1_000_000`.
///
/// # Errors
/// Says what is no such number.
pub fn count(text: &str) -> Result<u64, String> {
    match text.replace('_', "").parse() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

fn field_bytes(text: &str) -> Result<u32, String> {
    match value_bytes(text)? {
        0 => Err("a key has at least 1 byte".into()),
        bytes => Ok(bytes),
    }
}

fn value_bytes(text: &str) -> Result<u32, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|_| "no size such as 64 or 4KiB".to_string())?;
    u32::try_from(size.as_u64()).map_err(|_| format!("over the limit of {}", u32::MAX))
}

fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "no number".to_string())?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("it must be above 0 and at most 1".into())
    }
}
