//! Queues between ranks: a ring in the receiver's memory for each sender, reached by one-sided
//! verbs.
//!
//! ```text
//! a rank's region, in words:
//!   0     1..8   8      9..16    16         32                     16 p               16 p + w
//!   +-----+------+------+--------+----------+---------------------+------------------+---------
//!   | tail|      | head |        | rank 1's | ... those of rank p | w words: ring of | rank 1's
//!   |  of rank 0's ring          |          |                     | rank 0's frames  |
//!   +-----+------+------+--------+----------+---------------------+------------------+---------
//!   tail: words that the sender has put, ever; only the sender adds to it, by verbs
//!   head: words that the receiver has taken, ever; only the receiver writes it,
//!         the sender reads it
//!
//! a frame: | kind (8 bits), words behind this one (32 bits) << 8 | those words |
//!          it may wrap round
//! ```
//! A frame is written before the tail is added to. A write is seen no later than its writer's next
//! atomic, so that whoever sees the tail sees the frame. No word has two writers, and the only
//! atomic is the sender's: remote atomics and the owner's stores never meet.

use super::table::SharedTableMemory;
use crate::error::RankError;
use farslot_fabric::shm::MappedWords;
use farslot_fabric::sim::SimNode;
use farslot_fabric::{AnyEndpoint, Endpoint, EndpointExt, Nanos, NodeId, RegionId, RemoteAddr};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Words of a ring's tail and head, each on a cache line of its own.
const HEADER: u64 = 16;
const HEAD: u64 = 8;
/// Fewest and most words of a ring.
const LEAST_WORDS: u64 = 1 << 15;
const MOST_WORDS: u64 = 1 << 21;
/// A rank that waits looks again after this long at first, and after twice as long each time.
const FIRST_NAP: Nanos = 500;
const LONGEST_NAP: Nanos = 100_000;
/// After so long without a frame a rank asks whether those that it waits for are still there.
const ANYBODY_THERE: Nanos = 200_000_000;
/// The region of the rings.
const REGION: RegionId = RegionId(0);

/// The shape of the rings: the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingShape {
    ranks: u64,
    words: u64,
}

impl RingShape {
    /// Rings between `ranks` ranks for states of up to `state_words` words.
    ///
    /// # Errors
    /// [`RankError::LongState`] where a state is longer than a frame may be;
    /// [`RankError::TooManyRanks`].
    pub fn for_states(ranks: u32, state_words: usize) -> Result<Self, RankError> {
        let ranks = u64::from(ranks);
        if ranks == 0 || ranks > farslot_set::MAX_RANKS {
            return Err(RankError::TooManyRanks { ranks });
        }
        // A frame takes a quarter of a ring at most: a state and what is said of it must fit.
        let needed = 4 * (state_words as u64 + 4);
        let words = needed.next_power_of_two().max(LEAST_WORDS);
        if words > MOST_WORDS {
            return Err(RankError::LongState {
                words: state_words,
                limit: (MOST_WORDS / 4 - 4) as usize,
            });
        }
        Ok(Self { ranks, words })
    }

    /// The same with the smallest rings that hold states of so many words: for tests of what
    /// happens when they are full.
    #[must_use]
    pub fn smallest(self, state_words: usize) -> Self {
        let words = (4 * (state_words as u64 + 12)).next_power_of_two();
        Self { words, ..self }
    }

    /// Bytes of each rank's region.
    #[must_use]
    pub const fn region_bytes(self) -> u64 {
        self.ranks * (HEADER + self.words) * 8
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn ranks(self) -> usize {
        self.ranks as usize
    }

    /// Most words of a frame behind its first.
    pub(super) const fn most_payload(self) -> usize {
        (self.words / 4 - 1) as usize
    }

    const fn tail_of(self, sender: usize) -> u64 {
        sender as u64 * HEADER
    }

    const fn head_of(self, sender: usize) -> u64 {
        sender as u64 * HEADER + HEAD
    }

    /// The word of a sender's ring in which its word number `at`, ever, lies.
    const fn word_of(self, sender: usize, at: u64) -> u64 {
        self.ranks * HEADER + sender as u64 * self.words + at % self.words
    }
}

/// A rank's own region, which it reaches without verbs.
pub enum OwnMemory {
    /// On fabrics whose memory is mapped here: shared memory, TCP.
    Mapped(MappedWords),
    /// In the simulator.
    Simulated(SimNode),
}

impl fmt::Debug for OwnMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapped(words) => write!(f, "{words:?}"),
            Self::Simulated(node) => write!(f, "{node:?}"),
        }
    }
}

impl OwnMemory {
    fn load(&self, word: u64) -> u64 {
        match self {
            Self::Mapped(words) => words[word as usize].load(Ordering::Acquire),
            Self::Simulated(node) => node.peek(REGION, word * 8),
        }
    }

    fn store(&self, word: u64, value: u64) {
        match self {
            Self::Mapped(words) => words[word as usize].store(value, Ordering::Release),
            Self::Simulated(node) => node.poke(REGION, word * 8, value),
        }
    }

    /// Appends words of the region to `to`.
    fn copy(&self, word: u64, len: u64, to: &mut Vec<u64>) {
        let range = word as usize..(word + len) as usize;
        match self {
            Self::Mapped(words) => {
                to.extend(words[range].iter().map(|word| word.load(Ordering::Relaxed)));
            }
            Self::Simulated(node) => {
                node.with_region(REGION, |words| to.extend_from_slice(&words[range]));
            }
        }
    }

    fn words(&self) -> u64 {
        match self {
            Self::Mapped(words) => words.len() as u64,
            Self::Simulated(node) => node.with_region(REGION, |words| words.len() as u64),
        }
    }
}

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// States, one after the other.
    States,
    /// The sender has no more states for this level: how many it has sent.
    End,
    /// The sender's part of something that all ranks give to all.
    Part,
}

impl Kind {
    const ALL: [Self; 3] = [Self::States, Self::End, Self::Part];

    fn of(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == word)
    }
}

/// One rank's way to all others.
pub struct Exchange {
    endpoint: Rc<AnyEndpoint>,
    rank: usize,
    shape: RingShape,
    memory: OwnMemory,
    /// Of each rank: words that were sent to it, and how many of them it had taken when it was last
    /// asked.
    sent: Vec<(u64, u64)>,
    /// Words that were taken from each rank's ring.
    taken: Vec<u64>,
    /// The frame that is being made.
    frame: Vec<u64>,
    nap: Nanos,
    /// When a frame last came, or somebody was asked whether it is there.
    heard: Nanos,
    /// The memory of the table that all ranks share, if they do.
    pub(super) table: Option<SharedTableMemory>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("rank", &self.rank)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Exchange {
    /// The way of `rank` to the others, whose nodes are those of `endpoint` in the order of the
    /// ranks. Region 0 of each has [`RingShape::region_bytes`] bytes, all of which were zeros
    /// before any rank began.
    ///
    /// # Errors
    /// [`RankError::WrongMemory`] where there are not as many nodes as ranks, or a region is too
    /// short; [`RankError::Fabric`].
    pub fn new(
        endpoint: Rc<AnyEndpoint>,
        rank: usize,
        shape: RingShape,
        memory: OwnMemory,
    ) -> Result<Self, RankError> {
        let ranks = shape.ranks();
        let needed = shape.region_bytes();
        for node in 0..ranks {
            let found = if node == rank {
                memory.words() * 8
            } else {
                let known = endpoint.node(NodeId(node as u16));
                let info = known.map_err(|error| RankError::Fabric { rank: node, error })?;
                info.regions.first().map_or(0, |region| region.len)
            };
            if found < needed || rank >= ranks {
                return Err(RankError::WrongMemory {
                    rank: node,
                    found,
                    needed,
                });
            }
        }
        let heard = endpoint.now();
        Ok(Self {
            endpoint,
            rank,
            shape,
            memory,
            sent: vec![(0, 0); ranks],
            taken: vec![0; ranks],
            frame: Vec::new(),
            nap: FIRST_NAP,
            heard,
            table: None,
        })
    }

    /// The same where the ranks share one table, over this memory.
    #[must_use]
    pub fn with_table(self, table: SharedTableMemory) -> Self {
        let table = Some(table);
        Self { table, ..self }
    }

    /// Refuses a journal where the ranks share a table.
    pub(super) fn may_keep_journal(&self) -> Result<(), RankError> {
        match self.table {
            None => Ok(()),
            Some(_) => Err(RankError::NoJournal),
        }
    }

    pub(super) fn endpoint(&self) -> &Rc<AnyEndpoint> {
        &self.endpoint
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.shape.ranks()
    }

    /// The rings' shape.
    #[must_use]
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    pub(super) fn other_ranks(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.ranks()).filter(move |other| *other != rank)
    }

    fn at(&self, rank: usize, word: u64) -> RemoteAddr {
        RemoteAddr {
            node: NodeId(rank as u16),
            region: REGION,
            offset: word * 8,
        }
    }

    async fn read_word(&self, rank: usize, word: u64) -> Result<u64, RankError> {
        let read = self.endpoint.read(self.at(rank, word), 8).await;
        let read = read.map_err(|error| RankError::Fabric { rank, error })?;
        Ok(read.words().first().copied().unwrap_or_default())
    }

    /// Puts a frame into the ring that a rank has for this one; `false` if that has no room.
    pub(super) async fn send(
        &mut self,
        to: usize,
        kind: Kind,
        payload: &[u64],
    ) -> Result<bool, RankError> {
        debug_assert!(payload.len() <= self.shape.most_payload());
        let len = 1 + payload.len() as u64;
        let (sent, head) = self.sent[to];
        if self.shape.words - (sent - head) < len {
            let head = self.read_word(to, self.shape.head_of(self.rank)).await?;
            let under_way = sent.wrapping_sub(head);
            if under_way > self.shape.words {
                return Err(RankError::malformed(to, "a head beyond what was sent"));
            }
            self.sent[to].1 = head;
            if self.shape.words - under_way < len {
                return Ok(false);
            }
        }
        self.frame.clear();
        self.frame.push(kind as u64 | (payload.len() as u64) << 8);
        self.frame.extend_from_slice(payload);
        let until_end = self.shape.words - sent % self.shape.words;
        let (first, rest) = self.frame.split_at(until_end.min(len) as usize);
        self.write(to, sent, first).await?;
        self.write(to, sent + first.len() as u64, rest).await?;
        let tail = self.at(to, self.shape.tail_of(self.rank));
        let was = self.endpoint.fetch_add(tail, len).await;
        let was = was.map_err(|error| RankError::Fabric { rank: to, error })?;
        if was != sent {
            return Err(RankError::malformed(to, "a tail that another has moved"));
        }
        self.sent[to].0 = sent + len;
        Ok(true)
    }

    async fn write(&self, to: usize, at: u64, words: &[u64]) -> Result<(), RankError> {
        if words.is_empty() {
            return Ok(());
        }
        let place = self.at(to, self.shape.word_of(self.rank, at));
        let data = self
            .endpoint
            .core()
            .buffers
            .copy_of(bytemuck::cast_slice(words));
        let wrote = match data {
            Ok(data) => self.endpoint.write(place, data).await,
            Err(error) => Err(error),
        };
        wrote.map_err(|error| RankError::Fabric { rank: to, error })
    }

    /// Takes the next frame of a rank, whose words replace those of `payload`.
    pub(super) fn next_frame(
        &mut self,
        from: usize,
        payload: &mut Vec<u64>,
    ) -> Result<Option<Kind>, RankError> {
        let taken = self.taken[from];
        let waiting = self
            .memory
            .load(self.shape.tail_of(from))
            .wrapping_sub(taken);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.shape.words {
            return Err(RankError::malformed(from, "a tail beyond its ring"));
        }
        let head = self.memory.load(self.shape.word_of(from, taken));
        let (kind, len) = (Kind::of(head & 0xff), head >> 8);
        let kind = kind.ok_or_else(|| RankError::malformed(from, "a frame of no kind"))?;
        if len >= waiting {
            return Err(RankError::malformed(
                from,
                "a frame longer than what was sent",
            ));
        }
        payload.clear();
        let start = taken + 1;
        let until_end = self.shape.words - start % self.shape.words;
        let first = until_end.min(len);
        self.memory
            .copy(self.shape.word_of(from, start), first, payload);
        self.memory.copy(
            self.shape.word_of(from, start + first),
            len - first,
            payload,
        );
        self.taken[from] = start + len;
        self.memory.store(self.shape.head_of(from), start + len);
        (self.nap, self.heard) = (FIRST_NAP, self.endpoint.now());
        Ok(Some(kind))
    }

    /// Waits a little, as nothing has come from any rank; now and then asks all others whether they
    /// are there: one that waits for a rank that lives may wait because that has waited for one
    /// that does not, and has given up.
    pub(super) async fn idle(&mut self) -> Result<(), RankError> {
        self.endpoint.sleep(self.nap).await;
        self.nap = (self.nap * 2).min(LONGEST_NAP);
        if self.endpoint.now().saturating_sub(self.heard) > ANYBODY_THERE {
            for rank in self.other_ranks() {
                self.read_word(rank, 0).await?;
            }
            self.heard = self.endpoint.now();
        }
        Ok(())
    }
}
