//! Walking along a key's probe, a chunk of slots at a time.

use super::client::{Key, LinearTable};
use super::cluster_hints::{ReadLength, Until};
use crate::Result;
use crate::client::{MANY_READS, check_turn};
use farslot_fabric::VerbFuture;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Piece, RemoteAddr, posting_many};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// How often others may be faster before an operation gives up.
pub(super) const MOST_RACES: u32 = 100_000;

/// How far a walk has come. Distances count slots from the key's home.
pub(super) struct Probe<'t, E: Endpoint> {
    pub(super) home: u64,
    /// What ends it, for the lengths of its READs.
    until: Until,
    /// The slot that is looked at.
    pub(super) distance: u64,
    chunk: Option<Chunk>,
    ahead: Option<Box<Ahead<'t, E>>>,
    /// READs so far.
    pub(super) reads: u32,
    /// How often another writer was faster.
    pub(super) races: u32,
    /// What the last compare-and-swap that was lost has found.
    pub(super) found: u64,
    /// How often the slot was read again because the record of this head was not whole.
    pub(super) rereads: u32,
    unreadable: u64,
}

struct Chunk {
    bytes: Buffer,
    first: u64,
    slots: u64,
}

/// A chunk that was asked for before the one in front of it had come.
struct Ahead<'t, E: Endpoint> {
    answer: Answer<'t, E>,
    first: u64,
    length: ReadLength,
}

enum Answer<'t, E: Endpoint> {
    Awaited(VerbFuture<'t, E, Buffer>),
    Here(Buffer),
}

impl<E: Endpoint> Ahead<'_, E> {
    /// Gets the answer here; ready when it is.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Answer::Awaited(read) = &mut self.answer {
            match Pin::new(read).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(bytes) => self.answer = Answer::Here(bytes?),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<'t, E: Endpoint> Probe<'t, E> {
    #[inline]
    pub(super) fn new(key: &Key<'_>, until: Until) -> Self {
        Self {
            home: key.home,
            until,
            distance: 0,
            chunk: None,
            ahead: None,
            reads: 0,
            races: 0,
            found: 0,
            rereads: 0,
            unreadable: 0,
        }
    }

    /// The words from the slot that is looked at to the chunk's end; empty where nothing was read.
    #[inline]
    pub(super) fn words(&self, slot_words: usize) -> &[u64] {
        match &self.chunk {
            Some(chunk) if self.distance < chunk.first + chunk.slots => {
                let from = (self.distance - chunk.first) as usize * slot_words;
                &chunk.bytes.words()[from..]
            }
            _ => &[],
        }
    }

    /// The bytes of the slot that is looked at, from its second word on.
    pub(super) fn body(&self, slot_words: usize) -> &[u8] {
        match &self.chunk {
            Some(chunk) => {
                let from = (self.distance - chunk.first) as usize * slot_words * 8;
                &chunk.bytes[from + 8..from + slot_words * 8]
            }
            None => &[],
        }
    }

    /// Goes on to the next slot.
    pub(super) fn skip(&mut self) {
        self.distance += 1;
    }

    /// Puts the head that an atomic has found into the local copy, to be looked at again.
    pub(super) fn patch(&mut self, slot_words: usize, seen: u64) {
        self.races += 1;
        self.found = seen;
        if let Some(chunk) = &mut self.chunk {
            let at = (self.distance - chunk.first) as usize * slot_words;
            chunk.bytes.words_mut()[at] = seen;
        }
    }

    /// Forgets the local copy, so that the slot is read again: the record that its head names was
    /// not whole. If the head is another one than last time, others are writing, and that is no
    /// fault.
    pub(super) fn forget(&mut self, head: u64) {
        if head == self.unreadable {
            self.rereads += 1;
        } else {
            self.races += 1;
            self.rereads = 1;
            self.unreadable = head;
        }
        self.chunk = None;
        self.ahead = None;
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// [`LinearTable::met_in_use`] for the slot that a probe looks at, if there are hints.
    pub(super) fn probe_met_in_use(&self, probe: &Probe<'_, E>) {
        if self.hints.is_some() {
            let slot_words = self.layout.slot_bytes() / 8;
            let heads = probe.words(slot_words).iter().step_by(slot_words);
            self.met_in_use(probe.home, probe.distance, heads.copied());
        }
    }

    /// The number of the slot at a distance from a home slot, round the table's end.
    #[inline]
    pub(super) fn slot_number(&self, home: u64, distance: u64) -> u64 {
        let slot = home + distance;
        if slot < self.layout.slots {
            slot
        } else {
            slot - self.layout.slots
        }
    }

    /// The number of the slot that a probe looks at.
    #[inline]
    pub(super) fn slot_of(&self, probe: &Probe<'_, E>) -> u64 {
        self.slot_number(probe.home, probe.distance)
    }

    /// The address of the slot that a probe looks at.
    #[inline]
    pub(super) fn address_of(&self, probe: &Probe<'_, E>) -> RemoteAddr {
        self.layout.slot_at(self.table, self.slot_of(probe))
    }

    /// Reads the chunk at the probe's place; false at the end of the probe, behind which no key is.
    pub(super) async fn read_chunk<'t>(&'t self, probe: &mut Probe<'t, E>) -> Result<bool> {
        let first = probe.distance;
        let length = self.read_length(probe.home, first, probe.until);
        if length.slots == 0 {
            return Ok(false);
        }
        if probe.reads >= MANY_READS {
            check_turn(&*self.endpoint)?;
        }
        probe.reads += 1;
        probe.chunk = Some(if self.sizes.look_ahead {
            self.read_looking_ahead(probe, first, length).await?
        } else {
            let mut read = self.ask(probe.home, first, length.slots);
            Chunk {
                bytes: poll_fn(|cx| self.polled(Pin::new(&mut read).poll(cx))).await?,
                first,
                slots: length.slots,
            }
        });
        Ok(true)
    }

    /// Reads a chunk and leaves the READ of the one behind it under way. In boxes: it is the rarer
    /// way, and would make the futures of all lookups larger.
    async fn read_looking_ahead<'t>(
        &'t self,
        probe: &mut Probe<'t, E>,
        first: u64,
        length: ReadLength,
    ) -> Result<Chunk> {
        let home = probe.home;
        let ask_ahead = |first, length: ReadLength| {
            let answer = Answer::Awaited(self.ask(home, first, length.slots));
            Box::new(Ahead {
                answer,
                first,
                length,
            })
        };
        let mut asked = match probe.ahead.take() {
            Some(ahead) if ahead.first == first => ahead,
            _ => ask_ahead(first, length),
        };
        let behind = asked.first + asked.length.slots;
        let more = self.read_length(home, behind, probe.until);
        let goes_on = more.slots > 0 && !asked.length.reaches_empty;
        probe.ahead = goes_on.then(|| ask_ahead(behind, more));
        let both = poll_fn(|cx| {
            let polled = posting_many(|| poll_first(&mut asked, &mut probe.ahead, cx));
            self.polled(polled)
        });
        both.await?;
        let Answer::Here(bytes) = asked.answer else {
            unreachable!("a chunk is taken once, when it is here")
        };
        Ok(Chunk {
            bytes,
            first: asked.first,
            slots: asked.length.slots,
        })
    }

    /// A READ of consecutive slots; two pieces where they wrap around the table's end (paper 002,
    /// section 3.2).
    #[inline]
    fn ask(&self, home: u64, first: u64, slots: u64) -> VerbFuture<'_, E, Buffer> {
        let start = self.slot_number(home, first);
        let before_end = slots.min(self.layout.slots - start);
        let bytes_of = |slots: u64| slots as usize * self.layout.slot_bytes();
        let from = self.layout.slot_at(self.table, start);
        if before_end == slots {
            self.endpoint.read(from, bytes_of(slots))
        } else {
            let wrapped = self.layout.slot_at(self.table, 0);
            let pieces = [(from, before_end), (wrapped, slots - before_end)];
            let piece = |(from, slots)| Piece {
                from,
                len: bytes_of(slots),
            };
            self.endpoint
                .read_many(pieces.into_iter().map(piece).collect())
        }
    }
}

/// Polls a chunk's READ; that of the one behind it leaves in the same batch.
fn poll_first<E: Endpoint>(
    asked: &mut Ahead<'_, E>,
    behind: &mut Option<Box<Ahead<'_, E>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<()>> {
    let first = asked.poll(cx);
    if let Some(next) = behind
        && let Poll::Ready(Err(_)) = next.poll(cx)
    {
        // It is asked for again, and its error reported, if it is ever needed.
        *behind = None;
    }
    first
}
