//! The memory that a client and an owner share for calls.
//!
//! ```text
//! byte 0     requests: words written, by the client
//!      64    requests: words taken, by the owner
//!      128   replies: words written, by the owner
//!      192   replies: words taken, by the client
//!      256   whether the owner sleeps
//!      320   whether the client sleeps
//!      384   whether the client has given up: no further request begins
//!      4096  requests, 8192 words in a circle
//!      68 Ki replies, 8192 words in a circle
//!
//! request  | bytes, 32 bits | room for the reply, 32 | region, 64 | the bytes, in whole words
//! reply    | bytes, 32 bits | 0, 32 bits | the bytes, in whole words
//! failure  | 0, 32 bits | 1, 32 bits | the four words of a FAILURE (see net/wire)
//! ```

use crate::memory::Mapping;
use crate::words::SharedWords;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::fence;

/// Words of a ring.
const RING: u64 = 8192;
const RINGS_AT: u64 = 4096;
/// Bytes of a channel.
pub(super) const BYTES: u64 = RINGS_AT + 2 * RING * 8;
/// Words before the bytes of a request.
pub(super) const REQUEST_HEAD: usize = 2;
/// Most bytes of a request, and of a reply.
pub(crate) const LONGEST: usize = 4 << 20;

const GIVEN_UP_AT: u64 = 384;

/// Words are where no sound side puts them.
#[derive(Debug)]
pub(super) struct Damaged;

/// Which of the two rings.
#[derive(Clone, Copy)]
pub(super) enum RingDirection {
    Requests,
    Replies,
}

impl RingDirection {
    const fn written_at(self) -> u64 {
        match self {
            Self::Requests => 0,
            Self::Replies => 128,
        }
    }

    const fn taken_at(self) -> u64 {
        self.written_at() + 64
    }

    const fn word_at(self, position: u64) -> u64 {
        let ring = match self {
            Self::Requests => RINGS_AT,
            Self::Replies => RINGS_AT + RING * 8,
        };
        ring + position % RING * 8
    }

    /// Of so many words from a position on, those before the ring's end.
    fn before_end(position: u64, words: usize) -> usize {
        words.min((RING - position % RING) as usize)
    }
}

/// Who writes into a ring. Its own position is its own word; the other side's is looked at.
pub(super) struct RingProducer {
    direction: RingDirection,
    written: u64,
    published: u64,
    /// What the other side had taken when it was looked at last.
    taken: u64,
}

impl RingProducer {
    pub(super) const fn new(direction: RingDirection) -> Self {
        Self {
            direction,
            written: 0,
            published: 0,
            taken: 0,
        }
    }

    /// How many of `wanted` words there is room for.
    pub(super) fn room(
        &mut self,
        memory: SharedWords<'_>,
        wanted: usize,
    ) -> Result<usize, Damaged> {
        let free = |taken: u64| RING.checked_sub(self.written.wrapping_sub(taken));
        let mut room = free(self.taken).ok_or(Damaged)?;
        if room < wanted as u64 {
            self.taken = memory.word(self.direction.taken_at()).load(Acquire);
            room = free(self.taken).ok_or(Damaged)?;
        }
        Ok(wanted.min(room as usize))
    }

    /// Whether there is room for nothing.
    pub(super) fn is_full(&self, memory: SharedWords<'_>) -> Result<bool, Damaged> {
        let taken = memory.word(self.direction.taken_at()).load(SeqCst);
        match self.written.wrapping_sub(taken) {
            used @ ..=RING => Ok(used == RING),
            _ => Err(Damaged),
        }
    }

    /// Puts words that there is room for; nobody sees them before they are published.
    pub(super) fn put(&mut self, memory: SharedWords<'_>, words: &[u64]) {
        let first = RingDirection::before_end(self.written, words.len());
        let (first, rest) = words.split_at(first);
        for words in [first, rest] {
            memory.copy_in(self.direction.word_at(self.written), words.len() * 8, words);
            self.written = self.written.wrapping_add(words.len() as u64);
        }
    }

    /// Lets the other side see what was put; returns whether there was anything new.
    pub(super) fn publish(&mut self, memory: SharedWords<'_>) -> bool {
        if self.published == self.written {
            return false;
        }
        self.published = self.written;
        memory
            .word(self.direction.written_at())
            .store(self.written, Release);
        true
    }
}

/// Who takes words out of a ring.
pub(super) struct RingConsumer {
    direction: RingDirection,
    taken: u64,
    released: u64,
    /// What the other side had written when it was looked at last.
    written: u64,
}

impl RingConsumer {
    pub(super) const fn new(direction: RingDirection) -> Self {
        Self {
            direction,
            taken: 0,
            released: 0,
            written: 0,
        }
    }

    /// How many of `wanted` words are there.
    pub(super) fn available(
        &mut self,
        memory: SharedWords<'_>,
        wanted: usize,
    ) -> Result<usize, Damaged> {
        if self.written.wrapping_sub(self.taken) < wanted as u64 {
            self.written = memory.word(self.direction.written_at()).load(Acquire);
            if self.written.wrapping_sub(self.taken) > RING {
                return Err(Damaged);
            }
        }
        Ok(wanted.min(self.written.wrapping_sub(self.taken) as usize))
    }

    /// Whether all was taken that was written.
    pub(super) fn is_empty(&self, memory: SharedWords<'_>) -> Result<bool, Damaged> {
        let written = memory.word(self.direction.written_at()).load(SeqCst);
        match written.wrapping_sub(self.taken) {
            left @ ..=RING => Ok(left == 0),
            _ => Err(Damaged),
        }
    }

    /// Takes as many words as there is place for. They are there.
    pub(super) fn take(&mut self, memory: SharedWords<'_>, into: &mut [u64]) {
        let first = RingDirection::before_end(self.taken, into.len());
        let (first, rest) = into.split_at_mut(first);
        for into in [first, rest] {
            memory.copy_out(self.direction.word_at(self.taken), into.len() * 8, into);
            self.taken = self.taken.wrapping_add(into.len() as u64);
        }
    }

    /// Takes words, and appends them.
    pub(super) fn append(&mut self, memory: SharedWords<'_>, words: usize, to: &mut Vec<u64>) {
        let first = RingDirection::before_end(self.taken, words);
        for words in [first, words - first] {
            memory.append_to(self.direction.word_at(self.taken), words * 8, to);
            self.taken = self.taken.wrapping_add(words as u64);
        }
    }

    /// Lets the other side use what was taken; returns whether there was anything.
    pub(super) fn release(&mut self, memory: SharedWords<'_>) -> bool {
        if self.released == self.taken {
            return false;
        }
        self.released = self.taken;
        memory
            .word(self.direction.taken_at())
            .store(self.taken, Release);
        true
    }
}

/// A side of a channel.
#[derive(Clone, Copy)]
pub(super) enum ChannelSide {
    Owner,
    Client,
}

impl ChannelSide {
    const fn sleeps_at(self) -> u64 {
        match self {
            Self::Owner => 256,
            Self::Client => 320,
        }
    }
}

/// One side's hold of a channel.
pub(super) struct ShmChannel {
    memory: Mapping,
    stream: UnixStream,
}

impl ShmChannel {
    pub(super) const fn new(memory: Mapping, stream: UnixStream) -> Self {
        Self { memory, stream }
    }

    #[inline]
    pub(super) fn words(&self) -> SharedWords<'_> {
        SharedWords::new(self.memory.words())
    }

    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Has the other side send a byte for what it puts from now on. To be followed by a look at
    /// what it has put already.
    pub(super) fn falls_asleep(&self, side: ChannelSide) {
        self.words().word(side.sleeps_at()).store(1, SeqCst);
        fence(SeqCst);
    }

    pub(super) fn wakes_up(&self, side: ChannelSide) {
        self.words().word(side.sleeps_at()).store(0, SeqCst);
    }

    /// Wakes the other side, if it sleeps, for something that was published.
    pub(super) fn wake(&self, side: ChannelSide) {
        let sleeps = |words: SharedWords<'_>| words.word(side.sleeps_at()).load(SeqCst) != 0;
        fence(SeqCst);
        if sleeps(self.words()) {
            self.words().word(side.sleeps_at()).store(0, SeqCst);
            // A socket that takes no more has something that wakes already.
            let _ = send(
                &self.stream,
                &[0],
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            );
        }
    }

    /// Takes the bytes that wake; returns whether the other side has closed the socket.
    pub(super) fn is_closed(&self) -> bool {
        let mut bytes = [0; 64];
        matches!(
            recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT),
            Ok((0, _))
        )
    }

    /// Has the owner begin no further request.
    pub(super) fn give_up(&self) {
        self.words().word(GIVEN_UP_AT).store(1, SeqCst);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.words().word(GIVEN_UP_AT).load(SeqCst) != 0
    }
}
