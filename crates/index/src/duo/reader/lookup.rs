//! Looking a key up by the copy, and in the published index where that is old.

use super::client::{DuoReader, ReaderPromise};
use super::copy::{State, View};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::duo::bytes::{SlotNumber, head_in, live_head};
use crate::duo::records::with_record;
use crate::{BATCH_WIDTH, GET, IndexError, Result, Value};
use farslot_fabric::{Endpoint, EndpointExt, Piece, Pieces, window};

/// Reads of a torn slot before the journal is looked into.
pub(super) const TORN_READS: u32 = 3;

/// A key that is looked up.
pub(super) struct Wanted<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) head: u64,
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
    /// The key's value.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`] or [`IndexError::EmptyKey`]; [`IndexError::Contended`] or
    /// [`IndexError::Unreadable`] if the key's buckets, or its record, were changed at every look;
    /// [`IndexError::BadOption`] for a table whose header is damaged; what the fabric says.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    /// Looks up many keys, [`BATCH_WIDTH`] at a time; `done` gets each answer with the key's
    /// number, in the order in which they come.
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

    /// Reads all that there is of the key in the published index into the copy: its pages and the
    /// stash, how often the table has grown, and whether its buckets are split that were not.
    /// Whether it is as it was in the copy when the search began.
    async fn read_pages(&self, hash: u64, view: &View) -> Result<bool> {
        let State { buckets, .. } = view.state;
        let words = self.layout.bucket_page().words() as usize;
        let pieces: Pieces = {
            let copy = self.copy.borrow();
            let page_at = |page| copy.vault.page_at(&self.layout, page);
            let piece = |from, words| Piece {
                from,
                len: words * 8,
            };
            let pages = buckets.map(|page| piece(page_at(page), words));
            let bits = view.bits.iter().map(|word| piece(word.at, 1));
            // The count of growths is in front of the stash's pages.
            let from = self.layout.growths_at(self.table);
            let stash = piece(from, 1 + self.layout.stash as usize);
            std::iter::once(stash).chain(pages).chain(bits).collect()
        };
        let read = self.endpoint.read_many(pieces).await?;
        let (stash, rest) = read.words().split_at(1 + self.layout.stash as usize);
        let (counted, stashed) = (stash[0], &stash[1..]);
        {
            let mut copy = self.copy.borrow_mut();
            copy.take(SlotNumber::STASH.0, stashed);
            copy.take(buckets[0], &rest[..words]);
            copy.take(buckets[1], &rest[words..2 * words]);
            for (word, bits) in view.bits.iter().zip(&rest[2 * words..]) {
                copy.take_bits(*word, &[*bits]);
            }
        }
        self.learn_growths(counted).await?;
        Ok(self.copy.borrow().state(hash) == view.state)
    }

    /// The key's record, if it is that of an update which has begun: see the module's page.
    pub(super) async fn find_in_journal(
        &self,
        slot: SlotNumber,
        key: &Wanted<'_>,
    ) -> Result<Option<Value>> {
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
