//! The operations, the same for every design.
//!
//! Invariant: a coroutine holds the buckets that its key may be in, or all of them, so that no
//! other changes what it has read; and nothing is unfinished when it begins.

use super::board::BucketBoard;
use super::client::{BaselineTable, Key};
use super::homes::BucketWindow;
use super::placing::RoomPlanner;
use super::slots::{Record, Slot, SlotFormat, SlotWrite, is_free};
use farslot::fabric::{Buffer, Endpoint};
use farslot::index::{Cursor, IndexError, Result, Value};
use std::ops::Range;
use std::rc::Rc;

/// Bytes that one piece of a scan reads.
const PIECE: usize = 64 << 10;

/// What a write does with a key that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Put,
    FindOrPut,
}

/// What a write has done.
pub(super) enum RecordEffect {
    Inserted,
    Replaced,
    Found(Value),
}

/// A window that was read, and when.
struct WindowSnapshot {
    window: BucketWindow,
    bytes: Buffer,
    /// How often anything had changed by then.
    at: u64,
}

/// What writing beside what is there has come to.
enum FreeSlotWrite {
    Written(RecordEffect),
    /// The key is not there, and no slot is free.
    NoRoom(Option<WindowSnapshot>),
}

impl<E: Endpoint, P: RoomPlanner> BaselineTable<E, P> {
    pub(super) async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        let key = self.key(key)?;
        let (_held, window) = self.hold(&key).await?;
        if let Some(value) = self.stashed_value(&key)? {
            return Ok(Some(value));
        }
        let Some(window) = window else {
            return Ok(None);
        };
        let (bytes, found) = self.look(window, &key).await?;
        Ok(found.map(|(_, value)| value_in(&bytes, value)))
    }

    pub(super) async fn write_value(
        &self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
    ) -> Result<RecordEffect> {
        let key = self.key(key)?;
        self.layout().format.check_value(value)?;
        let (held, window) = self.hold_to_write(&key).await?;
        let beside = self.write_beside(&key, value, mode, window).await?;
        drop(held);
        let written = match beside {
            FreeSlotWrite::Written(written) => written,
            FreeSlotWrite::NoRoom(snapshot) => {
                self.write_alone(&key, value, mode, snapshot).await?
            }
        };
        let new = matches!(written, RecordEffect::Inserted);
        self.entries_changed(i64::from(new)).await;
        Ok(written)
    }

    /// Writes where the key is, or into a free slot of its window, which is held and clean.
    async fn write_beside(
        &self,
        key: &Key<'_>,
        value: &[u8],
        mode: Mode,
        window: Option<BucketWindow>,
    ) -> Result<FreeSlotWrite> {
        if let Some(there) = self.stashed_value(key)? {
            if mode == Mode::FindOrPut {
                return Ok(FreeSlotWrite::Written(RecordEffect::Found(there)));
            }
            let mut stash = self.stash.borrow_mut();
            stash.insert(key.bytes.into(), value.into());
            return Ok(FreeSlotWrite::Written(RecordEffect::Replaced));
        }
        let Some(window) = window else {
            return Ok(FreeSlotWrite::NoRoom(None));
        };
        let layout = self.layout();
        let (bytes, found) = self.look(window, key).await?;
        let first = window.first * u64::from(layout.bucket_slots);
        if let Some((slot, value_at)) = found {
            if mode == Mode::FindOrPut {
                let there = value_in(&bytes, value_at);
                return Ok(FreeSlotWrite::Written(RecordEffect::Found(there)));
            }
            let record = layout.format.encode(key.bytes, value);
            self.write_slot(first + slot, record).await?;
            return Ok(FreeSlotWrite::Written(RecordEffect::Replaced));
        }
        let mut slots = bytes.chunks_exact(layout.slot_bytes());
        let Some(free) = slots.position(is_free) else {
            let at = self.changes();
            return Ok(FreeSlotWrite::NoRoom(Some(WindowSnapshot {
                window,
                bytes,
                at,
            })));
        };
        let record = layout.format.encode(key.bytes, value);
        self.write_slot(first + free as u64, record).await?;
        Ok(FreeSlotWrite::Written(RecordEffect::Inserted))
    }

    /// Writes while nobody else does anything: makes room if there still is none.
    async fn write_alone(
        &self,
        key: &Key<'_>,
        value: &[u8],
        mode: Mode,
        snapshot: Option<WindowSnapshot>,
    ) -> Result<RecordEffect> {
        let alone = self.hold_alone().await?;
        let mut board = BucketBoard::new(self);
        match snapshot {
            Some(snapshot) if snapshot.at == self.changes() => {
                board.note(snapshot.window, &snapshot.bytes)
            }
            _ => {
                // Others may have written meanwhile.
                let window = self.placing.window(key.hash);
                self.clean_alone(&alone, &self.unclean(window)).await?;
                match self.write_beside(key, value, mode, window).await? {
                    FreeSlotWrite::Written(written) => return Ok(written),
                    FreeSlotWrite::NoRoom(Some(snapshot)) => {
                        board.note(snapshot.window, &snapshot.bytes)
                    }
                    FreeSlotWrite::NoRoom(None) => {}
                }
            }
        }
        self.worked(|work| work.plans += 1);
        let newcomer = Rc::new(Record {
            hash: key.hash,
            bytes: self.layout().format.encode(key.bytes, value),
        });
        let Some(change) = self.placing.make_room(&mut board, &newcomer).await? else {
            self.put_aside(key, value)?;
            return Ok(RecordEffect::Inserted);
        };
        let changes = board.changes(Some(&newcomer));
        // The state and what is unfinished go together, also if this is dropped half way.
        self.placing.apply(change);
        self.write_slots(changes.writes).await?;
        board
            .known()
            .for_each(|bucket| self.placing.cleaned(bucket));
        self.worked(|work| work.moved += changes.moved);
        Ok(RecordEffect::Inserted)
    }

    /// Puts a record into the stash.
    fn put_aside(&self, key: &Key<'_>, value: &[u8]) -> Result<()> {
        let (layout, mut stash) = (self.layout(), self.stash.borrow_mut());
        if stash.len() >= layout.stash as usize {
            return Err(IndexError::Full {
                probed: u64::from(layout.bucket_slots),
                slots: layout.slots(),
            });
        }
        stash.insert(key.bytes.into(), value.into());
        drop(stash);
        self.changed();
        self.worked(|work| work.stashed += 1);
        Ok(())
    }

    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        self.layout().format.check_value(value)?;
        let (_held, window) = self.hold_to_write(&key).await?;
        if let Some(stashed) = self.stash.borrow_mut().get_mut(key.bytes) {
            *stashed = value.into();
            return Ok(true);
        }
        let Some(slot) = self.slot_of(&key, window).await? else {
            return Ok(false);
        };
        let record = self.layout().format.encode(key.bytes, value);
        self.write_slot(slot, record).await?;
        Ok(true)
    }

    pub(super) async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        let (held, window) = self.hold_to_write(&key).await?;
        if self.stash.borrow_mut().remove(key.bytes).is_some() {
            self.changed();
        } else {
            let Some(slot) = self.slot_of(&key, window).await? else {
                return Ok(false);
            };
            self.write_slot(slot, SlotFormat::free()).await?;
        }
        drop(held);
        self.entries_changed(-1).await;
        Ok(true)
    }

    /// The slot of a key whose window is held.
    async fn slot_of(&self, key: &Key<'_>, window: Option<BucketWindow>) -> Result<Option<u64>> {
        let Some(window) = window else {
            return Ok(None);
        };
        let (_, found) = self.look(window, key).await?;
        let first = window.first * u64::from(self.layout().bucket_slots);
        Ok(found.map(|(slot, _)| first + slot))
    }

    async fn write_slot(&self, slot: u64, bytes: Rc<[u8]>) -> Result<()> {
        self.write_slots(vec![SlotWrite { slot, bytes }]).await
    }

    fn stashed_value(&self, key: &Key<'_>) -> Result<Option<Value>> {
        let stash = self.stash.borrow();
        let Some(value) = stash.get(key.bytes) else {
            return Ok(None);
        };
        Ok(Some(Value::from(&value[..])))
    }

    /// Visits a piece of the buckets, or the stash behind them. Nobody writes meanwhile.
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let alone = self.hold_alone().await?;
        let layout = self.layout();
        let left = layout.buckets.saturating_sub(first);
        let most = most / u64::from(layout.bucket_slots);
        let count = left.min(most.min((PIECE / layout.bucket_bytes()) as u64).max(1));
        if count == 0 {
            let stash = self.stash.borrow();
            stash.iter().for_each(|(key, value)| visit(key, value));
            return Ok(None);
        }
        let window = BucketWindow { first, count };
        let bytes = self.read_window(window).await?;
        drop(alone);
        for (bucket, bytes) in window
            .buckets()
            .zip(bytes.chunks_exact(layout.bucket_bytes()))
        {
            for slot in bytes.chunks_exact(layout.slot_bytes()) {
                if let Slot::Record(record) = layout.format.decode(slot)
                    && self.placing.belongs(layout.hasher.hash(record.key), bucket)
                {
                    visit(record.key, record.value);
                }
            }
        }
        // The stash comes after the last bucket.
        Ok(Some(Cursor(first + count)))
    }
}

/// The value that is a part of a window that was read.
fn value_in(window: &Buffer, value: Range<usize>) -> Value {
    Value::from(&window[value])
}
