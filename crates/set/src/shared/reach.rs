//! How one rank reaches the memory of all: its own by loads and compare-and-swap, others' by verbs.

use crate::SetError;
use crate::error::check_range;
use crate::layout::{COUNT, HEADER, Layout, TAKEN};
use farslot_fabric::shm::MappedWords;
use farslot_fabric::sim::SimNode;
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, FabricError, InPlace, NodeId, OperationClass, Piece, RegionId,
    RemoteAddr, Rights, VerbFuture,
};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};

/// The class that operations on sets are counted for in an endpoint's counters.
const FIND_OR_PUT: OperationClass = OperationClass(0);

/// The way to one rank's memory.
pub enum Part {
    /// Memory that is mapped in this process: no verbs.
    ///
    /// That needs a fabric whose atomics are a processor's, as those of shared memory and TCP are.
    /// A NIC's are not: there a rank's own part is [`Part::Remote`] too. [`MappedWords`] refuses
    /// the rest.
    Mapped(MappedWords),
    /// A simulated node on this rank's own host, which its processor reaches without verbs and in
    /// no time. In the simulator the two kinds of atomics mix, as on machines whose NICs serve them
    /// coherently.
    Simulated(SimNode, RegionId),
    /// Everything else: the first byte of the rank's region, or of where its part lies in one. By
    /// verbs, unless the endpoint has the memory [in place](Endpoint::in_place).
    Remote(RemoteAddr),
}

impl Part {
    /// The part that lies at the start of a node's first region.
    #[must_use]
    pub const fn of_node(node: NodeId) -> Self {
        Self::Remote(RemoteAddr {
            node,
            region: RegionId(0),
            offset: 0,
        })
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapped(words) => write!(f, "{words:?}"),
            Self::Simulated(node, _) => write!(f, "Simulated({})", node.id().0),
            Self::Remote(at) => write!(f, "Remote({at})"),
        }
    }
}

/// One rank's reach over the memory of a table.
pub struct Reach<E> {
    endpoint: Rc<E>,
    layout: Layout,
    rank: usize,
    parts: Box<[Part]>,
    /// What operations on sets are counted for, unless the caller does that.
    pub(super) class: Option<OperationClass>,
}

impl<E: Endpoint> fmt::Debug for Reach<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach(rank {} of {:?})", self.rank, self.parts)
    }
}

impl<E: Endpoint> Reach<E> {
    /// The reach of `rank` over memory that starts as zeros, one part for each rank in their order.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] where there is not one part for each rank;
    /// [`SetError::WrongMemory`] where one is shorter than the layout says; [`SetError::Fabric`]
    /// for a node that the endpoint does not know.
    pub fn new(
        endpoint: Rc<E>,
        layout: Layout,
        rank: usize,
        parts: Vec<Part>,
    ) -> Result<Self, SetError> {
        let ranks = layout.ranks();
        check_range("the number of parts", parts.len() as u64, ranks, ranks)?;
        check_range("the rank", rank as u64, 0, ranks - 1)?;
        let needed = layout.region_bytes() / 8;
        for (rank, part) in parts.iter().enumerate() {
            let found = match part {
                Part::Mapped(words) => words.len() as u64,
                Part::Simulated(node, region) => {
                    node.with_region(*region, |words| words.len() as u64)
                }
                Part::Remote(at) => {
                    let info = endpoint.node(at.node)?;
                    let region = info.regions.get(usize::from(at.region.0));
                    region.map_or(0, |region| region.len.saturating_sub(at.offset) / 8)
                }
            };
            if found < needed {
                return Err(SetError::WrongMemory {
                    rank,
                    found,
                    needed,
                });
            }
        }
        Ok(Self {
            endpoint,
            layout,
            rank,
            parts: parts.into(),
            class: Some(FIND_OR_PUT),
        })
    }

    /// The same for a caller that counts the operations of the set under classes of its own.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self {
            class: None,
            ..self
        }
    }

    /// The table's shape.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The endpoint that the verbs go through.
    #[must_use]
    pub fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    fn part(&self, rank: usize) -> Result<&Part, SetError> {
        let missing = SetError::NoSuchElement { index: rank as u64 };
        let part = self.parts.get(rank).ok_or(missing)?;
        match part {
            Part::Mapped(words) if words.is_gone() => Err(FabricError::NodeStopped {
                node: NodeId(rank as u16),
                sent: true,
            }
            .into()),
            part => Ok(part),
        }
    }

    /// A remote part's words, where this thread's own loads and stores reach them, and the byte at
    /// which they start. To be held for one operation at most: where the memory is in place,
    /// nothing in it waits.
    #[inline]
    fn in_place(
        &self,
        part: RemoteAddr,
        word: u64,
        len: usize,
        needed: Rights,
    ) -> Option<(InPlace<'_>, u64)> {
        let from = part.plus(word * 8);
        let view = self.endpoint.in_place(from, needed)?;
        let offset = view.offset_of(Piece { from, len: len * 8 })?;
        Some((view, offset))
    }

    /// The buckets of a table of one remote part that is in place, to be swapped or only read, and
    /// the byte of the view at which they start.
    #[inline]
    pub(super) fn buckets_in_place(&self, swaps: bool) -> Option<(InPlace<'_>, u64)> {
        let [Part::Remote(at)] = &*self.parts else {
            return None;
        };
        let needed = match swaps {
            true => Rights::READ.and(Rights::ATOMIC),
            false => Rights::READ,
        };
        self.in_place(*at, HEADER, self.layout.buckets() as usize, needed)
    }

    /// Whether all of the table is in place.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        match &*self.parts {
            [Part::Remote(at)] => self.endpoint.in_place(*at, Rights::READ).is_some(),
            _ => false,
        }
    }

    /// Asks the processor for words of a remote part that are in place; false of any others.
    pub(super) fn prefetch(&self, rank: usize, word: u64, len: usize) -> bool {
        let Some(Part::Remote(at)) = self.parts.get(rank) else {
            return false;
        };
        let view = self.in_place(*at, word, len, Rights::READ);
        view.map(|(view, offset)| view.prefetch(offset, len * 8))
            .is_some()
    }

    /// Replaces a word of a rank if it is `expected`; returns what it was.
    pub(super) async fn compare_swap(
        &self,
        rank: usize,
        word: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, SetError> {
        match self.part(rank)? {
            Part::Mapped(words) => {
                let word = &words[word as usize];
                let was = word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
                Ok(was.unwrap_or_else(|was| was))
            }
            Part::Simulated(node, region) => {
                let was = node.peek(*region, word * 8);
                if was == expected {
                    node.poke(*region, word * 8, new);
                }
                Ok(was)
            }
            Part::Remote(at) => {
                let needed = Rights::READ.and(Rights::ATOMIC);
                if let Some((view, offset)) = self.in_place(*at, word, 1, needed) {
                    return Ok(view.compare_swap(offset, expected, new));
                }
                let swap = self.endpoint.compare_swap(at.plus(word * 8), expected, new);
                Ok(swap.await?)
            }
        }
    }

    /// Swaps nothing for nothing in a bucket; returns what is there. No insertion there can take
    /// less.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] for a bucket that the table has not; [`SetError::Fabric`].
    pub async fn touch(&self, bucket: u64) -> Result<u64, SetError> {
        if bucket >= self.layout.buckets() {
            return Err(SetError::NoSuchElement { index: bucket });
        }
        let (rank, word) = self.layout.locate(bucket);
        self.compare_swap(rank, word, 0, 0).await
    }

    /// Units of element space that inserters have taken of this rank's own part, used or not, and
    /// the elements that were [counted](Reach::count_inserted) in it.
    ///
    /// # Errors
    /// [`SetError::Fabric`].
    pub async fn taken_and_count(&self) -> Result<[u64; 2], SetError> {
        let header = self.read(self.rank, TAKEN as u64, 2).await?;
        Ok([header[TAKEN], header[COUNT]])
    }

    /// Adds elements that this rank has inserted to the count in its own part, which no operation
    /// on a set does.
    ///
    /// # Errors
    /// [`SetError::Fabric`].
    pub async fn count_inserted(&self, inserted: u64) -> Result<(), SetError> {
        self.add_to_own(COUNT as u64, inserted).await.map(drop)
    }

    /// Replaces the count if it is still `counted`.
    ///
    /// # Errors
    /// [`SetError::Fabric`].
    pub async fn correct_count(&self, counted: u64, seen: u64) -> Result<(), SetError> {
        let correcting = self.compare_swap(self.rank, COUNT as u64, counted, seen);
        correcting.await.map(drop)
    }

    /// Gives the words of all buckets of this rank's own part to `each`, with their numbers in it:
    /// 0 of an empty one.
    ///
    /// # Errors
    /// [`SetError::Fabric`].
    pub async fn for_each_bucket(&self, mut each: impl FnMut(u64, u64)) -> Result<(), SetError> {
        let mut next = Some(0);
        while let Some(first) = next {
            next = self.own_piece(first, u64::MAX, &mut each).await?;
        }
        Ok(())
    }

    /// The same for a piece: from the bucket `first` on, at most `most`. Returns where the next one
    /// starts.
    pub(super) async fn own_piece(
        &self,
        first: u64,
        most: u64,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, SetError> {
        /// Buckets of a request: less than any endpoint's largest buffer.
        const AT_A_TIME: u64 = 4096;
        let buckets = self.layout.buckets_per_rank();
        let len = most.clamp(1, AT_A_TIME).min(buckets.saturating_sub(first));
        if len == 0 {
            return Ok(None);
        }
        let read = self.read(self.rank, HEADER + first, len as usize).await?;
        (first..)
            .zip(read)
            .for_each(|(bucket, word)| each(bucket, word));
        Ok((first + len < buckets).then_some(first + len))
    }

    /// Adds to a word of this rank's own part; returns what it was.
    pub(super) async fn add_to_own(&self, word: u64, add: u64) -> Result<u64, SetError> {
        match self.part(self.rank)? {
            Part::Mapped(words) => Ok(words[word as usize].fetch_add(add, Ordering::AcqRel)),
            Part::Simulated(node, region) => {
                let was = node.peek(*region, word * 8);
                node.poke(*region, word * 8, was.wrapping_add(add));
                Ok(was)
            }
            Part::Remote(at) => {
                let needed = Rights::READ.and(Rights::ATOMIC);
                if let Some((view, offset)) = self.in_place(*at, word, 1, needed) {
                    return Ok(view.fetch_add(offset, add));
                }
                Ok(self.endpoint.fetch_add(at.plus(word * 8), add).await?)
            }
        }
    }

    /// Writes words of this rank's own part, so that all see them who see what is swapped in
    /// anywhere afterwards.
    pub(super) async fn write_own(&self, word: u64, from: &[u64]) -> Result<(), SetError> {
        match self.part(self.rank)? {
            Part::Mapped(words) => {
                for (to, from) in words[word as usize..].iter().zip(from) {
                    to.store(*from, Ordering::Relaxed);
                }
                fence(Ordering::SeqCst);
            }
            Part::Simulated(node, region) => {
                for (to, from) in (word..).zip(from) {
                    node.poke(*region, to * 8, *from);
                }
            }
            Part::Remote(at) => {
                if let Some((view, offset)) = self.in_place(*at, word, from.len(), Rights::WRITE) {
                    view.write(offset, from.len() * 8, from);
                    fence(Ordering::SeqCst);
                    return Ok(());
                }
                let bytes = bytemuck::cast_slice(from);
                let data = self.endpoint.core().buffers.copy_of(bytes)?;
                self.endpoint.write(at.plus(word * 8), data).await?;
                // A completed write may be seen late, but not later than its writer's next atomic
                // to that node: of a table on one node that is the swap.
                if self.parts.len() > 1 {
                    self.add_to_own(COUNT as u64, 0).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads words of a rank's part. They may be of different moments.
    pub(super) async fn read(
        &self,
        rank: usize,
        word: u64,
        len: usize,
    ) -> Result<Vec<u64>, SetError> {
        let mut read = self.request(rank, word, len)?;
        poll_fn(|cx| read.poll(cx)).await?;
        Ok((0..len).map(|at| read.word(at)).collect())
    }

    /// Has words of a rank's part read; a verb is posted when the result is first polled.
    #[inline]
    pub(super) fn request(
        &self,
        rank: usize,
        word: u64,
        len: usize,
    ) -> Result<Request<'_, E>, SetError> {
        Ok(match self.part(rank)? {
            Part::Mapped(words) => Request::Mapped {
                words,
                first: word as usize,
            },
            Part::Simulated(node, region) => Request::Simulated {
                node,
                region: *region,
                first: word,
            },
            Part::Remote(at) => match self.in_place(*at, word, len, Rights::READ) {
                Some((view, offset)) => {
                    // What was published before a bucket that this thread has loaded is seen.
                    view.acquire();
                    Request::InPlace { view, offset }
                }
                None => Request::Waiting(self.endpoint.read(at.plus(word * 8), len * 8)),
            },
        })
    }
}

/// Words that were asked for.
pub(super) enum Request<'r, E: Endpoint> {
    /// Loaded as they are looked at.
    Mapped {
        words: &'r MappedWords,
        first: usize,
    },
    Simulated {
        node: &'r SimNode,
        region: RegionId,
        first: u64,
    },
    InPlace {
        view: InPlace<'r>,
        offset: u64,
    },
    Waiting(VerbFuture<'r, E, Buffer>),
    Done(Result<Buffer, FabricError>),
}

impl<E: Endpoint> Request<'_, E> {
    /// Ready when the words are here.
    #[inline]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SetError>> {
        if let Self::Waiting(read) = self {
            match Pin::new(read).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(done) => *self = Self::Done(done),
            }
        }
        Poll::Ready(match self {
            Self::Done(Err(error)) => Err(error.clone().into()),
            _ => Ok(()),
        })
    }

    /// Word `at` of those asked for; 0 while they are not here.
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        match self {
            Self::Mapped { words, first } => words[first + at].load(Ordering::Acquire),
            Self::Simulated {
                node,
                region,
                first,
            } => node.peek(*region, (first + at as u64) * 8),
            Self::InPlace { view, offset } => view.words(*offset)(at),
            Self::Done(Ok(buffer)) => buffer.words().get(at).copied().unwrap_or(0),
            Self::Waiting(_) | Self::Done(Err(_)) => 0,
        }
    }
}
