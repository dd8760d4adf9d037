//! The options that say what a table shall be, for `create` and `load --create`.

use bytesize::ByteSize;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use farslot::layout::HashKind;
use farslot::{Evicting, FieldSize, NamedOptions, OnRestart, SchemeKind, TableOptions};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::number;
use farslot_terminal::slot_arg::SlotArg;

/// What a table shall be, beyond its capacity.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Table options")]
pub struct TableArgs {
    /// Where a key may be, and who may write [default: linear; of a table without a capacity race]
    #[arg(long, value_name = "SCHEME", value_parser = scheme_names())]
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
    #[arg(long, requires = "perfect")]
    pub filter: bool,
    /// Keys that a race, duo or chained table may grow to: their memory is set aside now, and used
    /// as it grows
    #[arg(long, value_name = "KEYS", value_parser = number::count)]
    pub grow_to: Option<u64>,
    /// Most bytes of a key [default: 256]
    #[arg(long, value_name = "BYTES", value_parser = key_bytes)]
    pub max_key: Option<u32>,
    /// Bytes of every key: fixed sizes make smaller, faster slots
    #[arg(long, value_name = "BYTES", value_parser = key_bytes, conflicts_with = "max_key")]
    pub key_size: Option<u32>,
    /// Most bytes of a value [default: 1024]
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    pub max_value: Option<u32>,
    /// Bytes of every value
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes, conflicts_with = "max_value")]
    pub value_size: Option<u32>,
    /// How full the table is, 0 to 1, when its capacity is reached [default: 0.75; of a sealed or
    /// cuckoo table 0.9, with --perfect 0.99, of a race table 0.8, of a duo table 0.95, or less
    /// with few ways and small buckets; of a set at most 0.8]
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
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
    #[arg(long, value_name = "RECORDS")]
    pub evict: Option<EvictArg>,
    /// What a slot holds [default: what suits the sizes]
    #[arg(long, value_name = "KIND")]
    pub slots: Option<SlotArg>,
    /// Bytes of key and value that a hybrid slot has room for: a multiple of 8 [default: 32]
    #[arg(long, value_name = "BYTES", requires = "slots", value_parser = number::field_bytes)]
    pub inline_bytes: Option<u32>,
    /// Memory for records that do not fit into slots [default: enough for records of the largest
    /// size; of a table without a capacity all that its node has]
    #[arg(long, value_name = "SIZE")]
    pub heap: Option<ByteSize>,
    /// The hash function
    #[arg(long, value_name = "HASH", default_value = "xxh3")]
    pub hash: HashArg,
    /// What becomes of the keys of a node that came back empty, in a table over several nodes
    #[arg(long, value_name = "WHAT", default_value = OnRestart::Refuse.name())]
    pub on_restart: OnRestartArg,
}

/// What becomes of the keys of a node that came back empty, as an option.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum OnRestartArg {
    /// They fail, until the node's part is restored or the loss is accepted (accept-loss)
    Refuse,
    /// They are absent, and can be put again: for caches
    Recreate,
}

impl From<OnRestartArg> for OnRestart {
    fn from(argument: OnRestartArg) -> Self {
        match argument {
            OnRestartArg::Refuse => Self::Refuse,
            OnRestartArg::Recreate => Self::Recreate,
        }
    }
}

/// The schemes by their names.
fn scheme_names() -> impl TypedValueParser<Value = SchemeKind> {
    let named = SchemeKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(help_of(kind)));
    PossibleValuesParser::new(named).map(|name| {
        let mut kinds = SchemeKind::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == name)
            .expect("one of the possible values")
    })
}

const fn help_of(scheme: SchemeKind) -> &'static str {
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

/// Which records a cache forgets, as an option.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum EvictArg {
    /// Any
    All,
    /// Those with a time to live
    Expiring,
}

impl From<EvictArg> for Evicting {
    fn from(evict: EvictArg) -> Self {
        match evict {
            EvictArg::All => Self::All,
            EvictArg::Expiring => Self::Expiring,
        }
    }
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
    /// The scheme of a table with a capacity.
    #[must_use]
    pub fn scheme(&self) -> SchemeKind {
        self.scheme.unwrap_or(SchemeKind::Linear)
    }

    /// The options of a table without a capacity: it grows as far as the memory allows.
    ///
    /// # Errors
    /// A usage failure for options that only tables with a capacity have.
    pub fn growing(&self) -> Result<TableOptions> {
        let race = SchemeKind::Race;
        if let Some(other) = self.scheme.filter(|scheme| *scheme != race) {
            let article = match other {
                SchemeKind::Ordered => "an",
                _ => "a",
            };
            return Err(Failure::Usage(format!(
                "{article} {other} table needs --capacity: only a race table grows as far as the memory allows"
            )));
        }
        let given = [
            ("--grow-to", self.grow_to.is_some()),
            ("--multi-key", self.multi_key),
            ("--slots", self.slots.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            return Err(Failure::Usage(format!("{option} needs --capacity")));
        }
        let shape = Self {
            scheme: Some(race),
            ..self.clone()
        };
        shape.refuse_options_of_others()?;
        let named = NamedOptions {
            hash: HashKind::default(),
            inline_bytes: None,
            ..shape.named(None)
        };
        Ok(named.options())
    }

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
    ///
    /// # Errors
    /// A usage failure for options that do not go together.
    pub fn options(&self, capacity: u64) -> Result<TableOptions> {
        self.refuse_options_of_others()?;
        Ok(self.named(Some(capacity)).options())
    }

    /// The options as they are given.
    fn named(&self, capacity: Option<u64>) -> NamedOptions {
        NamedOptions {
            capacity,
            scheme: Some(self.scheme()),
            key: self.key(),
            value: self.value(),
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
            evicting: self.evict.map(Into::into),
            slots: self.slots.map(Into::into),
            inline_bytes: self.inline_bytes,
            heap: self.heap.map(|heap| heap.as_u64()),
            hash: match self.hash {
                HashArg::Xxh3 => HashKind::Xxh3,
                HashArg::Knuth => HashKind::Knuth,
            },
            on_restart: self.on_restart.into(),
        }
    }

    /// Refuses what only tables of other schemes have.
    fn refuse_options_of_others(&self) -> Result<()> {
        use SchemeKind::{Chained, Cuckoo, Duo, Race, Sealed};
        let given =
            |option: &str, value: Option<u64>| value.map(|value| format!("{option} {value}"));
        let ways = given("--ways", self.ways.map(u64::from));
        let buckets = given("--bucket-slots", self.bucket_slots.map(u64::from));
        let bits = given("--fingerprint-bits", self.fingerprint_bits.map(u64::from));
        let alone = self.writer_alone.then(|| "--writer-alone".into());
        let growth = given("--grow-to", self.grow_to);
        let perfect = self.perfect.then(|| "--perfect".into());
        let key = given("--max-key", self.max_key.map(u64::from))
            .or_else(|| given("--key-size", self.key_size.map(u64::from)));
        let keyed = SchemeKind::ALL.into_iter().filter(|kind| kind.has_keys());
        let keyed: Vec<_> = keyed.collect();
        let evict = self.evict.map(|evict| {
            let value = evict.to_possible_value().expect("no value is skipped");
            format!("--evict {}", value.get_name())
        });
        let of_few: [(_, &[SchemeKind], _); 8] = [
            (ways, &[Cuckoo], "tables in which a key has so many buckets"),
            (buckets, &[Cuckoo, Duo, Race], "tables with buckets"),
            (bits, &[Duo], "tables with fingerprints"),
            (alone, &[Duo], "tables whose writer can be alone"),
            (growth, &[Duo, Race, Chained], "tables that can grow"),
            (perfect, &[Sealed], "tables that never change"),
            (key, &keyed, "tables with keys"),
            (evict, &[Race], "tables that can forget"),
        ];
        for (given, schemes, which) in of_few {
            if let Some(given) = given.filter(|_| !schemes.contains(&self.scheme())) {
                let names: Vec<_> = schemes.iter().map(|scheme| scheme.name()).collect();
                return Err(Failure::Usage(format!(
                    "{given} is for {which}: --scheme {}",
                    names.join(" or ")
                )));
            }
        }
        Ok(())
    }
}

fn size(fixed: Option<u32>, most: Option<u32>) -> Option<FieldSize> {
    fixed
        .map(FieldSize::Fixed)
        .or_else(|| most.map(FieldSize::UpTo))
}

fn key_bytes(text: &str) -> std::result::Result<u32, String> {
    match number::field_bytes(text)? {
        0 => Err("a key has at least 1 byte".into()),
        bytes => Ok(bytes),
    }
}

fn fraction(text: &str) -> std::result::Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "no number".to_string())?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("it must be above 0 and at most 1".into())
    }
}
