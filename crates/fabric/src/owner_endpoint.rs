//! An endpoint of the owner's own memory: what runs a client's protocol within the handler of a
//! call.
//!
//! A handler has a region's memory for as long as a call lasts. It [lends](OwnerEndpoint::lend)
//! that to the endpoint, whose verbs are then loads, stores and swaps of the owner's processor,
//! done when they are posted. Verbs that are posted while nothing is lent fail. Where a region is
//! mapped, a [confined endpoint of shared memory](crate::shm::ShmEndpoint::confined) does the same
//! at less cost.
//!
//! **Time.** A handler must not wait. What sleeps within one finds the time over at once: the
//! endpoint's clock begins with the call's and goes forward by what is waited for.

use crate::verb::{check_access, check_aligned, check_gathered};
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, FabricError, Limits, Nanos, NodeId, NodeInfo,
    NodeState, OwnerMemory, PostError, RegionId, RegionInfo, RemoteAddr, Result, Rights, Verb,
};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The node that the endpoint knows, and its only region.
const NODE: NodeId = NodeId(0);
const REGION: RegionId = RegionId(0);

/// An endpoint of a region's memory, while its owner lends it.
pub struct OwnerEndpoint {
    core: EndpointCore,
    region: RegionInfo,
    /// The bytes that it reaches.
    area: Range<u64>,
    lent: Cell<Option<NonNull<dyn OwnerMemory>>>,
    now: Cell<Nanos>,
}

impl fmt::Debug for OwnerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerEndpoint")
            .field("region", &self.region)
            .field("area", &self.area)
            .field("is_lent", &self.lent.get().is_some())
            .finish_non_exhaustive()
    }
}

/// A verb that is done already.
#[derive(Debug)]
pub struct OwnerPosted(Option<Completion>);

/// Takes the memory back when a loan ends, however it does.
struct Loan<'e>(&'e OwnerEndpoint);

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.0.lent.set(None);
    }
}

impl OwnerEndpoint {
    /// An endpoint of node 0 with one region, of which it reaches the bytes of `area`, with the
    /// region's rights.
    #[must_use]
    pub fn new(region: RegionInfo, area: Range<u64>, limits: Limits) -> Self {
        Self {
            core: EndpointCore::new(limits),
            region,
            area,
            lent: Cell::new(None),
            now: Cell::new(0),
        }
    }

    /// Runs something while the endpoint has this memory, at this time of the owner's clock.
    pub fn lend<T>(&self, memory: &mut dyn OwnerMemory, now: Nanos, run: impl FnOnce() -> T) -> T {
        let memory: NonNull<dyn OwnerMemory + '_> = NonNull::from(memory);
        // SAFETY: both are pointers to the same object, of the same layout. The lifetime that is
        // left out is kept by `Loan`: the pointer is gone when this function ends, by return or by
        // panic, and the borrow lasts so long.
        let memory = unsafe {
            std::mem::transmute::<NonNull<dyn OwnerMemory + '_>, NonNull<dyn OwnerMemory>>(memory)
        };
        self.lent.set(Some(memory));
        self.now.set(self.now.get().max(now));
        let _loan = Loan(self);
        run()
    }

    /// Uses the memory that is lent. It is out of reach meanwhile, so that nobody else can.
    fn with<T>(&self, work: impl FnOnce(&mut dyn OwnerMemory) -> Result<T>) -> Result<T> {
        let Some(mut memory) = self.lent.take() else {
            return Err(FabricError::NodeStopped {
                node: NODE,
                sent: true,
            });
        };
        // SAFETY: `lend` holds the mutable borrow that this was made of until it has taken the
        // pointer away. There is one copy of the pointer, which was taken out: no other reference
        // to the memory can be made until it is put back, when this one is used no more.
        let done = work(unsafe { memory.as_mut() });
        self.lent.set(Some(memory));
        done
    }

    fn check(&self, at: RemoteAddr, len: u64, needed: Rights) -> Result<u64> {
        if at.node != NODE {
            return Err(unknown(at.node));
        }
        if at.region != REGION {
            return Err(FabricError::UnknownRegion {
                node: at.node,
                region: at.region,
                regions: 1,
            });
        }
        check_access(at, len, needed, &self.region)?;
        // It lies in the region, so that the sum is no overflow.
        if at.offset < self.area.start || at.offset + len > self.area.end {
            return Err(FabricError::OutOfBounds {
                at,
                len,
                region_len: self.area.end.min(self.region.len),
            });
        }
        Ok(at.offset)
    }

    fn check_word(&self, at: RemoteAddr) -> Result<u64> {
        check_aligned(at)?;
        self.check(at, 8, Rights::ATOMIC)
    }

    /// Reads `len` bytes into the words that `into` begins with.
    fn copy_out(&self, from: RemoteAddr, len: usize, into: &mut [u64]) -> Result<()> {
        let offset = self.check(from, len as u64, Rights::READ)?;
        let (first, shift) = (offset & !7, (offset & 7) * 8);
        let words = len.div_ceil(8);
        let into = &mut into[..words];
        self.with(|memory| {
            memory.copy_out(first, into)?;
            if shift > 0 {
                let behind = first + words as u64 * 8;
                let next = match behind < offset + len as u64 {
                    true => memory.load(behind)?,
                    false => 0,
                };
                for word in 0..words {
                    let high = into.get(word + 1).copied().unwrap_or(next);
                    into[word] = into[word] >> shift | high << (64 - shift);
                }
            }
            Ok(())
        })
    }

    /// Writes all of `data`: whole words first to last, bytes of others by swaps.
    fn copy_in(&self, to: RemoteAddr, data: &Buffer) -> Result<()> {
        let offset = self.check(to, data.len() as u64, Rights::WRITE)?;
        self.with(|memory| {
            let words = data.len() / 8;
            if offset.is_multiple_of(8) {
                memory.copy_in(offset, &data.words()[..words])?;
                return put_bytes(memory, offset + words as u64 * 8, &data[words * 8..]);
            }
            put_bytes(memory, offset, data)
        })
    }

    fn swap(&self, at: RemoteAddr, new: impl Fn(u64) -> Option<u64>) -> Result<u64> {
        let offset = self.check_word(at)?;
        self.with(|memory| swap(memory, offset, new))
    }

    /// Does a verb.
    fn execute(&self, verb: Verb) -> Result<Completion> {
        Ok(match verb {
            Verb::Read { from, mut into } => {
                let len = into.len();
                self.copy_out(from, len, into.words_mut())?;
                Completion::Filled(into)
            }
            Verb::ReadMany { pieces, mut into } => {
                check_gathered(&pieces, &into)?;
                let mut at = 0;
                for piece in &pieces {
                    self.copy_out(piece.from, piece.len, &mut into.words_mut()[at..])?;
                    at += piece.len.div_ceil(8);
                }
                Completion::Filled(into)
            }
            Verb::Write { to, data } => {
                self.copy_in(to, &data)?;
                Completion::Placed
            }
            Verb::CompareSwap { at, expected, new } => {
                Completion::Word(self.swap(at, |seen| (seen == expected).then_some(new))?)
            }
            Verb::FetchAdd { at, add } => {
                Completion::Word(self.swap(at, |seen| Some(seen.wrapping_add(add)))?)
            }
            Verb::WriteImm { .. } | Verb::Call { .. } => {
                return Err(FabricError::CallsUnsupported {
                    fabric: "the owner's own memory",
                });
            }
        })
    }
}

/// Replaces a word by what `new` makes of it, unless that is nothing; returns what it was.
fn swap(
    memory: &mut dyn OwnerMemory,
    offset: u64,
    new: impl Fn(u64) -> Option<u64>,
) -> Result<u64> {
    let mut expected = memory.load(offset)?;
    loop {
        // What is left as it is is swapped for itself, so that what was loaded is what there is.
        let next = new(expected).unwrap_or(expected);
        let seen = memory.compare_swap(offset, expected, next)?;
        if seen == expected {
            return Ok(seen);
        }
        expected = seen;
    }
}

/// Puts bytes that are no whole words, word by word.
fn put_bytes(memory: &mut dyn OwnerMemory, offset: u64, bytes: &[u8]) -> Result<()> {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (word, skip) = (at & !7, (at & 7) as usize);
        let (now, later) = rest.split_at(rest.len().min(8 - skip));
        swap(memory, word, |seen| {
            let mut bytes = seen.to_le_bytes();
            bytes[skip..skip + now.len()].copy_from_slice(now);
            Some(u64::from_le_bytes(bytes))
        })?;
        (at, rest) = (at + now.len() as u64, later);
    }
    Ok(())
}

const fn unknown(node: NodeId) -> FabricError {
    FabricError::UnknownNode { node, connected: 1 }
}

impl Endpoint for OwnerEndpoint {
    type Posted = OwnerPosted;

    fn core(&self) -> &EndpointCore {
        &self.core
    }

    fn node_count(&self) -> usize {
        1
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        if node != NODE {
            return Err(unknown(node));
        }
        Ok(NodeInfo {
            regions: vec![self.region],
            ..NodeInfo::UNKNOWN
        })
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        match self.lent.get() {
            _ if node != NODE => Err(unknown(node)),
            Some(_) => Ok(NodeState::Up),
            None => Ok(NodeState::Down(FabricError::NodeStopped {
                node,
                sent: true,
            })),
        }
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        match self.node_state(node)? {
            NodeState::Down(error) => Err(error),
            _ => self.node(node),
        }
    }

    fn post(&self, verb: Verb) -> std::result::Result<OwnerPosted, PostError> {
        let done = self.execute(verb).map_err(PostError::Rejected)?;
        Ok(OwnerPosted(Some(done)))
    }

    fn poll_posted(
        &self,
        posted: &mut OwnerPosted,
        _: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        Poll::Ready(Ok(posted.0.take().expect("a verb completes once")))
    }

    fn ring_doorbell(&self) {}

    fn poll_completions(&self) -> usize {
        0
    }

    /// The clock of the memory's owner, if that goes on while it works.
    fn now(&self) -> Nanos {
        if let Ok(Some(now)) = self.with(|memory| Ok(memory.now())) {
            self.now.set(self.now.get().max(now));
        }
        self.now.get()
    }

    /// Nothing comes but the deadline.
    fn wait(&self, deadline: Option<Nanos>, _: u32) {
        if let Some(deadline) = deadline {
            self.now.set(self.now.get().max(deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::check_words;
    use crate::{EndpointExt, Executor, Piece};
    use std::rc::Rc;

    struct Words(Vec<u64>);

    impl OwnerMemory for Words {
        fn bytes(&self) -> u64 {
            self.0.len() as u64 * 8
        }

        fn load(&self, offset: u64) -> Result<u64> {
            Ok(self.0[check_words(REGION, offset, 1, self.bytes())?])
        }

        fn store(&mut self, offset: u64, value: u64) -> Result<()> {
            let at = check_words(REGION, offset, 1, self.bytes())?;
            self.0[at] = value;
            Ok(())
        }

        fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
            let seen = self.load(offset)?;
            if seen == expected {
                self.store(offset, new)?;
            }
            Ok(seen)
        }

        fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
            let at = check_words(REGION, offset, into.len(), self.bytes())?;
            into.copy_from_slice(&self.0[at..at + into.len()]);
            Ok(())
        }

        fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
            let at = check_words(REGION, offset, words.len(), self.bytes())?;
            self.0[at..at + words.len()].copy_from_slice(words);
            Ok(())
        }
    }

    fn at(offset: u64) -> RemoteAddr {
        RemoteAddr {
            node: NODE,
            region: REGION,
            offset,
        }
    }

    #[test]
    fn verbs_do_to_lent_memory_what_they_do_anywhere_and_nothing_without() {
        let region = RegionInfo {
            len: 1024,
            rights: Rights::ALL,
        };
        let endpoint = Rc::new(OwnerEndpoint::new(region, 64..960, Limits::default()));
        let executor = Executor::new(Rc::clone(&endpoint));
        let mut words = Words(vec![0; 128]);
        let mut expected = vec![0u8; 1024];
        let is_gone = |done: Result<Buffer>| matches!(done, Err(FabricError::NodeStopped { .. }));
        assert!(is_gone(executor.block_on(endpoint.read(at(64), 8))));
        endpoint.lend(&mut words, 7, || {
            executor.block_on(async {
                for (offset, len) in [(64, 8), (72, 19), (101, 3), (133, 40), (903, 57), (200, 0)] {
                    let bytes: Vec<u8> = (0..len).map(|byte| byte as u8 ^ offset as u8).collect();
                    let data = endpoint.core().buffers.copy_of(&bytes).unwrap();
                    endpoint.write(at(offset), data).await.unwrap();
                    expected[offset as usize..][..len].copy_from_slice(&bytes);
                    for from in offset - 3.min(offset - 64)..offset + 1 {
                        let read = endpoint.read(at(from), len).await.unwrap();
                        assert_eq!(&*read, &expected[from as usize..][..len], "{from} {len}");
                    }
                }
                let pieces = [(66, 3), (133, 40)].map(|(from, len)| Piece {
                    from: at(from),
                    len,
                });
                let read = endpoint
                    .read_many(pieces.into_iter().collect())
                    .await
                    .unwrap();
                assert_eq!(read[..3], expected[66..69]);
                assert_eq!(read[8..48], expected[133..173]);
                assert_eq!(endpoint.fetch_add(at(256), u64::MAX).await.unwrap(), 0);
                assert_eq!(
                    endpoint.compare_swap(at(256), 1, 5).await.unwrap(),
                    u64::MAX
                );
                assert_eq!(
                    endpoint.compare_swap(at(256), u64::MAX, 5).await.unwrap(),
                    u64::MAX
                );
                assert_eq!(endpoint.read(at(256), 8).await.unwrap().words(), [5]);
                for (offset, len) in [(56, 8), (63, 2), (960, 1), (955, 6), (1020, 8)] {
                    let read = endpoint.read(at(offset), len).await;
                    assert!(
                        matches!(read, Err(FabricError::OutOfBounds { .. })),
                        "{offset}"
                    );
                }
                // Nobody comes while a handler waits.
                endpoint.sleep(1_000_000).await;
                assert_eq!(endpoint.now(), 1_000_007);
            });
        });
        assert!(is_gone(executor.block_on(endpoint.read(at(64), 8))));
        assert_eq!(words.0[32], 5);
    }
}
