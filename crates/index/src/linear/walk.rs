//! Walking a key's probe as whoever writes it does: to its slot, and what is in it. Lookups take
//! the same steps without a walk (`lookup.rs`), but for those of tables that look ahead.
//!
//! Invariant: a slot that is in use keeps its key for ever, unless it is retired, and then it has
//! no key for ever. A slot that was seen to be another key's or nobody's therefore is not the key's
//! later, and a key whose probe was seen to meet an empty slot was absent at the moment when that
//! slot was read: it can stand in no later one.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::probe::{MOST_RACES, Probe};
use crate::client::{MOST_READS, pause};
use crate::hash::{checksum, scale};
use crate::slot::{Head, KeyRule, SlotKind, WordFormat};
use crate::{IndexError, Result, Value};
use farslot_fabric::Endpoint;
use std::ops::Range;

/// What a walk has come to.
pub(super) enum Spot {
    /// The first empty slot: the key is absent, and belongs here.
    Empty,
    /// The end of the longest probe: the key is absent, and there is no place for it.
    End,
    /// The key's own slot: the word that its next writer must replace, and its value if it has one.
    Mine { word: u64, value: Option<Value> },
}

/// What a scan of the local copy has come to.
pub(super) enum Seen {
    Nothing,
    Empty,
    /// A Word or Pair slot of the key: the word that holds its value.
    Word(u64),
    /// An Inline, Heap or Hybrid slot that may be the key's.
    Head(u64),
}

/// What a closer look at such a slot has shown.
enum Verdict {
    Mine(Option<Value>),
    OtherKey,
    /// The slot has changed meanwhile, or is not yet visible whole.
    ReadAgain,
}

/// Looks through consecutive Pair slots, each of which knows its words, for that of a key with this
/// word; returns how many it passed before it came to something, or to the end.
#[inline(always)]
pub(super) fn scan_pairs(
    wanted: u64,
    slots: impl Iterator<Item = impl Fn(usize) -> u64>,
) -> (usize, Seen) {
    let mut passed = 0;
    for slot in slots {
        let head = slot(0);
        if head == wanted {
            return (passed, Seen::Word(slot(1)));
        }
        if head == 0 {
            return (passed, Seen::Empty);
        }
        passed += 1;
    }
    (passed, Seen::Nothing)
}

impl<E: Endpoint> LinearTable<E> {
    /// Finds the key from the probe's place on, for what a lookup in steps cannot do.
    pub(super) async fn find_from<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
    ) -> Result<Option<Value>> {
        let spot = self.locate(key, probe).await?;
        self.lookup_took(probe.reads);
        match spot {
            Spot::Mine { value: None, .. } if self.layout.keys == KeyRule::Multi => {
                probe.skip();
                self.find_further(key, probe).await
            }
            Spot::Mine { word, value } => {
                self.probe_met_in_use(probe);
                if value.is_some() {
                    self.remember(key, probe.distance, word);
                }
                Ok(value)
            }
            Spot::Empty => {
                self.met_empty(probe.home, probe.distance);
                Ok(None)
            }
            Spot::End => Ok(None),
        }
    }

    /// The next record of a multi-key table's key.
    async fn find_further<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
    ) -> Result<Option<Value>> {
        loop {
            match self.locate(key, probe).await? {
                Spot::Mine { value: None, .. } => probe.skip(),
                Spot::Mine { value, .. } => return Ok(value),
                Spot::Empty => {
                    self.met_empty(probe.home, probe.distance);
                    return Ok(None);
                }
                Spot::End => return Ok(None),
            }
        }
    }

    /// A record of a multi-key table's key that may stand behind a dead slot of the key.
    pub(super) async fn find_behind_dead(&self, key: &Key<'_>) -> Result<Option<Value>> {
        self.find_further(key, &mut Probe::new(key, Until::Match))
            .await
    }

    pub(super) async fn find_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let key = self.checked_key(key)?;
        if self.refresh_is_due() {
            self.refresh().await?;
        }
        let mut probe = Probe::new(&key, self.until_all());
        let mut count = 0;
        loop {
            match self.locate(&key, &mut probe).await? {
                Spot::Mine { value, .. } => {
                    if let Some(value) = value {
                        found(&value);
                        count += 1;
                    }
                    if self.layout.keys == KeyRule::Unique {
                        self.probe_met_in_use(&probe);
                        break;
                    }
                    probe.skip();
                }
                Spot::Empty => {
                    self.met_empty(probe.home, probe.distance);
                    break;
                }
                Spot::End => break,
            }
        }
        self.lookup_took(probe.reads);
        Ok(count)
    }

    /// What ends a walk over all records of a key.
    pub(super) fn until_all(&self) -> Until {
        match self.layout.keys {
            KeyRule::Unique => Until::Match,
            KeyRule::Multi => Until::EmptySlot,
        }
    }

    /// Walks on from the probe's place to the key's next slot, or to the end of its probe.
    #[inline]
    pub(super) async fn locate<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
    ) -> Result<Spot> {
        loop {
            let (passed, seen) = self.scan_local(key, probe);
            probe.distance += passed;
            match seen {
                Seen::Nothing => {
                    if !self.read_chunk(probe).await? {
                        return Ok(Spot::End);
                    }
                }
                Seen::Empty => return Ok(Spot::Empty),
                Seen::Word(word) => {
                    let value = self.value_of(word);
                    return Ok(Spot::Mine { word, value });
                }
                Seen::Head(word) => match self.look_closer(key, word, probe).await? {
                    Verdict::Mine(value) => return Ok(Spot::Mine { word, value }),
                    Verdict::OtherKey => probe.skip(),
                    Verdict::ReadAgain => self.wait_to_read_again(word, probe).await?,
                },
            }
        }
    }

    /// Looks through the local copy; returns how many slots it passed and what it came to.
    fn scan_local(&self, key: &Key<'_>, probe: &Probe<'_, E>) -> (u64, Seen) {
        let slot_words = self.layout.slot_bytes() / 8;
        let words = probe.words(slot_words);
        let slots = words.len() / slot_words;
        let kind = self.layout.kind;
        let (slot, seen) = self.scan(kind, key, 0..slots, |word| words[word]);
        (slot as u64, seen)
    }

    /// Looks through consecutive slots of the table's kind, of which `word` knows the words;
    /// returns the slot at which it came to something, or the end.
    #[inline(always)]
    pub(super) fn scan(
        &self,
        kind: SlotKind,
        key: &Key<'_>,
        slots: Range<usize>,
        word: impl Fn(usize) -> u64,
    ) -> (usize, Seen) {
        let end = slots.end;
        match kind {
            SlotKind::Pair => {
                let (first, word) = (slots.start, &word);
                let pairs = slots.map(|slot| move |number: usize| word(2 * slot + number));
                let (passed, seen) = scan_pairs(key.word, pairs);
                return (first + passed, seen);
            }
            SlotKind::Word => {
                for slot in slots {
                    let head = word(slot);
                    if head == 0 {
                        return (slot, Seen::Empty);
                    }
                    if self.words.same_key(head, key.word) {
                        return (slot, Seen::Word(head));
                    }
                }
            }
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => {
                let slot_words = self.layout.slot_bytes() / 8;
                for slot in slots {
                    let head = word(slot * slot_words);
                    if head == 0 {
                        return (slot, Seen::Empty);
                    }
                    if Head::decode(head).may_be(key.hash) {
                        return (slot, Seen::Head(head));
                    }
                }
            }
        }
        (end, Seen::Nothing)
    }

    /// Whether a Word or Pair slot's word stands for a value.
    #[inline(always)]
    pub(super) fn has_value(&self, kind: SlotKind, word: u64) -> bool {
        match kind {
            SlotKind::Pair => word != 0,
            _ => WordFormat::is_live(word),
        }
    }

    /// The value that a Word or Pair slot's word stands for.
    #[inline]
    pub(super) fn value_of(&self, word: u64) -> Option<Value> {
        let len = self.layout.value.most();
        let value = match self.layout.kind {
            SlotKind::Pair => self.words.value_of_pair(word),
            _ => self.words.value_of_word(word),
        };
        self.has_value(self.layout.kind, word)
            .then(|| Value::of_word(value, len))
    }

    /// Compares the key itself, in the slot or out of band.
    async fn look_closer(&self, key: &Key<'_>, word: u64, probe: &Probe<'_, E>) -> Result<Verdict> {
        match Head::decode(word) {
            Head::Claimed { .. } | Head::Dead { .. } => Ok(Verdict::Mine(None)),
            Head::Inline { sum, .. } => {
                let lengths = (self.layout.key.most(), self.layout.value.most());
                self.look_inline(key, lengths, sum, probe)
            }
            Head::Sized {
                key_len,
                value_len,
                sum,
                ..
            } => self.look_inline(key, (key_len, value_len), sum, probe),
            Head::Out { block, .. } => {
                let heap = self.heap.as_ref().expect("tables with heads have a heap");
                Ok(match heap.read(block).await? {
                    None => Verdict::ReadAgain,
                    Some(record) if record.key() == key.bytes => {
                        Verdict::Mine(Some(record.into_value()))
                    }
                    Some(record) if self.may_stand_at(record.key(), word, self.slot_of(probe)) => {
                        Verdict::OtherKey
                    }
                    // A later use of the block, whose generation has come round.
                    Some(_) => Verdict::ReadAgain,
                })
            }
            Head::Empty | Head::Retired | Head::Unknown => Ok(Verdict::OtherKey),
        }
    }

    /// Whether a slot with this head can be that of a key.
    pub(super) fn may_stand_at(&self, key: &[u8], head: u64, slot: u64) -> bool {
        let hash = self.layout.hasher.hash(key);
        let slots = self.layout.slots;
        let distance = (slot + slots - scale(hash, slots)) % slots;
        Head::decode(head).may_be(hash) && distance < self.layout.longest_probe
    }

    /// Compares the key in the slot, whose key and value have these lengths.
    fn look_inline(
        &self,
        key: &Key<'_>,
        (key_len, value_len): (usize, usize),
        sum: u32,
        probe: &Probe<'_, E>,
    ) -> Result<Verdict> {
        let body = probe.body(self.layout.slot_bytes() / 8);
        // A head that says more than the slot can hold is none that this table's clients write.
        let Some(record) = body.get(..key_len + value_len) else {
            return Ok(Verdict::ReadAgain);
        };
        if checksum(record, self.layout.mask_seed) != sum {
            return Ok(Verdict::ReadAgain);
        }
        if record[..key_len] != *key.bytes {
            return Ok(Verdict::OtherKey);
        }
        let value = Value::copied(&record[key_len..], &self.endpoint.core().buffers)?;
        Ok(Verdict::Mine(Some(value)))
    }

    /// Has the slot read again: at once the first time, then after ever longer pauses.
    pub(super) async fn wait_to_read_again(
        &self,
        head: u64,
        probe: &mut Probe<'_, E>,
    ) -> Result<()> {
        probe.forget(head);
        if probe.rereads > MOST_READS || probe.races > MOST_RACES {
            return Err(IndexError::Unreadable {
                slot: self.slot_of(probe),
                attempts: probe.rereads.max(probe.races),
            });
        }
        if probe.rereads > 1 {
            pause(&*self.endpoint, probe.rereads).await?;
        }
        Ok(())
    }
}
