//! What the owner of a node tells of its catalog to clients that may not read it: their grants open
//! single keys, to calls. The records hold what keys are hashed by, with which anybody could make
//! keys that collide. So these clients are told of the tables that are open to them, without that,
//! and of no others.
//!
//! ```text
//! answer       | head | entry | entry | ...        values, with the numbers of the entries
//! head         | the first entry that is not told of yet, or their number | mark |
//!              | the count of the catalog's header | phase | repairs |      with their number
//! entry        | state word | id word | 0 | place | the table's record, as JSON |    as in the
//!                                                   catalog
//! of damage    nothing
//! ```
//! A client that looks for a table asks for those alone whose names have a part of its name's hash,
//! by a word as the place of an entry: that part, and the first entry. Entries of others take the
//! owner a word each, so one answer has it, however many tables there are. If the table is not in
//! it, or may have been renamed, the client asks for all tables: by 0 in place of that part.
//!
//! An answer takes no more than a call's turn, so a client asks for the rest, from the entry on
//! that the answer names. If the count is another by then, a table may have been renamed from an
//! entry that comes later to one that came before: the client asks again for all. What comes is
//! another's word, and believed as little as what stands in a catalog.

use super::entry::{EntryWords, ID_AT, MOST_RECORD, PLACE_AT, State, WORDS_BYTES, closed};
use super::listing::{CatalogSnapshot, MOST_READS};
use super::parsing::{Entry, Is, damaged, entry_in};
use super::record::TableRecord;
use super::region::{
    Catalog, HEADER_WORDS, MARK_AT, PHASE_AT, PUBLISHED, PUBLISHED_AT, Phase, REPAIRS_AT, entry_at,
    record_at,
};
use super::sizes::most_tables;
use crate::calls::client::asking::ask_of_tables;
use crate::calls::request::Question;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, NodeId, OwnerMemory, RegionId};
use farslot_index::{IndexError, Value};
use std::collections::{HashMap, HashSet};

/// Bytes of the head.
const HEAD_BYTES: usize = 8 * HEADER_WORDS;
/// Bytes for the values of an answer that clients have room for.
const ROOM: usize = 64 << 10;
/// Values of an answer that clients have room for: the head, and entries.
const MOST_VALUES: usize = 257;
/// Bytes of the longest value that an answer must have room for: those of an entry and the head.
pub(crate) const LONGEST_TOLD: usize = WORDS_BYTES + MOST_RECORD + HEAD_BYTES;

/// The values of an answer of the owner who is `asked` for tables by a word, of those that
/// `is_open` says are open to the caller. It goes on while `may_go_on` says so of the bytes and the
/// number of the values so far, the head counted; an entry adds a value of [`LONGEST_TOLD`] at
/// most.
///
/// # Errors
/// What the memory says.
pub(crate) fn tables_from(
    memory: &dyn OwnerMemory,
    asked: u64,
    is_open: impl Fn(&TableRecord) -> bool,
    may_go_on: impl Fn(usize, usize) -> bool,
) -> farslot_fabric::Result<Vec<(usize, Vec<u8>)>> {
    for _ in 1..MOST_READS {
        let count = memory.load(PUBLISHED_AT)?;
        let told = told_from(memory, asked, &is_open, &may_go_on)?;
        if memory.load(PUBLISHED_AT)? == count {
            return Ok(told);
        }
    }
    told_from(memory, asked, &is_open, &may_go_on)
}

/// The same, whatever is published meanwhile.
fn told_from(
    memory: &dyn OwnerMemory,
    asked: u64,
    is_open: impl Fn(&TableRecord) -> bool,
    may_go_on: impl Fn(usize, usize) -> bool,
) -> farslot_fabric::Result<Vec<(usize, Vec<u8>)>> {
    let mut entries = Vec::new();
    let mut bytes = HEAD_BYTES;
    let all = most_tables(memory.bytes());
    let mut next = (asked as u32 as usize).min(all);
    // One entry at least, so that every answer comes to something.
    let mut is_first = true;
    while next < all {
        let place = memory.load(entry_at(NodeId(0), next).offset + PLACE_AT)?;
        if [0, place >> 32].contains(&(asked >> 32)) {
            if !is_first && !may_go_on(bytes, entries.len() + 1) {
                break;
            }
            is_first = false;
            if let Some(entry) = told_of(&entry_of(memory, next)?, &is_open) {
                bytes += entry.len();
                entries.push((next, entry));
            }
        }
        next += 1;
    }
    let head: [u64; HEADER_WORDS] = [
        next as u64,
        memory.load(MARK_AT)?,
        memory.load(PUBLISHED_AT)?,
        memory.load(PHASE_AT)?,
        memory.load(REPAIRS_AT)?,
    ];
    let head: Vec<u8> = head.into_iter().flat_map(u64::to_le_bytes).collect();
    entries.push((all, head));
    Ok(entries)
}

/// The record of the table of this id; nothing if there is none, or it is being cleared: nobody
/// opens it before it is. Only what has the id is parsed, so that asking for tables that are none
/// takes the owner a word of each entry.
///
/// # Errors
/// What the memory says.
pub(crate) fn record_of(
    memory: &dyn OwnerMemory,
    id: u64,
) -> farslot_fabric::Result<Option<TableRecord>> {
    // What entries without a table have there.
    if [0, closed(0)].contains(&id) {
        return Ok(None);
    }
    for number in 0..most_tables(memory.bytes()) {
        let word = memory.load(entry_at(NodeId(0), number).offset + ID_AT)?;
        if [id, closed(id)].contains(&word)
            && let Is::Table(record) = entry_of(memory, number)?.is
            && record.id == id
            && !record.is_clearing
        {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The ids of tables that were renamed or cleared, with those of the tables that have come in their
/// places, as an owner remembers them.
#[derive(Default)]
pub(crate) struct ReplacedIds {
    /// The count of the header before they were read. It is another before any of these tables goes
    /// that was not replaced by then.
    count: u64,
    ids: HashMap<u64, u64>,
}

impl ReplacedIds {
    /// The id of the table that has come in the place of the one of this id, which is gone: nothing
    /// if there is none. The records are parsed once for each time that some were published, so
    /// that asking for tables that are none takes the owner nothing.
    ///
    /// # Errors
    /// What the memory says.
    pub(crate) fn find(
        &mut self,
        memory: &dyn OwnerMemory,
        id: u64,
    ) -> farslot_fabric::Result<Option<u64>> {
        let count = memory.load(PUBLISHED_AT)?;
        if count != self.count {
            let mut ids = HashMap::new();
            for number in 0..most_tables(memory.bytes()) {
                if let Is::Table(record) = entry_of(memory, number)?.is
                    && let Some(old) = record.replaces.filter(|old| *old != record.id)
                {
                    ids.entry(old).or_insert(record.id);
                }
            }
            *self = Self { count, ids };
        }
        Ok(self.ids.get(&id).copied())
    }
}

/// Whether the node restores its tables: clients do nothing to them meanwhile.
///
/// # Errors
/// What the memory says.
pub(crate) fn is_restoring(memory: &dyn OwnerMemory) -> farslot_fabric::Result<bool> {
    Ok(Phase::admit(memory.load(PHASE_AT)?, NodeId(0), false).is_err())
}

/// The record of the table of this id, and the bytes of its map; nothing if there is none, or it
/// has no map.
///
/// # Errors
/// What the memory says.
pub(crate) fn map_of(
    memory: &dyn OwnerMemory,
    id: u64,
) -> farslot_fabric::Result<Option<(TableRecord, Vec<u8>)>> {
    let Some(record) = record_of(memory, id)? else {
        return Ok(None);
    };
    let Some(place) = record.partition.as_ref().map(|partition| partition.map) else {
        return Ok(None);
    };
    // It was checked that it lies in the region, and how long it is.
    let mut words = vec![0; (place.bytes as usize).div_ceil(8)];
    memory.copy_out(place.offset, &mut words)?;
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.truncate(place.bytes as usize);
    Ok(Some((record, bytes)))
}

/// An entry. One that may be torn is read again at once: whoever changes it may take as long as it
/// likes.
fn entry_of(memory: &dyn OwnerMemory, number: usize) -> farslot_fabric::Result<Entry> {
    let (at, bytes) = (entry_at(NodeId(0), number).offset, memory.bytes());
    let record_at = record_at(NodeId(0), number, bytes).offset;
    let mut record = [0; MOST_RECORD / 8];
    let mut attempt = 1;
    loop {
        let mut words = [0; WORDS_BYTES / 8];
        for (word, at) in words.iter_mut().zip((at..).step_by(8)) {
            *word = memory.load(at)?;
        }
        let words = EntryWords::of(words);
        // Most have no table.
        if words.state != 0 {
            memory.copy_out(record_at, &mut record)?;
        }
        match entry_in(number, words, bytemuck::cast_slice(&record), bytes) {
            (_, true) if attempt < MOST_READS => attempt += 1,
            (entry, _) => return Ok(entry),
        }
    }
}

/// What a caller is told of an entry, if anything.
fn told_of(entry: &Entry, is_open: impl Fn(&TableRecord) -> bool) -> Option<Vec<u8>> {
    let record = match &entry.is {
        Is::Table(record) | Is::Retired(record) if is_open(record) => record,
        Is::Damaged(_) => return Some(Vec::new()),
        _ => return None,
    };
    let seedless = TableRecord {
        scheme: record.scheme.without_seeds(),
        ..record.clone()
    };
    // It was made of such JSON, but maybe by another program. A damaged entry says as much.
    let json = serde_json::to_vec(&seedless).unwrap_or_default();
    if !(1..=MOST_RECORD).contains(&json.len()) {
        return Some(Vec::new());
    }
    let words = EntryWords {
        state: State::table(&json) | entry.words.state & State::FLAGS,
        versions: 0,
        ..entry.words
    };
    Some(words.bytes().chain(json).collect())
}

impl<E: Endpoint> Catalog<'_, E> {
    /// The catalog as far as the owner tells of it: of a name, the entries that may be its table's.
    pub(super) async fn told(&self, name: Option<&str>) -> Result<CatalogSnapshot> {
        told_by(self.region_bytes, async |next| {
            let answer = self.told_from(next, name).await?;
            let (head, entries) = taken_apart(answer, next, self.region_bytes)?;
            let [.., phase, _] = head;
            self.admit(phase, false)?;
            Ok((head, entries))
        })
        .await
    }

    /// What the owner answers who asks for the tables from an entry on, or for that of a name.
    pub(super) async fn told_from(
        &self,
        first: usize,
        name: Option<&str>,
    ) -> Result<Vec<(usize, Value)>> {
        let first = first as u32;
        let asked = name.map_or(first.into(), |name| EntryWords::place_of(name, first));
        self.ask(Question::Tables, asked, (MOST_VALUES, ROOM)).await
    }

    /// The map of the table with this id, of so many bytes.
    pub(super) async fn told_map(&self, id: u64, bytes: usize) -> Result<Value> {
        let mut answer = self.ask(Question::Map, id, (1, bytes)).await?;
        let map = answer.pop().map(|(_, map)| map);
        map.ok_or_else(|| nonsense("there is no map in it"))
    }

    async fn ask(
        &self,
        question: Question,
        number: u64,
        room: (usize, usize),
    ) -> Result<Vec<(usize, Value)>> {
        let to = (self.node, RegionId(0));
        Ok(ask_of_tables(self.endpoint, to, (question, number), room).await?)
    }
}

/// The catalog by the answers that `from` takes apart, from an entry on: all of the same count, but
/// for a catalog in which records are published all the time.
pub(super) async fn told_by(
    region_bytes: u64,
    from: impl AsyncFn(usize) -> Result<([u64; HEADER_WORDS], Vec<Entry>)>,
) -> Result<CatalogSnapshot> {
    let mut reads = 1;
    loop {
        let mut snapshot = CatalogSnapshot {
            segments: Vec::new(),
            region_bytes,
            header: [0; HEADER_WORDS],
            entries: Vec::new(),
            is_whole: false,
        };
        let (mut next, mut counts) = (0, HashSet::new());
        // It is one further after each answer.
        while next < most_tables(region_bytes) {
            let (head, mut entries) = from(next).await?;
            next = head[0] as usize;
            counts.insert(head[PUBLISHED]);
            snapshot.header = head;
            snapshot.entries.append(&mut entries);
        }
        if counts.len() == 1 || reads == MOST_READS {
            return Ok(snapshot);
        }
        reads += 1;
    }
}

fn nonsense(why: &str) -> StoreError {
    let reason = format!("its answer makes no sense: {why}");
    IndexError::AtOwner {
        reason,
        in_doubt: false,
    }
    .into()
}

/// The head of an answer from the entry `first` on, and its entries.
pub(super) fn taken_apart(
    answer: Vec<(usize, Value)>,
    first: usize,
    region_bytes: u64,
) -> Result<([u64; HEADER_WORDS], Vec<Entry>)> {
    let all = most_tables(region_bytes);
    let mut head = None;
    let mut entries: Vec<Entry> = Vec::new();
    for (number, bytes) in answer {
        if number == all {
            let (words, rest) = bytes.as_chunks::<8>();
            let words = <[[u8; 8]; HEADER_WORDS]>::try_from(words).ok();
            let words = words.filter(|_| rest.is_empty() && head.is_none());
            head = Some(words.ok_or_else(|| nonsense("its head is none"))?);
            continue;
        }
        let least = entries.last().map_or(first, |last| last.number + 1);
        if !(least..all).contains(&number) {
            return Err(nonsense("its entries are out of order"));
        }
        entries.push(told_entry(number, &bytes, region_bytes));
    }
    let head = head.ok_or_else(|| nonsense("it has no head"))?;
    let head = head.map(u64::from_le_bytes);
    let least = entries.last().map_or(first, |last| last.number) + 1;
    match (least as u64..=all as u64).contains(&head[0]) {
        true => Ok((head, entries)),
        false => Err(nonsense("it does not come to an end")),
    }
}

/// What an owner says of an entry.
fn told_entry(number: usize, bytes: &[u8], region_bytes: u64) -> Entry {
    let (words, record) = bytes.split_at(bytes.len().min(WORDS_BYTES));
    let mut read = [0; WORDS_BYTES / 8];
    for (word, bytes) in read.iter_mut().zip(words.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let (mut entry, _) = entry_in(number, EntryWords::of(read), record, region_bytes);
    match &mut entry.is {
        Is::Table(record) | Is::Retired(record) => record.is_told = true,
        // Its owner cannot read it either.
        is if bytes.is_empty() => {
            let reason = "its node says so, and no more".into();
            *is = damaged(number, None, reason);
        }
        Is::Empty | Is::Damaged(_) => {}
    }
    entry
}

const _: () = assert!(ROOM >= LONGEST_TOLD);
