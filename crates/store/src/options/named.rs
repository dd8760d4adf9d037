//! Options by their names, as text: for languages and files that have no builder.

use super::{HashKind, TableOptions};
use crate::error::bad_option;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::{OnRestart, Result};
use bytesize::ByteSize;
use farslot_index::heap::Evicting;
use farslot_index::{FieldSize, SchemeKind, SlotKind};
use std::str::FromStr;

/// The names, for messages.
const NAMES: &str = "one of capacity, scheme, key_size, max_key, value_size, max_value, grow_to, \
                     load_factor, multi_key, expiring, evicting, ways, bucket_slots, \
                     fingerprint_bits, writer_alone, perfect, filter, slots, inline_bytes, heap, \
                     hash, on_restart";

const SLOTS: [(&str, SlotKind); 6] = [
    ("word", SlotKind::Word),
    ("pair", SlotKind::Pair),
    ("inline", SlotKind::Inline),
    ("heap", SlotKind::Heap),
    ("hybrid", SlotKind::Hybrid),
    ("signatures", SlotKind::Signatures),
];

const EVICTING: [(&str, Evicting); 2] = [("all", Evicting::All), ("expiring", Evicting::Expiring)];

const HASHES: [(&str, HashKind); 2] = [("xxh3", HashKind::Xxh3), ("knuth", HashKind::Knuth)];

/// What is asked for of a table, by the names of the flags of `farslot create`.
#[derive(Clone, Debug, Default)]
pub struct NamedOptions {
    /// How many records it has room for; without that it grows as far as the memory allows.
    pub capacity: Option<u64>,
    /// How it is organised: linear with a capacity, race without, if nothing is said.
    pub scheme: Option<SchemeKind>,
    /// The size of the keys.
    pub key: Option<FieldSize>,
    /// The size of the values.
    pub value: Option<FieldSize>,
    /// Buckets of a key, of cuckoo tables.
    pub ways: Option<u32>,
    /// Slots of a bucket, of tables that have buckets.
    pub bucket_slots: Option<u32>,
    /// Bits of a fingerprint, of `CuckooDuo` tables.
    pub fingerprint_bits: Option<u32>,
    /// Whether nobody reads beside the writer, of `CuckooDuo` tables.
    pub writer_alone: bool,
    /// Whether a sealed table has a perfect hash function.
    pub perfect: bool,
    /// Whether that has a filter of absent keys.
    pub filter: bool,
    /// Records that it has room for when it has grown.
    pub grow_to: Option<u64>,
    /// How full it is with as many records as its capacity, 0 to 1.
    pub load_factor: Option<f64>,
    /// Whether a key may have several records.
    pub multi_key: bool,
    /// Whether records may have a time to live.
    pub expiring: Option<bool>,
    /// Which records it forgets when it is full.
    pub evicting: Option<Evicting>,
    /// What its slots have.
    pub slots: Option<SlotKind>,
    /// Bytes of a record that a slot has room for.
    pub inline_bytes: Option<u32>,
    /// Bytes for records out of band.
    pub heap: Option<u64>,
    /// What its keys are hashed by.
    pub hash: HashKind,
    /// What becomes of a part whose node came back empty.
    pub on_restart: OnRestart,
}

impl TableOptions {
    /// The options of these names and values, which are the flags of `farslot create` with `_` for
    /// `-`: `capacity`, `scheme`, `key_size` or `max_key`, `value_size` or `max_value`, `grow_to`,
    /// `load_factor`, `multi_key`, `expiring`, `evicting` (`--evict`), `ways`, `bucket_slots`,
    /// `fingerprint_bits`, `writer_alone`, `perfect`, `filter`, `slots`, `inline_bytes`, `heap`,
    /// `hash` and `on_restart`. Those that are flags alone there are `true` or `false` here. Sizes
    /// may have a unit (`64KiB`), and numbers `_` between their digits.
    ///
    /// Without a capacity it is a [table that grows](TableOptions::default); with one it is linear,
    /// unless it says another scheme.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) for a name that is unknown or given
    /// twice, a value that is none of the option, and options that do not go together.
    ///
    /// ```
    /// # use farslot::{FieldSize, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::named([("capacity", "1_000"), ("scheme", "chained")])?;
    /// assert_eq!(options, TableOptions::new(1_000).chained());
    /// let options = TableOptions::named([("max_value", "4KiB")])?;
    /// assert_eq!(options, TableOptions::default().values(FieldSize::UpTo(4096)));
    /// assert!(TableOptions::named([("ways", "3")]).is_err(), "only cuckoo tables have ways");
    /// # Ok(())
    /// # }
    /// ```
    pub fn named<'o>(options: impl IntoIterator<Item = (&'o str, &'o str)>) -> Result<Self> {
        let mut asked = NamedOptions::default();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in options {
            if seen.contains(&name) {
                return Err(bad_option("option", name, "once"));
            }
            asked.set(name, value)?;
            seen.push(name);
        }
        for [size, most] in [["key_size", "max_key"], ["value_size", "max_value"]] {
            if seen.contains(&size) && seen.contains(&most) {
                return Err(bad_option("option", size, format!("without {most}")));
            }
        }
        asked.check()?;
        Ok(asked.options())
    }
}

impl NamedOptions {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "capacity" => self.capacity = Some(number("capacity", value)?),
            "scheme" => {
                let schemes = SchemeKind::ALL.map(|kind| (kind.name(), kind));
                self.scheme = Some(one_of("scheme", value, &schemes)?);
            }
            "key_size" => self.key = Some(FieldSize::Fixed(bytes("key_size", value)?)),
            "max_key" => self.key = Some(FieldSize::UpTo(bytes("max_key", value)?)),
            "value_size" => self.value = Some(FieldSize::Fixed(bytes("value_size", value)?)),
            "max_value" => self.value = Some(FieldSize::UpTo(bytes("max_value", value)?)),
            "ways" => self.ways = Some(number("ways", value)?),
            "bucket_slots" => self.bucket_slots = Some(number("bucket_slots", value)?),
            "fingerprint_bits" => self.fingerprint_bits = Some(number("fingerprint_bits", value)?),
            "writer_alone" => self.writer_alone = whether("writer_alone", value)?,
            "perfect" => self.perfect = whether("perfect", value)?,
            "filter" => self.filter = whether("filter", value)?,
            "grow_to" => self.grow_to = Some(number("grow_to", value)?),
            "load_factor" => self.load_factor = Some(number("load_factor", value)?),
            "multi_key" => self.multi_key = whether("multi_key", value)?,
            "expiring" => self.expiring = Some(whether("expiring", value)?),
            "evicting" => self.evicting = Some(one_of("evicting", value, &EVICTING)?),
            "slots" => self.slots = Some(one_of("slots", value, &SLOTS)?),
            "inline_bytes" => self.inline_bytes = Some(bytes("inline_bytes", value)?),
            "heap" => self.heap = Some(bytes("heap", value)?),
            "hash" => self.hash = one_of("hash", value, &HASHES)?,
            "on_restart" => {
                let all = OnRestart::ALL.map(|what| (what.name(), what));
                self.on_restart = one_of("on_restart", value, &all)?;
            }
            _ => return Err(bad_option("option", name, NAMES)),
        }
        Ok(())
    }

    /// Which scheme it is: without a capacity, one that grows as far as the memory allows.
    fn scheme(&self) -> SchemeKind {
        let default = match self.capacity {
            Some(_) => SchemeKind::Linear,
            None => SchemeKind::Race,
        };
        self.scheme.unwrap_or(default)
    }

    /// Refuses what only tables of other schemes have.
    fn check(&self) -> Result<()> {
        use SchemeKind::{Chained, Cuckoo, Duo, Race, Sealed};
        let scheme = self.scheme();
        if self.capacity.is_none() && scheme != Race {
            let limit = "needs a capacity: only race tables grow as far as the memory allows";
            return Err(bad_option("scheme", scheme, limit));
        }
        let of_capacity = [
            ("grow_to", self.grow_to.is_some()),
            ("multi_key", self.multi_key),
            ("slots", self.slots.is_some()),
        ];
        for (option, is_given) in of_capacity {
            if is_given && self.capacity.is_none() {
                return Err(bad_option(option, "given", "it needs a capacity"));
            }
        }
        if self.filter && !self.perfect {
            return Err(bad_option("filter", "given", "only with perfect"));
        }
        let keyed = SchemeKind::ALL.into_iter().filter(|kind| kind.has_keys());
        let keyed: Vec<_> = keyed.collect();
        let of_few: [(_, bool, &[SchemeKind]); 7] = [
            ("ways", self.ways.is_some(), &[Cuckoo]),
            (
                "bucket_slots",
                self.bucket_slots.is_some(),
                &[Cuckoo, Duo, Race],
            ),
            ("fingerprint_bits", self.fingerprint_bits.is_some(), &[Duo]),
            ("writer_alone", self.writer_alone, &[Duo]),
            ("perfect", self.perfect, &[Sealed]),
            ("grow_to", self.grow_to.is_some(), &[Duo, Race, Chained]),
            ("key_size", self.key.is_some(), &keyed),
        ];
        for (option, is_given, schemes) in of_few {
            if is_given && !schemes.contains(&scheme) {
                let names: Vec<_> = schemes.iter().map(|scheme| scheme.name()).collect();
                let limit = format!("for tables of the scheme {}", names.join(" or "));
                return Err(bad_option(option, "given", limit));
            }
        }
        Ok(())
    }

    /// The options that these are. Whether they go together is for the caller to check; what the
    /// scheme does not have is left out.
    #[must_use]
    pub fn options(&self) -> TableOptions {
        let scheme = self.scheme();
        let options = self.capacity.map(TableOptions::new).unwrap_or_default();
        let options = options.hash(self.hash).on_restart(self.on_restart);
        let mut options = match scheme {
            SchemeKind::Linear => options,
            SchemeKind::Cuckoo => options.cuckoo(self.cuckoo()),
            SchemeKind::Duo => options.duo(self.duo()),
            SchemeKind::Race => options.race(self.race()),
            SchemeKind::Sealed if self.filter => options.perfect_with_filter(),
            SchemeKind::Sealed if self.perfect => options.perfect(),
            SchemeKind::Sealed => options.sealed(),
            SchemeKind::Set => options.set(),
            SchemeKind::Chained => options.chained(),
            SchemeKind::Ordered => options.ordered(),
            SchemeKind::Queue => options.queue(),
        };
        if let Some(most) = self.grow_to {
            options = options.grow_to(most);
        }
        if let Some(load_factor) = self.load_factor {
            options = options.load_factor(load_factor);
        }
        if let Some(key) = self.key {
            options = options.keys(key);
        }
        if let Some(value) = self.value {
            options = options.values(value);
        }
        if let Some(slot) = self.slots {
            options = options.slots(slot);
        }
        if let Some(bytes) = self.inline_bytes {
            options = options.inline_bytes(bytes);
        }
        if let Some(heap) = self.heap {
            options = options.heap_bytes(heap);
        }
        if self.multi_key {
            options = options.multi_key();
        }
        if let Some(expiring) = self.expiring {
            options = options.expiring(expiring);
        }
        if let Some(evicting) = self.evicting {
            options = options.evicting(evicting);
        }
        options
    }

    fn cuckoo(&self) -> CuckooShape {
        let default = CuckooShape::default();
        CuckooShape {
            ways: self.ways.unwrap_or(default.ways),
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
        }
    }

    fn duo(&self) -> DuoShape {
        let default = DuoShape::default();
        DuoShape {
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
            fingerprint_bits: self.fingerprint_bits.unwrap_or(default.fingerprint_bits),
            readers: !self.writer_alone,
        }
    }

    fn race(&self) -> RaceShape {
        let default = RaceShape::default();
        RaceShape {
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
        }
    }
}

fn number<T: FromStr>(option: &'static str, value: &str) -> Result<T> {
    let digits = value.replace('_', "");
    let limit = || bad_option(option, format!("{value:?}"), "a number, such as 1_000");
    digits.parse().map_err(|_| limit())
}

fn bytes<T: TryFrom<u64>>(option: &'static str, value: &str) -> Result<T> {
    let size = value.replace('_', "").parse::<ByteSize>().ok();
    let size = size.and_then(|size| size.as_u64().try_into().ok());
    let limit = format!(
        "a size, such as 64 or 4KiB, of at most {} bits",
        8 * size_of::<T>()
    );
    size.ok_or_else(|| bad_option(option, format!("{value:?}"), limit))
}

fn whether(option: &'static str, value: &str) -> Result<bool> {
    one_of(option, value, &[("true", true), ("false", false)])
}

/// What of a few names is given.
fn one_of<T: Copy>(option: &'static str, value: &str, names: &[(&str, T)]) -> Result<T> {
    let named = names.iter().find(|(name, _)| *name == value);
    named.map(|(_, named)| *named).ok_or_else(|| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        bad_option(option, format!("{value:?}"), all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Result<TableOptions> {
        TableOptions::named(text.split(' ').map(|pair| pair.split_once('=').unwrap()))
    }

    #[test]
    fn names_are_those_of_the_builder() {
        let fixed = FieldSize::Fixed(8);
        let new = TableOptions::new(1_000);
        let three = DuoShape {
            bucket_slots: 4,
            fingerprint_bits: 12,
            readers: false,
        };
        for (text, options) in [
            ("capacity=1_000", new.clone()),
            (
                "capacity=1000 scheme=sealed perfect=true",
                new.clone().perfect(),
            ),
            (
                "capacity=1000 scheme=sealed perfect=true filter=true",
                new.clone().perfect_with_filter(),
            ),
            (
                "capacity=1000 scheme=cuckoo ways=2 bucket_slots=8",
                new.clone().cuckoo(CuckooShape {
                    ways: 2,
                    bucket_slots: 8,
                }),
            ),
            (
                "capacity=1000 scheme=duo bucket_slots=4 fingerprint_bits=12 writer_alone=true grow_to=2000",
                new.clone().duo(three).grow_to(2_000),
            ),
            (
                "capacity=1000 scheme=ordered key_size=8 value_size=8",
                new.clone().ordered().keys(fixed).values(fixed),
            ),
            ("capacity=1000 scheme=queue", new.clone().queue()),
            (
                "capacity=1000 scheme=set key_size=8 value_size=0",
                new.clone().set().keys(fixed).values(FieldSize::Fixed(0)),
            ),
            (
                "capacity=1000 multi_key=true slots=hybrid inline_bytes=64 heap=1MiB load_factor=0.5",
                new.clone()
                    .multi_key()
                    .slots(SlotKind::Hybrid)
                    .inline_bytes(64)
                    .heap_bytes(1 << 20)
                    .load_factor(0.5),
            ),
            (
                "capacity=1000 hash=knuth on_restart=recreate expiring=true",
                new.hash(HashKind::Knuth)
                    .on_restart(OnRestart::Recreate)
                    .expiring(true),
            ),
            (
                "evicting=expiring max_key=16 max_value=1KiB",
                TableOptions::default()
                    .evicting(Evicting::Expiring)
                    .keys(FieldSize::UpTo(16))
                    .values(FieldSize::UpTo(1024)),
            ),
        ] {
            assert_eq!(named(text).unwrap(), options, "{text}");
        }
        assert_eq!(TableOptions::named([]).unwrap(), TableOptions::default());
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        for (text, says) in [
            ("size=1", "key_size, max_key"),
            (
                "capacity=1 capacity=1",
                "option = capacity is not possible: once",
            ),
            (
                "capacity=many",
                "capacity = \"many\" is not possible: a number",
            ),
            ("capacity=99999999999999999999", "a number"),
            ("key_size=8 max_key=8", "without max_key"),
            ("capacity=1 key_size=5GiB", "of at most 32 bits"),
            ("scheme=chained", "needs a capacity"),
            ("scheme=oak capacity=1", "linear, cuckoo"),
            ("multi_key=yes capacity=1", "true, false"),
            ("slots=heap", "it needs a capacity"),
            ("capacity=1 ways=3", "for tables of the scheme cuckoo"),
            ("capacity=1 scheme=sealed filter=true", "only with perfect"),
            (
                "capacity=1 scheme=queue key_size=8",
                "for tables of the scheme linear",
            ),
        ] {
            let said = named(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
