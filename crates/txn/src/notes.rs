//! What a node's owner notes of transactions where its memory outlives its process: every change of
//! its [`Books`], so that the next owner has them as they were.
//!
//! A note is a part of the turn that changes the books, and so of what that turn does in the tables
//! ([`OwnerMemory::begin_turn`]): after a kill there is both or neither. Times are not noted. What
//! runs from a time runs anew from when the next owner begins, which only lets a transaction live
//! longer.

use crate::books::{Books, Decided, Held, OwnerOptions};
use crate::identity::Names;
use crate::wire::{Home, Reader, Writer};
use farslot_fabric::{Nanos, OwnerMemory};
use std::collections::BTreeMap;

/// Bytes of notes of all transactions beyond which none locks anything more before some have ended.
const MOST: usize = 2 << 20;
/// All is noted anew when there is less room than this.
const LEAST_ROOM: usize = 4 << 20;

/// One change of the books.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note<'n> {
    /// A transaction holds something, perhaps with further promises.
    Holds {
        lock: u64,
        home: Home,
        grant: Option<&'n str>,
        object: u64,
        held: &'n [u8],
        promised: u64,
    },
    /// What its client has told of its home.
    IsAtHome { lock: u64, home: Home },
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

impl Note<'_> {
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
                let held = self.held.entry(lock).or_insert_with(|| Held {
                    until: now.saturating_add(options.lease),
                    home,
                    grant,
                    keys: BTreeMap::new(),
                });
                *held.keys.entry((object, from.0.into())).or_default() += promised;
            }
            1 => {
                let (lock, home) = (from.word()?, from.home()?);
                self.held.get_mut(&lock)?.home = home;
            }
            2 => drop(self.held.remove(&from.word()?)),
            3 => {
                let lock = from.word()?;
                let grant = grant_of(&mut from)?;
                let mut parts = Vec::new();
                while !from.0.is_empty() {
                    let (node, bytes) = (from.byte()?, from.word()?);
                    parts.push((node, from.bytes(usize::try_from(bytes).ok()?)?.into()));
                }
                match parts.is_empty() {
                    true => drop(self.decided.remove(&lock)),
                    false => {
                        let decided = Decided {
                            since: now,
                            grant,
                            parts,
                        };
                        self.decided.insert(lock, decided);
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
    pub(crate) fn make_room(&mut self, memory: &mut dyn OwnerMemory) {
        if memory
            .room_for_notes()
            .is_none_or(|room| room >= LEAST_ROOM)
        {
            return;
        }
        memory.note_anew();
        let mut bytes = 0;
        let mut put = |note: Note<'_>| {
            let note = note.encode();
            bytes += note.len() + 16;
            memory.note(&note);
        };
        if let Some((place, names)) = &self.names {
            let (place, moves) = (*place, self.moves);
            put(Note::Names {
                place,
                moves,
                names: names.words(),
            });
            for place in names.given_up() {
                put(Note::GivenUp { place });
            }
        }
        for (lock, held) in &self.held {
            for ((object, key), promised) in &held.keys {
                put(Note::Holds {
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
            put(Note::Decided {
                lock: *lock,
                grant: grant.as_deref(),
                parts,
            });
        }
        self.is_crowded = bytes > MOST;
    }
}
