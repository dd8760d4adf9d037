//! What a node's owner notes of transactions where its memory outlives its process: every change of
//! its [`Books`], so that the next owner has them as they were.
//!
//! A note is a part of the turn that changes the books, and so of what that turn does in the tables
//! ([`OwnerMemory::begin_turn`]): after a kill there is both or neither. Times are not noted. What
//! runs from a time runs anew from when the next owner begins, which only lets a transaction live
//! longer.

use crate::books::{Books, Decided, OwnerOptions, TransactionLocks};
use crate::identity::Names;
use crate::wire::{Reader, TransactionHome, Writer};
use farslot_fabric::{Nanos, OwnerMemory};
use std::collections::BTreeMap;

/// All is noted anew when there is less room than this.
const LEAST_ROOM: usize = 4 << 20;

/// One change of the books.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BookChange<'n> {
    /// A transaction holds something, perhaps with further promises.
    Holds {
        lock: u64,
        home: TransactionHome,
        grant: Option<&'n str>,
        object: u64,
        held: &'n [u8],
        promised: u64,
    },
    /// What its client has told of its home.
    IsAtHome { lock: u64, home: TransactionHome },
    /// It holds nothing any more.
    Released { lock: u64 },
    /// It is committed, and these parts are unfinished: none, and it is forgotten.
    Decided {
        lock: u64,
        grant: Option<&'n str>,
        parts: &'n [(u8, Box<[u8]>)],
    },
    /// The names that a home gives.
    Names {
        place: u8,
        moves: u64,
        names: [u64; 3],
    },
    /// A name that was given up.
    GivenUp { place: u64 },
}

impl BookChange<'_> {
    fn encode(self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Holds {
                lock,
                home,
                grant,
                object,
                held,
                promised,
            } => {
                to.byte(0).word(lock).home(home);
                put_grant(&mut to, grant);
                to.word(object).word(promised).bytes(held);
            }
            Self::IsAtHome { lock, home } => {
                to.byte(1).word(lock).home(home);
            }
            Self::Released { lock } => {
                to.byte(2).word(lock);
            }
            Self::Decided { lock, grant, parts } => {
                to.byte(3).word(lock);
                put_grant(&mut to, grant);
                for (node, part) in parts {
                    to.byte(*node).word(part.len() as u64).bytes(part);
                }
            }
            Self::Names {
                place,
                moves,
                names,
            } => {
                to.byte(4).byte(place).word(moves);
                for word in names {
                    to.word(word);
                }
            }
            Self::GivenUp { place } => {
                to.byte(5).word(place);
            }
        }
        to.0
    }

    /// Notes it.
    pub(crate) fn put(self, memory: &mut dyn OwnerMemory) {
        if memory.room_for_notes().is_some() {
            memory.note(&self.encode());
        }
    }
}

fn put_grant(to: &mut Writer, grant: Option<&str>) {
    let bytes = grant.unwrap_or_default().as_bytes();
    to.byte(grant.is_some().into()).half(bytes.len() as u16);
    to.bytes(bytes);
}

fn grant_of(from: &mut Reader<'_>) -> Option<Option<Box<str>>> {
    let is_there = from.byte()? != 0;
    let bytes = from.half()?;
    let grant = std::str::from_utf8(from.bytes(bytes.into())?).ok()?;
    Some(is_there.then(|| grant.into()))
}

impl Books {
    /// The books as they were noted in this memory; new ones where there is nothing of that. What
    /// makes no sense is left out.
    pub(crate) fn noted(memory: &dyn OwnerMemory, now: Nanos, options: &OwnerOptions) -> Self {
        let mut books = Self {
            is_known: true,
            ..Self::default()
        };
        for note in memory.notes() {
            if books.read(&note, now, options).is_none() {
                log::error!("a note of transactions in kept memory is damaged, and left out");
            }
        }
        books
    }

    fn read(&mut self, note: &[u8], now: Nanos, options: &OwnerOptions) -> Option<()> {
        let mut from = Reader(note);
        match from.byte()? {
            0 => {
                let (lock, home) = (from.word()?, from.home()?);
                let grant = grant_of(&mut from)?;
                let (object, promised) = (from.word()?, from.word()?);
                self.hold(lock, (object, from.0), promised, || TransactionLocks {
                    until: now.saturating_add(options.lease),
                    home,
                    grant,
                    keys: BTreeMap::new(),
                });
            }
            1 => {
                let (lock, home) = (from.word()?, from.home()?);
                self.held.get_mut(&lock)?.home = home;
            }
            2 => drop(self.release(from.word()?)),
            3 => {
                let lock = from.word()?;
                let grant = grant_of(&mut from)?;
                let mut parts = Vec::new();
                while !from.0.is_empty() {
                    let (node, bytes) = (from.byte()?, from.word()?);
                    parts.push((node, from.bytes(usize::try_from(bytes).ok()?)?.into()));
                }
                match parts.is_empty() {
                    true => drop(self.take_decided(lock)),
                    false => {
                        let decided = Decided {
                            since: now,
                            grant,
                            parts,
                        };
                        self.decide(lock, decided);
                    }
                }
            }
            4 => {
                let (place, moves) = (from.byte()?, from.word()?);
                let words = [from.word()?, from.word()?, from.word()?];
                match &mut self.names {
                    Some((known, names)) if *known == place && self.moves == moves => {
                        names.set(words);
                    }
                    names => *names = Some((place, Names::noted(place, words, options.decisions))),
                }
                self.moves = moves;
            }
            5 => {
                let (_, names) = self.names.as_mut()?;
                names.give_up_place(from.word()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Notes all of the books anew where there is little room for more notes.
    pub(crate) fn make_room(&self, memory: &mut dyn OwnerMemory) {
        if memory
            .room_for_notes()
            .is_none_or(|room| room >= LEAST_ROOM)
        {
            return;
        }
        self.note_all(memory);
    }

    /// Notes all of the books anew.
    pub(crate) fn note_all(&self, memory: &mut dyn OwnerMemory) {
        memory.note_anew();
        let mut put = |change: BookChange<'_>| memory.note(&change.encode());
        if let Some((place, names)) = &self.names {
            let (place, moves) = (*place, self.moves);
            put(BookChange::Names {
                place,
                moves,
                names: names.words(),
            });
            for place in names.given_up() {
                put(BookChange::GivenUp { place });
            }
        }
        for (lock, held) in &self.held {
            for ((object, key), promised) in &held.keys {
                put(BookChange::Holds {
                    lock: *lock,
                    home: held.home,
                    grant: held.grant.as_deref(),
                    object: *object,
                    held: key,
                    promised: *promised,
                });
            }
        }
        for (lock, Decided { grant, parts, .. }) in &self.decided {
            put(BookChange::Decided {
                lock: *lock,
                grant: grant.as_deref(),
                parts,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Names;
    use farslot_fabric::{FabricError, NodeId, RegionId, RemoteAddr, Result};

    /// Memory of nothing but notes.
    #[derive(Default)]
    struct Notes {
        notes: Vec<Vec<u8>>,
        is_full: bool,
    }

    const NOWHERE: FabricError = FabricError::Misaligned {
        at: RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset: 1,
        },
    };

    impl OwnerMemory for Notes {
        fn bytes(&self) -> u64 {
            0
        }
        fn load(&self, _: u64) -> Result<u64> {
            Err(NOWHERE)
        }
        fn store(&mut self, _: u64, _: u64) -> Result<()> {
            Err(NOWHERE)
        }
        fn compare_swap(&mut self, _: u64, _: u64, _: u64) -> Result<u64> {
            Err(NOWHERE)
        }
        fn copy_out(&self, _: u64, _: &mut [u64]) -> Result<()> {
            Err(NOWHERE)
        }
        fn copy_in(&mut self, _: u64, _: &[u64]) -> Result<()> {
            Err(NOWHERE)
        }
        fn room_for_notes(&self) -> Option<usize> {
            Some(if self.is_full { 0 } else { LEAST_ROOM })
        }
        fn note(&mut self, note: &[u8]) {
            self.notes.push(note.into());
        }
        fn note_anew(&mut self) {
            self.notes.clear();
        }
        fn notes(&self) -> Vec<Vec<u8>> {
            self.notes.clone()
        }
    }

    /// All of the books, as they are noted anew.
    fn all_of(books: &Books) -> Vec<Vec<u8>> {
        let mut notes = Notes {
            is_full: true,
            ..Notes::default()
        };
        books.make_room(&mut notes);
        notes.notes
    }

    #[test]
    fn the_next_owner_has_the_books_as_they_were() {
        let mut memory = Notes::default();
        let mut names = Names::new(3, 77, 2);
        let locks: Vec<u64> = (0..4).map(|_| names.block().unwrap().word()).collect();
        let home = TransactionHome {
            incarnation: 5,
            nodes: 2,
            at: 1,
        };
        let holds = |lock, key, promised, grant| BookChange::Holds {
            lock,
            home,
            grant,
            object: 9,
            held: key,
            promised,
        };
        let parts: Vec<(u8, Box<[u8]>)> = vec![(1, b"one".to_vec().into()), (2, Box::default())];
        let decided = |lock, parts| BookChange::Decided {
            lock,
            grant: None,
            parts,
        };
        let named = |names: &Names| BookChange::Names {
            place: 3,
            moves: 1,
            names: names.words(),
        };
        let begun = named(&names);
        for note in [
            begun,
            holds(locks[0], b"a key", 3, Some("grant")),
            holds(locks[0], b"a key", 4, Some("grant")),
            holds(locks[0], b"", 0, Some("grant")),
            holds(locks[1], b"other", 1, None),
            BookChange::IsAtHome {
                lock: locks[0],
                home: TransactionHome { at: 0, ..home },
            },
            decided(locks[2], &parts),
            decided(locks[3], &parts),
            decided(locks[2], &parts[1..]),
            decided(locks[3], &[]),
            BookChange::Released { lock: locks[1] },
        ] {
            note.put(&mut memory);
        }
        // More than are kept one by one: the oldest stands for those before it.
        for _ in 0..3 {
            let name = names.block().unwrap();
            let given_up = names.give_up(name);
            named(&names).put(&mut memory);
            let place = given_up.unwrap();
            BookChange::GivenUp { place }.put(&mut memory);
        }
        let options = OwnerOptions {
            decisions: 2,
            ..OwnerOptions::default()
        };
        let books = Books::noted(&memory, 1_000, &options);
        let held = &books.held[&locks[0]];
        assert_eq!((held.home.at, held.grant.as_deref()), (0, Some("grant")));
        assert_eq!(held.until, 1_000 + options.lease);
        let keys: Vec<_> = held.keys.values().copied().collect();
        assert_eq!(keys, [0, 7]);
        assert_eq!(books.held.len(), 1);
        assert_eq!(books.decided.len(), 1);
        assert_eq!(books.decided[&locks[2]].parts, parts[1..]);
        let (place, noted) = books.names.as_ref().unwrap();
        assert_eq!((*place, books.moves, noted.words()), (3, 1, names.words()));
        assert!(noted.given_up().eq(names.given_up()));
        // And once more, from all of them noted anew.
        let all = all_of(&books);
        memory.notes.clone_from(&all);
        let again = Books::noted(&memory, 1_000, &options);
        assert_eq!(all_of(&again), all);
        assert_eq!(again.crowd(None), None);
    }

    #[test]
    fn notes_that_make_no_sense_are_left_out() {
        let mut memory = Notes::default();
        let lock = 7;
        BookChange::Released { lock }.put(&mut memory);
        memory
            .notes
            .extend([vec![], vec![9], vec![0, 1], vec![3; 12], vec![5; 9]]);
        let parts: [(u8, Box<[u8]>); 1] = [(1, b"part".to_vec().into())];
        let grant = None;
        let parts = &parts[..];
        BookChange::Decided { lock, grant, parts }.put(&mut memory);
        let books = Books::noted(&memory, 0, &OwnerOptions::default());
        assert!(books.held.is_empty() && books.names.is_none());
        assert_eq!(books.decided.len(), 1);
    }

    #[test]
    fn books_of_which_there_is_too_much_are_crowded_until_there_is_less() {
        let mut books = Books::default();
        let decided = |grant: u64| Decided {
            since: 0,
            grant: Some(format!("grant {}", grant % 3).into()),
            parts: vec![(1, vec![0; 16 << 10].into())],
        };
        (0..129).for_each(|lock| books.decide(lock, decided(lock)));
        // Again: as when a part of it is finished.
        books.decide(0, decided(0));
        let (bytes, limit) = books.crowd(Some("grant 0")).unwrap();
        assert!(limit < bytes && bytes < 130 * (17 << 10), "{bytes}");
        let noted: usize = all_of(&books).iter().map(|note| note.len() + 16).sum();
        assert!(noted <= bytes, "{noted} are counted as {bytes}");
        for lock in 0..32 {
            assert!(books.take_decided(lock).is_some());
        }
        assert_eq!(books.crowd(Some("grant 0")), None);
        // One grant has too much, and others do not.
        (200..264).for_each(|lock| books.decide(lock * 3, decided(lock * 3)));
        (32..129).for_each(|lock| drop(books.take_decided(lock)));
        let (_, half) = books.crowd(Some("grant 0")).unwrap();
        assert_eq!((half * 2, books.crowd(Some("grant 1"))), (limit, None));
    }
}
