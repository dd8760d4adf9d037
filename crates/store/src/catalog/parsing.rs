//! What the words and the record of an entry say.
//!
//! They were written by another client, or by something else. They are believed only if they
//! describe a table that lies in the region whole: all sizes that a client derives from them are
//! bounded by the region then.

use super::entry::{EntryWords, State, closed, record_in};
use super::record::{MapPlace, TableRecord, pooled};
use super::sizes::{MOST_LISTED, catalog_bytes, segment_bytes};
use crate::StoreError;
use crate::names::check_name;
use crate::slot_map::MOST_NODES;
use std::ops::Range;

/// The most bytes of the map of a table over several nodes: more than the addresses of 256 nodes
/// need.
pub(super) const MOST_MAP_BYTES: u64 = 1 << 20;

/// An entry of a catalog that cannot be read, or that describes no table that can be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The node's address.
    pub address: String,
    /// The entry's number.
    pub entry: usize,
    /// The table's name, if that can still be read.
    pub name: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl DamagedEntry {
    /// As an error of whatever needs the entry.
    #[must_use]
    pub fn error(&self) -> StoreError {
        StoreError::DamagedCatalog {
            entry: self.entry,
            reason: self.reason.clone(),
        }
    }
}

impl std::fmt::Display for DamagedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: entry {} of the catalog", self.address, self.entry)?;
        if let Some(name) = &self.name {
            write!(f, " (table {name:?})")?;
        }
        write!(f, " is damaged: {}", self.reason)
    }
}

/// An entry as it was read, with its words.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) number: usize,
    pub(super) words: EntryWords,
    pub(super) is: Is,
}

impl Entry {
    /// The same with these words, if its record is the one that it was by them: they have its id
    /// and its checksum.
    fn with(&self, words: EntryWords) -> Option<Self> {
        let parts = |of: EntryWords| (of.state, of.id, of.place);
        let is_same = parts(words) == parts(self.words) && !matches!(self.is, Is::Damaged(_));
        is_same.then(|| Self {
            words,
            ..self.clone()
        })
    }

    /// An entry that has these words, and is what is known of it; else empty, though its words are
    /// not.
    pub(super) fn known(number: usize, words: EntryWords, known: Option<&Self>) -> Self {
        known.and_then(|known| known.with(words)).unwrap_or(Self {
            number,
            words,
            is: Is::Empty,
        })
    }

    /// Whether its record has still to be read.
    pub(super) const fn is_unread(&self) -> bool {
        self.words.state != 0 && matches!(self.is, Is::Empty)
    }

    /// The table of that name, if it can be opened.
    pub(super) fn open_table(&self, name: &str) -> Option<&TableRecord> {
        match &self.is {
            Is::Table(record) if record.name == name && self.words.may_be(name) => Some(record),
            _ => None,
        }
    }
}

/// What an entry is.
#[derive(Clone, Debug)]
pub(super) enum Is {
    Empty,
    Table(TableRecord),
    /// A table that is gone, whose memory has still to be made zeros.
    Retired(TableRecord),
    Damaged(DamagedEntry),
}

/// What the words and the record of an entry say, in a region of so many bytes, and whether they
/// may be torn: then that is what it is if they stay so.
pub(super) fn entry_in(
    number: usize,
    words: EntryWords,
    record: &[u8],
    region_bytes: u64,
) -> (Entry, bool) {
    let (is, may_be_torn) = what_is_in(number, words, record, region_bytes);
    (Entry { number, words, is }, may_be_torn)
}

fn what_is_in(number: usize, words: EntryWords, record: &[u8], region_bytes: u64) -> (Is, bool) {
    let EntryWords {
        state: word, id, ..
    } = words;
    let state = State::decode(word);
    let Some((json, is_whole)) = record_in(word, record) else {
        let reason = || format!("its state word {word:#018x} is none that a client writes");
        return match state {
            State::Empty => (Is::Empty, false),
            State::Table { .. } | State::Damaged => (damaged(number, None, reason()), false),
        };
    };
    if !is_whole {
        let reason = "its checksum does not fit".into();
        return (damaged(number, Some(json), reason), true);
    }
    let (retired, restored, is_clearing) = match state {
        State::Table {
            retired,
            restored,
            clearing,
            ..
        } => (retired, restored, clearing),
        State::Empty | State::Damaged => (false, false, false),
    };
    let mut record: TableRecord = match serde_json::from_slice(json) {
        Ok(record) => record,
        Err(error) => return (damaged(number, Some(json), error.to_string()), false),
    };
    if let Some(partition) = &mut record.partition {
        partition.remade &= !restored;
    }
    if let Err(reason) = check(&record, region_bytes) {
        return (damaged(number, Some(json), reason), false);
    }
    let is_closed = id == closed(record.id);
    // Of one that is being retired the id goes behind the word that says so.
    if !retired && id != record.id && !is_closed {
        let reason = format!("its id word is not the record's {:#x}", record.id);
        return (damaged(number, Some(json), reason), true);
    }
    let record = TableRecord {
        entry: number,
        published: words.published(),
        catalog_end: catalog_bytes(region_bytes),
        restored,
        is_clearing,
        is_closed,
        ..record
    };
    match retired {
        true => (Is::Retired(record), false),
        false => (Is::Table(record), false),
    }
}

/// Refuses a record of a table that cannot be where it says.
fn check(record: &TableRecord, region_bytes: u64) -> std::result::Result<(), String> {
    check_name(&record.name).map_err(|error| error.to_string())?;
    if record.id == 0 {
        return Err("its id is 0".into());
    }
    let scheme = record.scheme.check();
    scheme.map_err(|error| error.to_string())?;
    let (offset, region) = (u128::from(record.offset), u128::from(region_bytes));
    let least = catalog_bytes(region_bytes);
    if record.offset < least || !record.offset.is_multiple_of(8) {
        return Err(format!(
            "its table is at byte {offset}: no multiple of 8 from {least} on"
        ));
    }
    if let Some(layout) = pooled(&record.scheme) {
        let segment = segment_bytes(region_bytes);
        let most = u128::from(MOST_LISTED) * u128::from(segment);
        let is_too_long = layout.address_bytes() > most;
        if layout.segment != segment || record.tag == 0 || is_too_long {
            let own = layout.segment;
            return Err(format!(
                "it is made of segments of {own} bytes, with the tag {:#x}, in a region of segments \
                 of {segment}",
                record.tag
            ));
        }
    }
    let bytes = record.scheme.table_bytes();
    if offset + bytes > region {
        return Err(format!(
            "its table of {bytes} bytes at {offset} passes the region's end at {region}"
        ));
    }
    match &record.partition {
        Some(partition) => {
            let (map, number) = (partition.map, partition.number);
            check_map(map, (offset + bytes)..region, number)
        }
        None => Ok(()),
    }
}

fn check_map(map: MapPlace, free: Range<u128>, number: u16) -> std::result::Result<(), String> {
    if usize::from(number) >= MOST_NODES {
        return Err(format!("partition {number} of {MOST_NODES}"));
    }
    let (start, bytes) = (u128::from(map.offset), u128::from(map.bytes));
    if start >= free.start && map.bytes <= MOST_MAP_BYTES && start + bytes <= free.end {
        return Ok(());
    }
    Err(format!(
        "its map of {bytes} bytes at {start}: at most {MOST_MAP_BYTES}, from {} to the region's end at {}",
        free.start, free.end
    ))
}

pub(super) fn too_long(bytes: u64) -> String {
    format!("its {bytes} bytes are over the limit of {MOST_MAP_BYTES}")
}

pub(super) fn damaged(entry: usize, json: Option<&[u8]>, reason: String) -> Is {
    /// What is left of a record in which the rest cannot be read.
    #[derive(serde::Deserialize)]
    struct RecordName {
        name: String,
    }
    let named = json.and_then(|json| serde_json::from_slice::<RecordName>(json).ok());
    let named = named.map(|named| named.name);
    Is::Damaged(DamagedEntry {
        address: String::new(),
        entry,
        name: named.filter(|name| check_name(name).is_ok()),
        reason,
    })
}
