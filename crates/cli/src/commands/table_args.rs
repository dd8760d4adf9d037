//! The options that say what a table shall be, for `create` and `load --create`.

use bytesize::ByteSize;
use farslot::layout::{HashKind, TableSpec};
use farslot::{Evicting, IndexError, OnRestart, SchemeKind, SlotKind, StoreError, TableOptions};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{choice, number};

/// What a table shall be, beyond its capacity: the flags are the names of [`TableSpec`].
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Table options")]
pub struct TableArgs {
    /// Where a key may be, and who may write [default: linear; of a table without a capacity race]
    #[arg(long, value_name = "SCHEME", value_parser = choice::of(SchemeKind::ALL, SchemeKind::name, scheme_help))]
    pub scheme: Option<SchemeKind>,
    /// Buckets of each key in a cuckoo table, 2 to 4 [default: 3]
    #[arg(long, value_name = "N")]
    pub ways: Option<u32>,
    /// Slots of a bucket: in a cuckoo table 1 to 8 [default: 4], in a race table 4 to 32, in a duo
    /// table 4 to 16 [default: 8]
    #[arg(long, value_name = "N")]
    pub bucket_slots: Option<u32>,
    /// Bits of a slot's fingerprint in the memory of a duo table's clients, 8 to 32 [default: 16]
    #[arg(long, value_name = "BITS")]
    pub fingerprint_bits: Option<u32>,
    /// A duo table for its writer alone, without readers beside it
    #[arg(long)]
    pub writer_alone: bool,
    /// A sealed table with one slot for each key, which a perfect hash function names that clients
    /// keep: one read of one record a lookup, 99% full
    #[arg(long)]
    pub perfect: bool,
    /// Beside the perfect hash function also a filter, 9 bits a key: lookups of absent keys mostly
    /// read nothing
    #[arg(long)]
    pub filter: bool,
    /// Keys that a race, duo or chained table may grow to: their memory is set aside now, and used
    /// as it grows
    #[arg(long, value_name = "KEYS", value_parser = number::count)]
    pub grow_to: Option<u64>,
    /// Most bytes of a key [default: 256]
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub max_key: Option<u32>,
    /// Bytes of every key: fixed sizes make smaller, faster slots
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub key_size: Option<u32>,
    /// Most bytes of a value [default: 1024]
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub max_value: Option<u32>,
    /// Bytes of every value
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub value_size: Option<u32>,
    /// How full the table is, 0 to 1, when its capacity is reached [default: 0.75; of a sealed or
    /// cuckoo table 0.9, with --perfect 0.99, of a race table 0.8, of a duo table 0.95, or less
    /// with few ways and small buckets; of a set at most 0.8]
    #[arg(long, value_name = "FRACTION")]
    pub load_factor: Option<f64>,
    /// Let a key have several records
    #[arg(long)]
    pub multi_key: bool,
    /// Whether records may have a time to live (put --ttl, load --ttl), for 8 bytes more each: in
    /// linear and race tables [default: true without a capacity, else false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub expiring: Option<bool>,
    /// A cache: a record that finds no room takes the place of others, of those that were read the
    /// last ones, instead of being refused; in race tables
    #[arg(long, value_name = "RECORDS", value_parser = choice::of(Evicting::ALL, Evicting::name, eviction_help))]
    pub evict: Option<Evicting>,
    /// What a slot holds [default: what suits the sizes]
    #[arg(long, value_name = "KIND", value_parser = choice::slots())]
    pub slots: Option<SlotKind>,
    /// Bytes of key and value that a hybrid slot has room for: a multiple of 8 [default: 32]
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub inline_bytes: Option<u32>,
    /// Memory for records that do not fit into slots [default: enough for records of the largest
    /// size; of a table without a capacity all that its node has]
    #[arg(long, value_name = "SIZE")]
    pub heap: Option<ByteSize>,
    /// Memory that no other table takes, however full its node is; of a table without a capacity.
    /// Over several nodes each keeps an equal part [default: none]
    #[arg(long, value_name = "SIZE")]
    pub reserve_bytes: Option<ByteSize>,
    /// The hash function
    #[arg(long, value_name = "HASH", default_value = "xxh3", value_parser = choice::of(HashKind::ALL, HashKind::name, hash_help))]
    pub hash: HashKind,
    /// What becomes of the keys of a node that came back empty, in a table over several nodes
    #[arg(long, value_name = "WHAT", default_value = OnRestart::Refuse.name(), value_parser = choice::of(OnRestart::ALL, OnRestart::name, restart_help))]
    pub on_restart: OnRestart,
}

const fn scheme_help(scheme: SchemeKind) -> &'static str {
    match scheme {
        SchemeKind::Linear => "Beside its home slot: one read a lookup, any number of writers",
        SchemeKind::Cuckoo => "In one of a few small buckets: fuller tables, one writer at a time",
        SchemeKind::Duo => {
            "In one of two buckets, of which the clients know the slot: nearly full tables, one slot read a lookup, \
             one writer at a time"
        }
        SchemeKind::Race => {
            "In one of two places of two buckets: any number of writers, slots of removed keys are used again, and \
             the table may grow while it is used"
        }
        SchemeKind::Sealed => {
            "As linear, and never written again once it has been loaded: smaller, and misses end early"
        }
        SchemeKind::Set => {
            "Found or put, and never changed: any number of writers, each key put by exactly one of them"
        }
        SchemeKind::Chained => {
            "Written by the node, read by everybody with one read of a bucket: takes part in transactions"
        }
        SchemeKind::Ordered => {
            "In the order of keys, written by the node: takes part in transactions, and is scanned by ranges"
        }
        SchemeKind::Queue => {
            "Items without keys in the order in which they came, written by the node: push and pop"
        }
    }
}

const fn eviction_help(evict: Evicting) -> &'static str {
    match evict {
        Evicting::All => "Any",
        Evicting::Expiring => "Those with a time to live",
    }
}

const fn hash_help(hash: HashKind) -> &'static str {
    match hash {
        HashKind::Xxh3 => "XXH3 with a random seed",
        HashKind::Knuth => "Knuth's multiplicative hash, for keys of at most 8 bytes",
    }
}

const fn restart_help(on_restart: OnRestart) -> &'static str {
    match on_restart {
        OnRestart::Refuse => {
            "They fail, until the node's part is restored or the loss is accepted (accept-loss)"
        }
        OnRestart::Recreate => "They are absent, and can be put again: for caches",
    }
}

impl TableArgs {
    /// The flags, by their names.
    #[must_use]
    pub fn spec(&self, capacity: Option<u64>) -> TableSpec {
        TableSpec {
            capacity,
            scheme: self.scheme,
            key_size: self.key_size,
            max_key: self.max_key,
            value_size: self.value_size,
            max_value: self.max_value,
            ways: self.ways,
            bucket_slots: self.bucket_slots,
            fingerprint_bits: self.fingerprint_bits,
            writer_alone: self.writer_alone,
            perfect: self.perfect,
            filter: self.filter,
            grow_to: self.grow_to,
            load_factor: self.load_factor,
            multi_key: self.multi_key,
            expiring: self.expiring,
            evict: self.evict,
            slots: self.slots,
            inline_bytes: self.inline_bytes,
            heap: self.heap.map(|heap| heap.as_u64()),
            reserve_bytes: self.reserve_bytes.map(|bytes| bytes.as_u64()),
            hash: self.hash,
            on_restart: self.on_restart,
        }
    }

    /// The scheme of a table with a capacity.
    #[must_use]
    pub fn scheme(&self) -> SchemeKind {
        self.spec(Some(1)).scheme()
    }

    /// The options of a table with this capacity; without, of one that grows as far as the memory
    /// allows.
    ///
    /// # Errors
    /// A usage failure, which names the flag, for options that do not go together.
    pub fn options(&self, capacity: Option<u64>) -> Result<TableOptions> {
        self.spec(capacity).options().map_err(of_flag)
    }
}

/// The error of an option, with the name of its flag, and of another that it goes with or does not.
pub(crate) fn of_flag(error: StoreError) -> Failure {
    match error {
        StoreError::Index(IndexError::BadOption {
            option,
            value,
            limit,
        }) => {
            let flag = |option: &str| format!("--{}", option.replace('_', "-"));
            let limit = match limit.split_once(" with ") {
                Some((how @ ("not" | "only"), other)) => format!("{how} with {}", flag(other)),
                _ => limit,
            };
            let value = match &*value {
                "true" => String::new(),
                value => format!(" {value}"),
            };
            let flag = flag(option);
            Failure::Usage(format!("{flag}{value} is not possible: {limit}"))
        }
        error => error.into(),
    }
}
