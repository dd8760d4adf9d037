//! Readers beside the owner: on other machines, in other threads.
//!
//! A reader has a copy of the published index, and so finds a key with one READ, as the owner does. The owner knows
//! nothing of it: the copy is looked after by the reader. It may be old, as much as it likes: that costs READs,
//! and never an answer.
//!
//! **A key that is found** is there: the head of the slot that was read says that the slot is live and whose it
//! is, the checksum that the record is whole; and no dead slot holds a whole record, so that head and
//! record are of one use of the slot. A split leaves a record where it was until its new bucket has it, and
//! nobody changes it meanwhile.
//!
//! **A key that is not found** where the copy has it, or that the copy does not have, is looked for in the published
//! index: one READ fetches the key's two pages and the stash. If they are as in the copy, they were so
//! from before the lookup began until they were read, for stamps only grow; then at one moment of the lookup
//! no entry named the key, so that it was absent. If they are not, the copy takes them in, and the search begins anew.
//! A slot that an entry names, and that is dead, may be about to live: the search saw that it did not yet. Of two
//! such slots a record may just be moved from one to the other, so that then the search is done twice.
//!
//! **A table that grows.** With the stash the same READ fetches how often the table has grown; and while a
//! growth is under way, a word of bits for each of the key's buckets that the copy does not know to be split. Only if
//! these too are as in the copy are the two pages all that there is of the key. If not, the copy learns of it: of a
//! growth by its entry in the header, and of a split, whose new buckets it knows nothing of, by their pages. So the copy
//! follows whatever the table does, lookup by lookup or by [`DuoReader::refresh`], and nobody has to tell it. Of an
//! extendible table the same holds of splits of sub-tables, which [`extendible`](super::extendible) says more of: what is "a growth"
//! here is the split of the key's sub-table.
//!
//! | lookup | round trips |
//! |---|---|
//! | found, where the copy has it | 1 |
//! | found elsewhere, or not in the copy | 2 to 3 |
//! | found in another bucket, as the copy knew of the growth but not of the split | 3 to 4 |
//! | found there, the copy knew of neither | 4 to 6; 7 if the list of splits has a chunk more |
//! | absent | 1; 2 with a share of 2d/2^f, or if the entry of a removed key is still there |
//! | absent, [`ReaderPromise::BoundedStaleness`] | 0, unless the key's segment has changed of late |
//!
//! **An update that is under way** leaves the slot torn for a moment; or for long, if its owner has died. A reader
//! that meets a torn slot again and again looks into the journal: a record there is the key's last one if
//! the slot is torn still afterwards, for then its update had begun.
//!
//! Source: none. Paper 001 has one client process.

mod copy;
mod refresh;
mod scan;

use super::layout::{DuoLayout, head_in, live_head};
use super::placement::SlotNumber;
use super::records::with_record;
use crate::client::locks::BucketLocks;
use crate::client::{MOST_READS, pause, side_by_side};
use crate::heap::Heap;
use crate::slot::bad_option;
use crate::{BATCH_WIDTH, GET, IndexError, Result, Value};
use copy::{IndexCopy, State, View};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, Piece, Pieces, RemoteAddr, window};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Reads of a torn slot before the journal is looked into.
const TORN_READS: u32 = 3;

/// What a reader's answer "absent" means. That a key is found, and its value, is linearizable always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReaderPromise {
    /// The key was absent at a moment of the lookup: absent keys cost a round trip.
    #[default]
    Linearizable,
    /// The key was absent at a moment of the lookup, or at one of the last so many nanoseconds before it: absent
    /// keys cost nothing while [`DuoReader::refresh`] is called at least that often, but for those whose
    /// segment of the index has changed of late.
    BoundedStaleness {
        /// How old an answer may be.
        most: Nanos,
    },
}

/// A CuckooDuo table as the coroutines of one thread see it that is not its owner's: they look keys up, and
/// write nothing, in the memory either. It follows a table that grows by itself; what it is to read there, on the
/// table's node, it needs the right to read.
pub struct DuoReader<E> {
    endpoint: Rc<E>,
    layout: DuoLayout,
    table: RemoteAddr,
    promise: ReaderPromise,
    copy: RefCell<IndexCopy>,
    /// If the records are there.
    heap: Option<Heap<E>>,
    /// Held by who refreshes the copy.
    refreshing: BucketLocks,
}

/// A key that is looked up.
struct Wanted<'k> {
    bytes: &'k [u8],
    head: u64,
}

/// What a slot turned out to be.
enum Seen {
    Key(Value),
    /// Of another key, and has been all along.
    Other,
    Dead,
    /// The key's, but not whole.
    Torn,
}

impl<E: Endpoint> DuoReader<E> {
    /// Opens the table that lies at `table`, for lookups only. This asks nothing of it yet: the copy of the index
    /// is filled by the lookups, or by [`DuoReader::refresh`].
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for a layout that no options give, or whose index is not
    /// [published](DuoLayout::published).
    pub fn open(endpoint: Rc<E>, table: RemoteAddr, layout: DuoLayout) -> Result<Self> {
        layout.check()?;
        if !layout.published {
            let limit = "the table was made for its owner alone";
            return Err(bad_option("published", false, limit));
        }
        Ok(Self {
            copy: RefCell::new(IndexCopy::new(table, layout.clone())),
            promise: ReaderPromise::default(),
            refreshing: BucketLocks::default(),
            heap: layout
                .has_heap()
                .then(|| Heap::new(Rc::clone(&endpoint), layout.heap_place(table))),
            endpoint,
            layout,
            table,
        })
    }

    /// The same reader with another promise.
    #[must_use]
    pub const fn promising(mut self, promise: ReaderPromise) -> Self {
        self.promise = promise;
        self
    }

    /// The table's layout.
    #[must_use]
    pub const fn layout(&self) -> &DuoLayout {
        &self.layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Slots of both arrays, those that the table is growing to included: as far as this reader knows.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.copy.borrow().slots()
    }

    /// Bytes of memory of the copy of the index.
    #[must_use]
    pub fn copy_bytes(&self) -> usize {
        self.copy.borrow().bytes()
    }

    /// The key's value.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`] or [`IndexError::EmptyKey`]; [`IndexError::Contended`] or
    /// [`IndexError::Unreadable`] if the key's buckets, or its record, were changed at every look;
    /// [`IndexError::BadOption`] for a table whose header is damaged; what the fabric says.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    /// Looks up many keys, [`BATCH_WIDTH`] at a time; `done` gets each answer with the key's number,
    /// in the order in which they come.
    pub async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Option<Value>>),
    ) {
        window(BATCH_WIDTH, keys.into_iter().map(|key| self.get(key)), done).await;
    }

    /// As [`DuoReader::get`], booked to no operation class.
    ///
    /// # Errors
    /// As [`DuoReader::get`].
    pub async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        self.layout.shape().check_key(key)?;
        let hash = self.layout.hash_of(key);
        let key = Wanted {
            bytes: key,
            head: live_head(hash),
        };
        let mut quiet_before = None;
        let mut torn = None;
        for attempt in 0..MOST_READS {
            let view = self.copy.borrow().view(hash);
            if view.matches.is_empty() && self.is_known_well(&view) {
                return Ok(None);
            }
            let mut dead = 0;
            torn = None;
            for slot in &view.matches {
                match self.look(*slot, &key).await? {
                    Seen::Key(value) => return Ok(Some(value)),
                    Seen::Torn => torn = Some(*slot),
                    Seen::Dead => dead += 1,
                    Seen::Other => {}
                }
            }
            if let Some(slot) = torn {
                if attempt >= TORN_READS
                    && self.heap.is_none()
                    && let Some(value) = self.find_in_journal(slot, &key).await?
                {
                    return Ok(Some(value));
                }
                pause(&*self.endpoint, attempt).await;
            }
            let quiet = self.read_pages(hash, &view).await?;
            let twice = quiet_before == Some(view.state);
            if quiet && torn.is_none() && (dead <= 1 || twice) {
                return Ok(None);
            }
            quiet_before = quiet.then_some(view.state);
        }
        Err(match torn {
            Some(SlotNumber(slot)) => IndexError::Unreadable {
                slot,
                attempts: MOST_READS,
            },
            None => IndexError::Contended {
                slot: self
                    .layout
                    .first_of_page(self.copy.borrow().state(hash).buckets[0])
                    .0,
                attempts: MOST_READS,
            },
        })
    }

    /// Whether the copy alone says what the reader has promised.
    fn is_known_well(&self, view: &View) -> bool {
        let ReaderPromise::BoundedStaleness { most } = self.promise else {
            return false;
        };
        let known = self.copy.borrow().known_at(view.state.buckets);
        known.is_some_and(|at| self.endpoint.now().saturating_sub(at) <= most)
    }

    /// Reads a slot that may be the key's.
    async fn look(&self, slot: SlotNumber, key: &Wanted<'_>) -> Result<Seen> {
        let at = self.copy.borrow().vault.slot_at(&self.layout, slot);
        let bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        let bytes = match &self.heap {
            Some(heap) if head_in(&bytes) == key.head => {
                let read = with_record(&self.layout, heap, bytes).await?;
                read.into_bytes()
            }
            _ => bytes,
        };
        Ok(match head_in(&bytes) {
            0 => Seen::Dead,
            head if head != key.head => Seen::Other,
            _ => match self.layout.record_in(&bytes) {
                None => Seen::Torn,
                Some(record) if record.key != key.bytes => Seen::Other,
                Some(record) => {
                    let value = record.value_at..record.value_at + record.value.len();
                    Seen::Key(Value::of_buffer(bytes, value))
                }
            },
        })
    }

    /// Reads all that there is of the key in the published index into the copy: its pages and the stash, how often the
    /// table has grown, and whether its buckets are split that were not. Whether it is as it was in the copy when
    /// the search began.
    async fn read_pages(&self, hash: u64, view: &View) -> Result<bool> {
        let State { buckets, .. } = view.state;
        let words = self.layout.bucket_page().words() as usize;
        let stash_pages = self.layout.stash_pages(self.layout.subtable_of(buckets[0]));
        let pieces: Pieces = {
            let copy = self.copy.borrow();
            let page_at = |page| copy.vault.page_at(&self.layout, page);
            let piece = |from, words| Piece {
                from,
                len: words * 8,
            };
            let pages = buckets.map(|page| piece(page_at(page), words));
            let bits = view.bits.iter().map(|word| piece(word.at, 1));
            let stash = self.count_and_stash(stash_pages.clone(), page_at);
            stash.into_iter().chain(pages).chain(bits).collect()
        };
        let read = self.endpoint.read_many(pieces).await?;
        let (stash, rest) = read.words().split_at(1 + self.layout.stash as usize);
        let (counted, stashed) = (stash[0], &stash[1..]);
        {
            let mut copy = self.copy.borrow_mut();
            copy.take(stash_pages.start, stashed);
            copy.take(buckets[0], &rest[..words]);
            copy.take(buckets[1], &rest[words..2 * words]);
            for (word, bits) in view.bits.iter().zip(&rest[2 * words..]) {
                copy.take_bits(*word, &[*bits]);
            }
        }
        self.learn_growths(counted).await?;
        Ok(self.copy.borrow().state(hash) == view.state)
    }

    /// The count of growths and these pages of the stash: of an extendible table they lie apart.
    fn count_and_stash(
        &self,
        pages: Range<u64>,
        page_at: impl Fn(u64) -> RemoteAddr,
    ) -> Vec<Piece> {
        let (count, stash) = (8, 8 * self.layout.stash as usize);
        let from = self.layout.growths_at(self.table);
        if !self.layout.extendible || stash == 0 {
            let len = count + stash;
            return vec![Piece { from, len }];
        }
        let stash = Piece {
            from: page_at(pages.start),
            len: stash,
        };
        vec![Piece { from, len: count }, stash]
    }

    /// The key's record, if it is that of an update which has begun: see the module's page.
    async fn find_in_journal(&self, slot: SlotNumber, key: &Wanted<'_>) -> Result<Option<Value>> {
        let mut newest = None;
        let journal: Vec<SlotNumber> = self.layout.journal().collect();
        let looks = journal.iter().map(|slot| self.look(*slot, key));
        side_by_side(journal.len(), looks, |_, seen| {
            if let Seen::Key(value) = seen {
                newest = Some(value);
            }
        })
        .await?;
        match self.look(slot, key).await? {
            Seen::Torn => Ok(newest),
            Seen::Key(value) => Ok(Some(value)),
            Seen::Dead | Seen::Other => Ok(None),
        }
    }
}
