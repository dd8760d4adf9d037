//! Hostile memory: words of a table are changed under a reader and a writer, and nothing worse
//! comes of it than errors and missing keys. No operation panics, goes on for ever, or answers with
//! another key's value. The body of a test and of a fuzz target (`fuzz/`).

use farslot::fabric::sim::World;
use farslot::fabric::{NodeId, RegionId};
use farslot::index::SlotKind;
use farslot::layout::{CuckooShape, DuoShape, KeyRule, RaceShape};
use farslot::{FieldSize, Operation, Store, Table, TableOptions};
use std::ops::Range;

/// Where all that a case does is drawn from.
pub type Random<'r> = Box<dyn FnMut() -> u64 + 'r>;

/// What is damaged: a table of a scheme with a kind of slots.
pub struct Shape {
    pub name: String,
    pub scheme: &'static str,
    pub slots: SlotKind,
    options: TableOptions,
    /// Whether it is built whole.
    whole: bool,
    /// Whether records are checked, so that no damage can pass for a value: words and pairs have no
    /// room for a checksum, and sealed tables and sets need none.
    checked: bool,
}

const KEYS: u8 = 40;

/// Every scheme with every kind of slots that it has, of each the first sizes that fit it, and with
/// several records of a key where it has that.
pub fn shapes() -> Vec<Shape> {
    let kinds = [
        SlotKind::Word,
        SlotKind::Pair,
        SlotKind::Inline,
        SlotKind::Heap,
        SlotKind::Hybrid,
        SlotKind::Signatures,
    ];
    let duo = DuoShape {
        readers: true,
        ..DuoShape::default()
    };
    let mut all = Vec::new();
    for scheme in [
        "linear", "cuckoo", "race", "duo", "set", "sealed", "perfect", "filtered",
    ] {
        for (slots, several) in kinds
            .into_iter()
            .flat_map(|kind| [(kind, false), (kind, true)])
        {
            let is_whole = matches!(scheme, "sealed" | "perfect" | "filtered");
            // Words of sets have no values.
            let of_sizes = match scheme {
                "set" => [sized(4, 0), any(), sized(8, 24), any()],
                _ => [sized(4, 3), sized(8, 8), sized(8, 24), any()],
            };
            let fitting = of_sizes.into_iter().find_map(|sizes| {
                let options = sizes.slots(slots);
                let options = match scheme {
                    "cuckoo" => options.cuckoo(CuckooShape::default()),
                    "race" => options.race(RaceShape::default()).grow_to(200),
                    // A table that grows, and one that does not.
                    "duo" if slots == SlotKind::Heap => options.duo(duo).grow_to(200),
                    "duo" => options.duo(duo),
                    "set" => options.set(),
                    "sealed" => options.sealed(),
                    "perfect" => options.perfect(),
                    "filtered" => options.perfect_with_filter(),
                    _ => options,
                };
                let options = match (scheme, several) {
                    (_, false) => options,
                    // Built whole, with several records of a key.
                    ("sealed", true) => options.multi_key(),
                    _ => return None,
                };
                let store = Store::open("sim://cx5-edr?memory=2MiB").unwrap();
                let is_possible =
                    options.scheme().is_ok() && (is_whole || store.create("t", &options).is_ok());
                is_possible.then_some(options)
            });
            let Some(options) = fitting else {
                continue;
            };
            let keys = if several {
                ", several records of a key"
            } else {
                ""
            };
            all.push(Shape {
                name: format!("{scheme}, {slots:?}{keys}"),
                scheme,
                slots,
                options,
                whole: is_whole,
                checked: !is_whole
                    && scheme != "set"
                    && !matches!(slots, SlotKind::Word | SlotKind::Pair),
            });
        }
    }
    all
}

fn sized(key: u32, value: u32) -> TableOptions {
    TableOptions::new(u64::from(KEYS) * 2)
        .keys(FieldSize::Fixed(key))
        .values(FieldSize::Fixed(value))
}

fn any() -> TableOptions {
    TableOptions::new(u64::from(KEYS) * 2)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(100))
}

/// A table, and what may be put into it.
struct Case<'r> {
    store: Store,
    /// Opened before anything is damaged.
    writer: Option<Table>,
    area: Range<usize>,
    lengths: (usize, usize),
    fixed: bool,
    /// Whether records are checked, so that no damage can pass for a value.
    checked: bool,
    /// Whether nothing is replaced or removed.
    only_grows: bool,
    random: Random<'r>,
}

impl<'r> Case<'r> {
    fn start(shape: &Shape, mut random: Random<'r>) -> Self {
        let seed = random();
        let address = format!("sim://cx5-edr?seed={seed}&memory=2MiB");
        let store = Store::open(&address).unwrap();
        let (options, whole) = (shape.options.clone(), shape.whole);
        let (key, value) = options.scheme().unwrap().record_sizes();
        let fixed = matches!(key, FieldSize::Fixed(_));
        let lengths = (key.most(), value.most());
        if whole {
            let mut records = Vec::new();
            for of in 0..KEYS {
                records.push((
                    key_of(of, lengths.0),
                    value_of(&mut random, of, lengths.1, fixed),
                ));
            }
            if options.scheme().unwrap().keys() == KeyRule::Multi {
                records.extend_from_within(..usize::from(KEYS / 2));
            }
            let records: Vec<_> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            store.build("t", &options, &records).unwrap();
        } else {
            store.create("t", &options).unwrap();
        }
        let writer = store.table("t").unwrap();
        let start = writer.record().offset as usize / 8;
        let words = writer.scheme().table_bytes() as usize / 8;
        let mut case = Self {
            store,
            writer: Some(writer),
            area: start..start + words,
            lengths,
            fixed,
            checked: shape.checked,
            only_grows: shape.scheme == "set",
            random,
        };
        if !whole {
            case.write(0..KEYS);
        }
        case
    }

    fn world(&self) -> &World {
        self.store.sim_world().unwrap()
    }

    fn write(&mut self, keys: Range<u8>) {
        for of in keys {
            let (key, value) = self.record(of);
            let put = self.writer.as_ref().unwrap().put(&key, &value);
            assert!(put.is_ok() || self.only_grows, "{put:?}");
        }
    }

    fn record(&mut self, of: u8) -> (Vec<u8>, Vec<u8>) {
        let value = value_of(&mut self.random, of, self.lengths.1, self.fixed);
        (key_of(of, self.lengths.0), value)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.random)() % end as u64) as usize
    }

    fn memory<T>(&self, change: impl FnOnce(&mut [u64]) -> T) -> T {
        let node = self.world().node_handle(NodeId(0));
        let area = self.area.clone();
        node.with_region_mut(RegionId(0), |words| change(&mut words[area]))
    }

    /// Changes some words that are in use, or next to one that is; `earlier` is what the memory
    /// once was.
    fn damage(&mut self, earlier: &[u64]) {
        let now = self.memory(|words| words.to_vec());
        let used: Vec<usize> = (0..now.len()).filter(|at| now[*at] != 0).collect();
        for _ in 0..=self.below(6) {
            let at = used[self.below(used.len())];
            let at = match self.below(8) {
                0 => (at + 1).min(now.len() - 1),
                1 => at.saturating_sub(1),
                _ => at,
            };
            let random = (self.random)();
            let bit = 1 << self.below(64);
            let other = now[used[self.below(used.len())]];
            let replayed = earlier[self.below(earlier.len())];
            let kind = self.below(8) as u64;
            let word = match self.below(9) {
                0 => now[at] ^ bit,
                1 => other,
                2 => earlier[at],
                3 => replayed,
                // A head, or a state, of each kind, that says random things, or says small ones.
                4 => random >> 3 | kind << 61,
                5 => random >> 52 | kind << 61,
                6 => now[at] & (u64::MAX >> 3) | kind << 61,
                7 => random,
                _ => [0, u64::MAX, 1][self.below(3)],
            };
            self.memory(|words| words[at] = word);
        }
    }

    fn check(&self, of: u8, value: Option<&[u8]>) {
        if let (true, Some(value)) = (self.checked, value) {
            assert!(is_of(of, value), "key {of} has {value:?}");
        }
    }

    /// Does everything that can be done to a table. What fails, fails; what is answered is the
    /// key's.
    fn try_everything(&mut self, table: &Table) {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|of| key_of(of, self.lengths.0)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let _ = table.get_many(&keys, |of, value| self.check(of as u8, value));
        for _ in 0..12 {
            let of = self.below(usize::from(KEYS)) as u8;
            let (key, value) = self.record(of);
            match self.below(9) {
                0 => self.check(of, table.get(&key).ok().flatten().as_deref()),
                1 => drop(table.put(&key, &value)),
                2 => drop(table.update(&key, &value)),
                3 => drop(table.remove(&key)),
                4 => self.check(
                    of,
                    table.find_or_put(&key, &value).ok().flatten().as_deref(),
                ),
                5 => {
                    let (_, other) = self.record(of);
                    let expected = [None, Some(&value[..])][self.below(2)];
                    drop(table.compare_and_set(&key, expected, &other));
                }
                6 => drop(table.compare_and_remove(&key, &value)),
                7 => {
                    for value in table.get_all(&key).unwrap_or_default() {
                        self.check(of, Some(&value));
                    }
                }
                _ => {
                    let several = [
                        Operation::Put(&key, &value),
                        Operation::Get(&key),
                        Operation::Remove(&key),
                    ];
                    let _ = table.run_many(&several, |_, _| ());
                }
            }
        }
        let _ = table.for_each(|key, value| {
            if let Some(of) = key.first() {
                self.check(*of, Some(value));
            }
        });
        let _ = table.occupancy();
        let _ = table.survey();
        let _ = table.flush();
        let _ = table.take_over();
    }
}

/// A key that begins with its number.
fn key_of(of: u8, len: usize) -> Vec<u8> {
    let mut key = vec![0xa5; len];
    key[0] = of;
    key
}

/// A value that says whose it is in every byte but each second.
fn value_of(random: &mut Random<'_>, of: u8, most: usize, fixed: bool) -> Vec<u8> {
    let len = match fixed {
        true => most,
        false => (random() as u32 as usize) % most + 1,
    };
    let version = random() as u8;
    (0..len).map(|at| [of, version][at % 2]).collect()
}

fn is_of(of: u8, value: &[u8]) -> bool {
    value.iter().step_by(2).all(|byte| *byte == of)
}

/// Damages a table of that shape, and does everything to it, twice.
pub fn damage(shape: &Shape, random: Random<'_>) {
    let mut case = Case::start(shape, random);
    let earlier = case.memory(|words| words.to_vec());
    if !shape.whole {
        case.write(0..KEYS / 2);
        let (gone, _) = case.record(KEYS - 1);
        let removed = case.writer.as_ref().unwrap().remove(&gone);
        assert!(removed.is_ok() || case.only_grows, "{removed:?}");
    }
    case.damage(&earlier);
    // One that knew the table before, and one that meets it as it is, if it can be opened.
    let known = case.writer.take().unwrap();
    case.try_everything(&known);
    drop(known);
    let address = case.store.clone();
    if let Ok(table) = address.table("t") {
        case.try_everything(&table);
    }
    case.damage(&earlier);
    if let Ok(table) = address.table("t") {
        case.try_everything(&table);
    }
}
