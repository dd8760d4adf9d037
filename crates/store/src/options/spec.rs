//! Tables asked for by names, for languages and files that have no builder.

use super::text::Pairs;
use super::{HashKind, TableOptions};
use crate::error::bad_option;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::{OnRestart, Result};
use farslot_index::heap::Evicting;
use farslot_index::{FieldSize, SchemeKind, SlotKind};
use serde::Deserialize;

/// What a table shall be, by names: those of the flags of `farslot create`, with `_` for `-`. It is
/// read from JSON or another form of serde's, or from [pairs of texts](TableSpec::parse), and
/// refuses names that it does not have. [`TableSpec::options`] makes [`TableOptions`] of it.
///
/// ```
/// # use farslot::layout::TableSpec;
/// # use farslot::TableOptions;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec: TableSpec = serde_json::from_str(r#"{"capacity": 1000, "scheme": "chained"}"#)?;
/// assert_eq!(spec.options()?, TableOptions::new(1_000).chained());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableSpec {
    /// Records that it has room for. Without, it grows as far as the memory allows.
    pub capacity: Option<u64>,
    /// The scheme: by default `linear` with a capacity, `race` without.
    pub scheme: Option<SchemeKind>,
    /// Bytes of every key; not with `max_key`.
    pub key_size: Option<u32>,
    /// Bytes of the longest key.
    pub max_key: Option<u32>,
    /// Bytes of every value; not with `max_value`.
    pub value_size: Option<u32>,
    /// Bytes of the longest value.
    pub max_value: Option<u32>,
    /// Buckets of a key: [`CuckooShape::ways`].
    pub ways: Option<u32>,
    /// Slots of a bucket, in cuckoo, duo and race tables.
    pub bucket_slots: Option<u32>,
    /// Bits of a fingerprint: [`DuoShape::fingerprint_bits`].
    pub fingerprint_bits: Option<u32>,
    /// Whether a duo table has no readers beside its writer: the opposite of [`DuoShape::readers`].
    pub writer_alone: bool,
    /// Whether a sealed table has a perfect hash function: [`TableOptions::perfect`].
    pub perfect: bool,
    /// Whether it also has a filter: [`TableOptions::perfect_with_filter`].
    pub filter: bool,
    /// Records that it may grow to: [`TableOptions::grow_to`].
    pub grow_to: Option<u64>,
    /// [`TableOptions::load_factor`].
    pub load_factor: Option<f64>,
    /// Whether a key may have several records: [`TableOptions::multi_key`].
    pub multi_key: bool,
    /// Whether records may have a time to live: by default they may without a capacity.
    pub expiring: Option<bool>,
    /// Which records it forgets when it is full: [`TableOptions::evicting`].
    pub evict: Option<Evicting>,
    /// What its slots hold: [`TableOptions::slots`].
    pub slots: Option<SlotKind>,
    /// Bytes of key and value in a hybrid slot: [`TableOptions::inline_bytes`].
    pub inline_bytes: Option<u32>,
    /// Bytes for records out of band: [`TableOptions::heap_bytes`].
    pub heap: Option<u64>,
    /// Bytes of memory that no other table takes: [`TableOptions::reserve_bytes`].
    pub reserve_bytes: Option<u64>,
    /// The hash function.
    pub hash: HashKind,
    /// What becomes of the keys of a node that came back empty: [`TableOptions::on_restart`].
    pub on_restart: OnRestart,
}

impl TableOptions {
    /// The options of a [`TableSpec`] that is given as pairs of texts, as [`TableSpec::parse`]
    /// reads them.
    ///
    /// # Errors
    /// As [`TableSpec::parse`] and [`TableSpec::options`].
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
    pub fn named<'o>(pairs: impl IntoIterator<Item = (&'o str, &'o str)>) -> Result<Self> {
        TableSpec::parse(pairs)?.options()
    }
}

impl TableSpec {
    /// Reads names with their values as text. Numbers may have `_` between their digits or a unit
    /// (`1_000`, `10M`, `64KiB`); flags are `true` or `false`.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) for a name that is unknown or given
    /// twice, and for a value that the option cannot have.
    pub fn parse<'o>(pairs: impl IntoIterator<Item = (&'o str, &'o str)>) -> Result<Self> {
        Ok(Self::deserialize(Pairs(pairs.into_iter()))?)
    }

    /// The options that these names ask for.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) for options that do not go together.
    /// Whether a table can have these sizes is known when it is made.
    pub fn options(&self) -> Result<TableOptions> {
        self.check_values()?;
        self.check_pairs()?;
        self.check_scheme()?;
        Ok(self.to_options())
    }

    /// The scheme that it asks for.
    #[must_use]
    pub fn scheme(&self) -> SchemeKind {
        let default = match self.capacity {
            Some(_) => SchemeKind::Linear,
            None => SchemeKind::Race,
        };
        self.scheme.unwrap_or(default)
    }

    /// The size of the keys, if it is given.
    #[must_use]
    pub fn key(&self) -> Option<FieldSize> {
        let fixed = self.key_size.map(FieldSize::Fixed);
        fixed.or_else(|| self.max_key.map(FieldSize::UpTo))
    }

    /// The size of the values, if it is given.
    #[must_use]
    pub fn value(&self) -> Option<FieldSize> {
        let fixed = self.value_size.map(FieldSize::Fixed);
        fixed.or_else(|| self.max_value.map(FieldSize::UpTo))
    }

    /// Refuses what no table can have.
    fn check_values(&self) -> Result<()> {
        for (option, bytes) in [("key_size", self.key_size), ("max_key", self.max_key)] {
            if bytes == Some(0) {
                return Err(bad_option(option, 0, "a key has at least 1 byte"));
            }
        }
        match self.load_factor {
            Some(factor) if !(factor > 0.0 && factor <= 1.0) => {
                Err(bad_option("load_factor", factor, "above 0 and at most 1"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses options that need another, or exclude it, whatever the scheme is.
    fn check_pairs(&self) -> Result<()> {
        let fixed = [
            ("key_size", self.key_size, "max_key", self.max_key),
            ("value_size", self.value_size, "max_value", self.max_value),
        ];
        for (option, size, other, most) in fixed {
            if let (Some(size), Some(_)) = (size, most) {
                return Err(bad_option(option, size, format!("not with {other}")));
            }
        }
        if let (Some(bytes), Some(_)) = (self.reserve_bytes, self.capacity) {
            return Err(bad_option("reserve_bytes", bytes, "not with capacity"));
        }
        if self.filter && !self.perfect {
            return Err(bad_option("filter", true, "only with perfect"));
        }
        if let (Some(bytes), None) = (self.inline_bytes, self.slots) {
            return Err(bad_option("inline_bytes", bytes, "only with slots"));
        }
        let scheme = self.scheme();
        if self.capacity.is_none() && scheme != SchemeKind::Race {
            let limit = "it needs a capacity: only race tables grow as far as the memory allows";
            return Err(bad_option("scheme", scheme, limit));
        }
        let sized = [
            ("grow_to", self.grow_to.map(|keys| keys.to_string())),
            ("multi_key", self.multi_key.then(|| "true".into())),
            ("slots", self.slots.map(|slots| slots.name().into())),
        ];
        for (option, value) in sized {
            if let (Some(value), None) = (value, self.capacity) {
                return Err(bad_option(option, value, "it needs a capacity"));
            }
        }
        Ok(())
    }

    /// Refuses what only tables of other schemes have.
    fn check_scheme(&self) -> Result<()> {
        use SchemeKind::{Chained, Cuckoo, Duo, Race, Sealed};
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let growth = self.grow_to.map(|keys| keys.to_string());
        let evict = self.evict.map(|evict| evict.name().to_owned());
        let keyed = SchemeKind::ALL.into_iter().filter(|kind| kind.has_keys());
        let keyed: Vec<_> = keyed.collect();
        let of_few: [(_, Option<String>, &[SchemeKind]); 9] = [
            ("ways", number(self.ways), &[Cuckoo]),
            (
                "bucket_slots",
                number(self.bucket_slots),
                &[Cuckoo, Duo, Race],
            ),
            ("fingerprint_bits", number(self.fingerprint_bits), &[Duo]),
            ("writer_alone", flag(self.writer_alone), &[Duo]),
            ("perfect", flag(self.perfect), &[Sealed]),
            ("grow_to", growth, &[Duo, Race, Chained]),
            ("evict", evict, &[Race]),
            ("key_size", number(self.key_size), &keyed),
            ("max_key", number(self.max_key), &keyed),
        ];
        for (option, value, schemes) in of_few {
            if let Some(value) = value.filter(|_| !schemes.contains(&self.scheme())) {
                let names: Vec<_> = schemes.iter().map(|scheme| scheme.name()).collect();
                let limit = format!("for tables of the scheme {}", names.join(" or "));
                return Err(bad_option(option, value, limit));
            }
        }
        Ok(())
    }

    /// The options, which go together.
    fn to_options(&self) -> TableOptions {
        let options = self.capacity.map(TableOptions::new).unwrap_or_default();
        let options = options.hash(self.hash).on_restart(self.on_restart);
        let mut options = self.organised(options);
        if let Some(most) = self.grow_to {
            options = options.grow_to(most);
        }
        if let Some(load_factor) = self.load_factor {
            options = options.load_factor(load_factor);
        }
        if let Some(key) = self.key() {
            options = options.keys(key);
        }
        if let Some(value) = self.value() {
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
        if let Some(bytes) = self.reserve_bytes {
            options = options.reserve_bytes(bytes);
        }
        if self.multi_key {
            options = options.multi_key();
        }
        if let Some(expiring) = self.expiring {
            options = options.expiring(expiring);
        }
        match self.evict {
            Some(evict) => options.evicting(evict),
            None => options,
        }
    }

    /// The same options for a table of this scheme.
    fn organised(&self, options: TableOptions) -> TableOptions {
        match self.scheme() {
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
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
    }

    fn named(text: &str) -> Result<TableOptions> {
        TableOptions::named(pairs(text))
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
            ("capacity=18446744073709551615", TableOptions::new(u64::MAX)),
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
                "heap=4MiB reserve_bytes=1MiB",
                TableOptions::default()
                    .heap_bytes(4 << 20)
                    .reserve_bytes(1 << 20),
            ),
            (
                "evict=expiring max_key=16 max_value=1KiB",
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
    fn json_says_the_same_as_text() {
        let json = r#"{"capacity": 1000, "scheme": "duo", "key_size": 8, "max_value": 4096, "load_factor": 0.5,
            "writer_alone": true, "slots": "heap", "hash": "knuth", "on_restart": "recreate"}"#;
        let text = "capacity=1_000 scheme=duo key_size=8 max_value=4KiB load_factor=0.5 writer_alone=true \
                    slots=heap hash=knuth on_restart=recreate";
        let spec: TableSpec = serde_json::from_str(json).unwrap();
        assert_eq!(TableSpec::parse(pairs(text)).unwrap(), spec);
        let unknown = serde_json::from_str::<TableSpec>(r#"{"colour": "red"}"#);
        assert!(unknown.unwrap_err().to_string().contains("colour"));
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
            ("capacity=99999999999999999999", "of at most 64 bits"),
            (
                "capacity=99999999999999999999K",
                "capacity = \"99999999999999999999K\" is not possible: a number",
            ),
            ("key_size=8 max_key=8", "not with max_key"),
            ("capacity=1 reserve_bytes=1", "not with capacity"),
            ("capacity=1 key_size=5GiB", "of at most 32 bits"),
            ("scheme=chained", "needs a capacity"),
            ("scheme=oak capacity=1", "linear, cuckoo"),
            ("multi_key=yes capacity=1", "true, false"),
            ("slots=heap", "needs a capacity"),
            (
                "capacity=1 ways=3",
                "ways = 3 is not possible: for tables of the scheme cuckoo",
            ),
            ("capacity=1 max_key=0", "at least 1 byte"),
            ("capacity=1 load_factor=NaN", "above 0"),
            ("capacity=1 evict=all", "for tables of the scheme race"),
            ("capacity=1 inline_bytes=8", "only with slots"),
            ("capacity=1 load_factor=much", "a number, such as 0.75"),
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
