//! How one rank reaches the memory of all: its own by loads and compare-and-swap, others' by verbs.

use crate::SetError;
use crate::error::check_range;
use crate::layout::{COUNT, Layout};
use farslot_fabric::shm::MappedWords;
use farslot_fabric::sim::SimNode;
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, FabricError, NodeId, RegionId, RemoteAddr, VerbFuture,
};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};

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
    /// Everything else: by verbs. The first byte of the rank's region.
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
        })
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

    /// Adds to a word of this rank's own part; returns what it was.
    pub(super) async fn add_to_own(&self, word: u64, add: u64) -> Result<u64, SetError> {
        match self.part(self.rank)? {
            Part::Mapped(words) => Ok(words[word as usize].fetch_add(add, Ordering::AcqRel)),
            Part::Simulated(node, region) => {
                let was = node.peek(*region, word * 8);
                node.poke(*region, word * 8, was.wrapping_add(add));
                Ok(was)
            }
            Part::Remote(at) => Ok(self.endpoint.fetch_add(at.plus(word * 8), add).await?),
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
                let bytes = bytemuck::cast_slice(from);
                let data = self.endpoint.core().buffers.copy_of(bytes)?;
                self.endpoint.write(at.plus(word * 8), data).await?;
                // A completed write may be seen late, but not later than its writer's next atomic
                // to that node.
                self.add_to_own(COUNT as u64, 0).await?;
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
            Part::Remote(at) => Request::Waiting(self.endpoint.read(at.plus(word * 8), len * 8)),
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
            Self::Done(Ok(buffer)) => buffer.words().get(at).copied().unwrap_or(0),
            Self::Waiting(_) | Self::Done(Err(_)) => 0,
        }
    }
}
