//! What an owner tells of its catalog is what stands in it, without the seeds; and what an owner
//! that means harm tells is believed as little as a damaged catalog.

use super::entry::{EntryWords, ID_AT, MOST_RECORD, State, WORDS_BYTES, closed};
use super::parsing::{Entry, Is, entry_in};
use super::region::{HEADER_WORDS, PHASE_AT, PUBLISHED, Phase, entry_at, record_at};
use super::sizes::{catalog_bytes, most_tables};
use super::telling::{ReplacedIds, is_restoring, record_of, tables_from, taken_apart, told_by};
use super::*;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::{FieldSize, Result, Store, StoreError, TableOptions};
use farslot_fabric::{EndpointExt, Executor, NodeId, OwnerMemory};
use farslot_index::Value;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

const MEMORY: u64 = 16 << 20;
const ENTRIES: usize = most_tables(MEMORY);

/// A node's memory as its owner has it: the catalog, and nothing behind.
#[derive(Clone)]
struct Words {
    words: Vec<u64>,
    /// Entries that were read whole.
    copied: Cell<usize>,
}

impl OwnerMemory for Words {
    fn bytes(&self) -> u64 {
        MEMORY
    }

    fn load(&self, offset: u64) -> farslot_fabric::Result<u64> {
        Ok(self.words[offset as usize / 8])
    }

    fn store(&mut self, offset: u64, value: u64) -> farslot_fabric::Result<()> {
        self.words[offset as usize / 8] = value;
        Ok(())
    }

    fn compare_swap(&mut self, _: u64, _: u64, _: u64) -> farslot_fabric::Result<u64> {
        panic!("nothing is changed")
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> farslot_fabric::Result<()> {
        self.copied.set(self.copied.get() + 1);
        into.copy_from_slice(&self.words[offset as usize / 8..][..into.len()]);
        Ok(())
    }

    fn copy_in(&mut self, _: u64, _: &[u64]) -> farslot_fabric::Result<()> {
        panic!("nothing is changed")
    }
}

/// Numbers of entries, in their order, and the names of their tables.
type NamedEntries = Vec<(usize, &'static str)>;

/// A catalog with a table of each scheme, one of which ends, and a damaged entry; and its entries.
static CATALOG: LazyLock<(Vec<u64>, NamedEntries)> = LazyLock::new(|| {
    let store = Store::open(&format!("sim://cx5-edr?seed=1&memory={MEMORY}B")).unwrap();
    let options = TableOptions::new(64)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(16));
    let tables = [
        ("linear", options.clone()),
        ("cuckoo", options.clone().cuckoo(CuckooShape::default())),
        ("race", options.clone().race(RaceShape::default())),
        ("duo", options.clone().duo(DuoShape::default())),
        ("damaged", options.clone()),
        ("ends", options),
    ];
    let made = tables.map(|(name, options)| (store.create(name, &options).unwrap().entry, name));
    let entry_of = |name: &str| made.iter().find(|made| made.1 == name).unwrap().0;
    let limits = store.0.sessions.options.limits;
    let endpoint = Rc::new(store.0.fabric.endpoint(limits).unwrap());
    let executor = Executor::new(Rc::clone(&endpoint));
    let read = endpoint.read(region::at(NodeId(0), 0), catalog_bytes(MEMORY) as usize);
    let mut words = executor.block_on(read).unwrap().words().to_vec();
    let word_of = |entry: usize| entry_at(NodeId(0), entry).offset as usize / 8;
    words[word_of(entry_of("damaged"))] ^= 1;
    let id = &mut words[word_of(entry_of("ends")) + ID_AT as usize / 8];
    *id = closed(*id);
    let mut made = made.to_vec();
    made.sort_unstable();
    (words, made)
});

/// The names of the tables in the order of their entries, as [`names_of`] has them.
fn names() -> Vec<&'static str> {
    let names = CATALOG.1.iter().map(|(_, name)| *name);
    names
        .map(|name| if name == "damaged" { "?" } else { name })
        .collect()
}

fn entry_of(name: &str) -> usize {
    CATALOG.1.iter().find(|made| made.1 == name).unwrap().0
}

fn memory() -> Words {
    Words {
        words: CATALOG.0.clone(),
        copied: Cell::new(0),
    }
}

/// A client's answer as it would come over a network.
fn sent(told: Vec<(usize, Vec<u8>)>) -> Vec<(usize, Value)> {
    let told = told.into_iter();
    told.map(|(number, value)| (number, Value::from(&value[..])))
        .collect()
}

fn told(
    memory: &Words,
    first: usize,
    is_open: impl Fn(&TableRecord) -> bool,
    may_go_on: bool,
) -> Vec<(usize, Vec<u8>)> {
    tables_from(memory, first as u64, is_open, |_, _| may_go_on).unwrap()
}

fn apart(answer: Vec<(usize, Vec<u8>)>, first: usize) -> Result<([u64; HEADER_WORDS], Vec<Entry>)> {
    taken_apart(sent(answer), first, MEMORY)
}

fn names_of(entries: &[Entry]) -> Vec<&str> {
    let names = entries.iter().map(|entry| match &entry.is {
        Is::Table(record) => &*record.name,
        Is::Damaged(_) => "?",
        Is::Retired(_) | Is::Empty => panic!("{entry:?}"),
    });
    names.collect()
}

#[test]
fn what_is_told_is_what_stands_there_without_the_seeds() {
    let memory = memory();
    let (head, entries) = apart(told(&memory, 0, |_| true, true), 0).unwrap();
    assert_eq!(head[0], ENTRIES as u64);
    assert_eq!(names_of(&entries), names());
    for entry in &entries {
        let at = entry_at(NodeId(0), entry.number).offset as usize / 8;
        let words = EntryWords::all(&memory.words[at..]).next().unwrap();
        let at = record_at(NodeId(0), entry.number, MEMORY).offset as usize / 8;
        let record: &[u8] = bytemuck::cast_slice(&memory.words[at..][..MOST_RECORD / 8]);
        let (there, _) = entry_in(entry.number, words, record, MEMORY);
        let (Is::Table(told), Is::Table(there)) = (&entry.is, &there.is) else {
            assert_eq!(entry.number, entry_of("damaged"), "{entry:?} of {there:?}");
            continue;
        };
        assert_ne!(there.scheme, there.scheme.without_seeds());
        let expected = TableRecord {
            scheme: there.scheme.without_seeds(),
            is_told: true,
            ..there.clone()
        };
        assert_eq!(told, &expected);
        assert_eq!(told.is_closed, told.name == "ends");
    }
    // Some tables alone, and the damage of one that nobody knows.
    let race = |record: &TableRecord| record.name == "race";
    let (_, entries) = apart(told(&memory, 0, race, true), 0).unwrap();
    let mut named = names();
    named.retain(|name| ["race", "?"].contains(name));
    assert_eq!(names_of(&entries), named);
    let behind = entry_of("damaged") + 1;
    let (_, entries) = apart(told(&memory, behind, |_| false, true), behind).unwrap();
    assert!(entries.is_empty());
}

#[test]
fn an_answer_that_is_cut_short_is_gone_on_with() {
    let mut memory = memory();
    memory.store(PHASE_AT, Phase::Ending as u64).unwrap();
    let (mut next, mut all, mut calls) = (0, Vec::new(), 0);
    while next < ENTRIES {
        // As if the turn were over at once.
        let (head, mut entries) = apart(told(&memory, next, |_| true, false), next).unwrap();
        assert_eq!(head[3], Phase::Ending as u64);
        assert_eq!(head[0], next as u64 + 1);
        all.append(&mut entries);
        next += 1;
        calls += 1;
    }
    assert_eq!((all.len(), calls), (6, ENTRIES));
    // What lies behind the last entry, or nowhere.
    for first in [ENTRIES, usize::MAX] {
        let head_alone = told(&memory, first, |_| true, true);
        assert_eq!(head_alone.len(), 1);
    }
}

fn is_nonsense(answer: Vec<(usize, Vec<u8>)>, first: usize) -> bool {
    match apart(answer, first) {
        Err(StoreError::Index(farslot_index::IndexError::AtOwner { reason, .. })) => {
            reason.contains("makes no sense")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_that_no_owner_gives_are_refused() {
    let whole = told(&memory(), 0, |_| true, true);
    let (head, entries) = whole.split_last().unwrap();
    // Without a head, with two, with one that is too long.
    assert!(is_nonsense(entries.to_vec(), 0));
    assert!(is_nonsense(
        [&whole[..], std::slice::from_ref(head)].concat(),
        0
    ));
    let long = [&head.1[..], &[0]].concat();
    assert!(is_nonsense(vec![(ENTRIES, long)], 0));
    // Entries that come twice, out of order, before the first that was asked for, or behind the
    // last.
    let twice = [&entries[..1], &whole].concat();
    assert!(is_nonsense(twice, 0));
    let turned: Vec<_> = entries.iter().rev().chain([head]).cloned().collect();
    assert!(is_nonsense(turned, 0));
    assert!(is_nonsense(whole.clone(), entries[0].0 + 1));
    let behind = vec![(ENTRIES + 1, entries[0].1.clone()), head.clone()];
    assert!(is_nonsense(behind, 0));
    // That would make a client ask without end.
    let last = entries[entries.len() - 1].0 as u64;
    for next in [0, 3, last, ENTRIES as u64 + 1, u64::MAX] {
        let mut bytes = head.1.clone();
        bytes[..8].copy_from_slice(&next.to_le_bytes());
        let endless = [entries, &[(ENTRIES, bytes)]].concat();
        assert!(is_nonsense(endless, 0), "{next}");
    }
}

proptest! {
    #[test]
    fn no_answer_panics_or_gives_a_table_that_cannot_be_there(
        first in 0..8_usize,
        changes in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..6),
        renumbered in proptest::option::of((any::<usize>(), 0..300_usize)),
        cut in proptest::option::of((any::<usize>(), any::<usize>())),
        mends_sums: bool,
    ) {
        let first = CATALOG.1.get(first).map_or(ENTRIES, |(entry, _)| *entry);
        let mut answer = told(&memory(), first, |_| true, true);
        let count = answer.len();
        for (value, at, byte) in changes {
            let value = &mut answer[value % count].1;
            if let Some(at) = at.checked_rem(value.len()) {
                value[at] = byte;
            }
        }
        if let Some((value, to)) = renumbered {
            answer[value % count].0 = to;
        }
        if let Some((value, at)) = cut {
            let value = &mut answer[value % count].1;
            value.truncate(at % (value.len() + 1));
        }
        for (_, value) in answer.iter_mut().filter(|_| mends_sums) {
            // As whoever knows the checksum would.
            if let Some((head, json)) = value.split_at_mut_checked(WORDS_BYTES)
                && !json.is_empty()
            {
                head[..8].copy_from_slice(&State::table(json).to_le_bytes());
            }
        }
        if let Ok((head, entries)) = apart(answer, first) {
            prop_assert!(head[0] > first as u64 || first == ENTRIES);
            for entry in entries {
                if let Is::Table(record) | Is::Retired(record) = entry.is {
                    prop_assert!(record.is_told && record.scheme.check().is_ok());
                    prop_assert!(record.extent().end <= MEMORY, "{:?}", record);
                }
            }
        }
    }
}

/// Whoever is asked for tables that are none shall not have to parse those that there are.
#[test]
fn a_table_is_found_by_its_id_and_nothing_else_is_parsed() {
    let memory = memory();
    let (_, entries) = apart(told(&memory, 0, |_| true, true), 0).unwrap();
    for entry in &entries {
        memory.copied.set(0);
        match &entry.is {
            Is::Table(there) => {
                let found = record_of(&memory, there.id).unwrap().unwrap();
                assert_eq!(
                    (found.name, found.entry),
                    (there.name.clone(), entry.number)
                );
                assert_eq!(found.is_closed, there.name == "ends");
                assert_eq!(memory.copied.get(), 1);
            }
            // Of the damaged one, whose id word is as it was.
            _ => {
                let at = entry_at(NodeId(0), entry.number).offset + ID_AT;
                let id = memory.load(at).unwrap();
                assert_eq!(record_of(&memory, id), Ok(None));
                assert!(memory.copied.get() <= listing::MOST_READS as usize);
            }
        }
    }
    // One that is being cleared is opened by nobody.
    let is_race = |entry: &&Entry| entry.number == entry_of("race");
    let race = entries.iter().find(is_race).unwrap();
    let Is::Table(there) = &race.is else {
        panic!("{entries:?}");
    };
    let mut clearing = memory.clone();
    let at = entry_at(NodeId(0), race.number).offset;
    let word = clearing.load(at).unwrap();
    clearing.store(at, State::clearing(word)).unwrap();
    assert_eq!(record_of(&clearing, there.id), Ok(None));

    memory.copied.set(0);
    for id in [0, u64::MAX, 1, 0xdead_beef] {
        assert_eq!(record_of(&memory, id), Ok(None));
    }
    assert_eq!(memory.copied.get(), 0);
}

impl Words {
    /// Renames the table of an entry to one of another, which is empty; returns the ids.
    fn rename(&mut self, from: usize, to: usize) -> (u64, u64) {
        let words_at = |entry| entry_at(NodeId(0), entry).offset as usize / 8;
        let record_at = |entry| record_at(NodeId(0), entry, MEMORY).offset as usize / 8;
        let record: &[u8] = bytemuck::cast_slice(&self.words[record_at(from)..]);
        let words = EntryWords::all(&self.words[words_at(from)..]).next();
        let words = words.unwrap();
        let Is::Table(old) = entry_in(from, words, &record[..MOST_RECORD], MEMORY).0.is else {
            panic!("there is no table");
        };
        let new = TableRecord {
            name: "renamed".into(),
            id: old.id ^ 1,
            replaces: Some(old.id),
            ..old.clone()
        };
        let json = serde_json::to_vec(&new).unwrap();
        for (word, bytes) in self.words[record_at(to)..].iter_mut().zip(json.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        self.words[words_at(to)] = State::table(&json);
        self.words[words_at(to) + 1] = new.id;
        self.words[words_at(from)..][..WORDS_BYTES / 8].fill(0);
        self.words[PUBLISHED] += 2;
        (old.id, new.id)
    }
}

/// The entry of the last table, and one before it that is empty.
fn last_and_empty() -> (usize, usize) {
    let is_used = |entry: &usize| CATALOG.1.iter().any(|(used, _)| used == entry);
    let is_table = |(_, name): &&(usize, &str)| *name != "damaged";
    let (last, _) = CATALOG.1.iter().rfind(is_table).unwrap();
    let empty = (0..*last).find(|entry| !is_used(entry));
    (*last, empty.unwrap())
}

/// A memory in which a table is renamed when its entry is read for the first time.
struct Renaming(RefCell<Words>, Cell<bool>);

impl OwnerMemory for Renaming {
    fn bytes(&self) -> u64 {
        MEMORY
    }

    fn load(&self, offset: u64) -> farslot_fabric::Result<u64> {
        let (from, to) = last_and_empty();
        if offset == entry_at(NodeId(0), from).offset && !self.1.replace(true) {
            self.0.borrow_mut().rename(from, to);
        }
        self.0.borrow().load(offset)
    }

    fn store(&mut self, _: u64, _: u64) -> farslot_fabric::Result<()> {
        panic!("nothing is changed")
    }

    fn compare_swap(&mut self, _: u64, _: u64, _: u64) -> farslot_fabric::Result<u64> {
        panic!("nothing is changed")
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> farslot_fabric::Result<()> {
        self.0.borrow().copy_out(offset, into)
    }

    fn copy_in(&mut self, _: u64, _: &[u64]) -> farslot_fabric::Result<()> {
        panic!("nothing is changed")
    }
}

#[test]
fn a_table_that_is_renamed_is_told_of_in_one_answer_and_in_several() {
    for may_go_on in [true, false] {
        let memory = Renaming(RefCell::new(memory()), Cell::new(false));
        let calls = Cell::new(0);
        let told = told_by(MEMORY, async |first| {
            calls.set(calls.get() + 1);
            let answer = tables_from(&memory, first as u64, |_| true, |_, _| may_go_on);
            apart(answer.unwrap(), first)
        });
        let context = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(told) = std::pin::pin!(told).poll(context) else {
            panic!("nothing waits");
        };
        let told = told.unwrap();
        assert_eq!(told.header[PUBLISHED], memory.0.borrow().words[PUBLISHED]);
        let named = names_of(&told.entries);
        assert_eq!(named.len(), names().len(), "{named:?}");
        assert!(named.contains(&"renamed"), "{named:?}");
        let expected = if may_go_on { 1 } else { 2 * ENTRIES };
        assert_eq!(calls.get(), expected);
    }
}

/// Whoever asks for tables that are gone shall not have those parsed that there are.
#[test]
fn ids_in_whose_places_others_have_come_are_read_once_for_each_change() {
    let (mut memory, mut replaced) = (memory(), ReplacedIds::default());
    let (last, empty) = last_and_empty();
    assert_eq!(replaced.find(&memory, 7), Ok(None));
    let (old, new) = memory.rename(last, empty);
    assert_eq!(replaced.find(&memory, old), Ok(Some(new)));
    memory.copied.set(0);
    for (id, next) in [(old, Some(new)), (new, None), (0, None), (u64::MAX, None)] {
        assert_eq!(replaced.find(&memory, id), Ok(next));
    }
    assert_eq!(memory.copied.get(), 0);
    let (_, newest) = memory.rename(empty, last);
    assert_eq!(replaced.find(&memory, new), Ok(Some(newest)));
    assert_eq!(replaced.find(&memory, old), Ok(None));
}

#[test]
fn a_node_restores_while_its_phase_says_so() {
    let mut memory = memory();
    for (phase, restores) in [
        (Phase::Serving as u64, false),
        (Phase::Restoring as u64, true),
        (Phase::Ending as u64, false),
        (77, false),
    ] {
        memory.store(PHASE_AT, phase).unwrap();
        assert_eq!(is_restoring(&memory), Ok(restores));
    }
}
