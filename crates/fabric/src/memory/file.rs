//! A node's memory as a file of its own, which another process can hold as well.

use super::header::Header;
use super::journal;
use super::mapping::{Mapping, check_sealed, opened_again, sealed_memfd};
use super::node::{Node, RegionSpec, lay_out};
use crate::call::check_words;
use crate::error::os;
use crate::words::SharedWords;
use crate::{FabricError, NodeId, NodeInfo, RegionId, Result, Rights};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a process may take to end that was killed: its memory has to be unmapped.
const ENDING: Duration = Duration::from_secs(5);

/// The memory of a node, as a sealed file that goes with the last process which has it open.
///
/// A file that is [kept](crate::keep) is claimed by the process whose node it is, by a lock that
/// the kernel takes away when the process ends: so no two nodes ever have the same memory.
pub struct NodeMemory {
    file: OwnedFd,
    /// The file as it is locked; of one that is not kept there is no need.
    claim: Option<OwnedFd>,
    header: Header,
}

impl fmt::Debug for NodeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMemory")
            .field("info", &self.header.info)
            .field("kept", &self.header.kept)
            .finish_non_exhaustive()
    }
}

impl NodeMemory {
    /// Memory of a new node, of which nothing is left once no process has it mapped.
    ///
    /// # Errors
    /// [`Memory`](FabricError::Memory), or what the system says.
    pub fn new(regions: &[RegionSpec]) -> Result<Self> {
        let mut header = lay_out(regions)?;
        let (file, page_bytes) = sealed_memfd(header.bytes)?;
        header.info.page_bytes = page_bytes;
        let memory = Self {
            file,
            claim: None,
            header,
        };
        memory.write_header()?;
        Ok(memory)
    }

    /// Memory of a new node that another process is to hold as well: see [`NodeMemory::file`]. It
    /// has this region, and one that no client may use, in which the owner keeps a journal.
    ///
    /// # Errors
    /// As [`NodeMemory::new`].
    pub fn to_be_kept(region: RegionSpec) -> Result<Self> {
        let journal = RegionSpec {
            len: journal::BYTES,
            rights: Rights::NONE,
        };
        let mut memory = Self::new(&[region, journal])?;
        memory.header.kept = true;
        memory.claim = claim(memory.file.as_fd())?;
        memory.write_header()?;
        Ok(memory)
    }

    /// Memory of a node whose process has ended, to go on as the same node; `subject` it is called
    /// in errors. One that was killed is waited for, five seconds at most.
    ///
    /// # Errors
    /// [`MemoryInUse`](FabricError::MemoryInUse) while the node's process runs;
    /// [`NotFarslot`](FabricError::NotFarslot), [`FormatVersion`](FabricError::FormatVersion) and
    /// [`DamagedHeader`](FabricError::DamagedHeader) of what cannot be used.
    pub fn of_file(file: OwnedFd, subject: &str) -> Result<Self> {
        check_sealed(file.as_fd(), subject)?;
        let until = Instant::now() + ENDING;
        let claim = loop {
            match claim(file.as_fd())? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                None => {
                    return Err(FabricError::MemoryInUse {
                        subject: subject.into(),
                    });
                }
                claimed => break claimed,
            }
        };
        let header = Header::of_file(file.as_fd(), subject)?;
        let damaged = |reason| FabricError::DamagedHeader {
            subject: subject.into(),
            reason,
        };
        let journal = header.journal();
        let journal = journal.ok_or_else(|| damaged("it says nothing of a journal".into()))?;
        let memory = Mapping::of_file(file.as_fd(), true, header.info.page_bytes)?;
        let recovered = journal.recover(SharedWords::new(memory.words()));
        recovered.map_err(damaged)?;
        Ok(Self {
            file,
            claim,
            header,
        })
    }

    /// The file. Whoever has it open keeps the memory.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The node's incarnation and regions.
    #[must_use]
    pub const fn info(&self) -> &NodeInfo {
        &self.header.info
    }

    /// Bytes of its first region: what it lends.
    #[must_use]
    pub fn lent_bytes(&self) -> u64 {
        self.header
            .info
            .regions
            .first()
            .map_or(0, |region| region.len)
    }

    /// The node that has this memory now, and a copy of its file.
    ///
    /// # Errors
    /// What the system says.
    pub fn into_node(self) -> Result<(Node, OwnedFd)> {
        let memory = Mapping::of_file(self.file.as_fd(), true, self.header.info.page_bytes)?;
        let memory = memory.with_claim(self.claim);
        Ok((Node::new(memory, self.header, Arc::default()), self.file))
    }

    /// A word of a region.
    ///
    /// # Errors
    /// [`UnknownRegion`](FabricError::UnknownRegion), [`OutOfBounds`](FabricError::OutOfBounds) and
    /// [`Misaligned`](FabricError::Misaligned); what the system says.
    pub fn word(&self, region: RegionId, offset: u64) -> Result<u64> {
        let index = usize::from(region.0);
        let (regions, node) = (&self.header.info.regions, NodeId(0));
        let len = regions.get(index).map(|region| region.len);
        let len = len.ok_or(FabricError::UnknownRegion {
            node,
            region,
            regions: regions.len(),
        })?;
        check_words(region, offset, 1, len)?;
        let memory = Mapping::of_file(self.file.as_fd(), false, self.header.info.page_bytes)?;
        let word = SharedWords::new(memory.words()).word(self.header.starts[index] + offset);
        Ok(word.load(Ordering::Relaxed))
    }

    fn write_header(&self) -> Result<()> {
        let memory = Mapping::of_file(self.file.as_fd(), true, self.header.info.page_bytes)?;
        self.header.write(SharedWords::new(memory.words()));
        Ok(())
    }
}

impl Header {
    /// Reads and checks the header of a whole file.
    pub(crate) fn of_file(file: BorrowedFd<'_>, subject: &str) -> Result<Self> {
        let status = rustix::fs::fstat(file).map_err(os("fstat"))?;
        if status.st_size == 0 {
            return Err(FabricError::NotFarslot {
                subject: subject.into(),
                found: 0,
                expected: super::MAGIC,
            });
        }
        let memory = Mapping::of_file(file, false, status.st_blksize as u64)?;
        let words = SharedWords::new(memory.words());
        Self::read(words, memory.words().len() as u64 * 8, subject)
    }
}

/// The same file under a lock; nothing if another process has it locked.
fn claim(file: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    // The lock is that of the opened file, which all have who were handed a copy of it.
    let reopened = opened_again(file, OFlags::RDWR)?;
    match flock(&reopened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(reopened)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(os("flock")(error)),
    }
}

/// Which file it is, among all that the machine has now.
pub(crate) type FileId = (u64, u64);

/// Which file this is.
pub(crate) fn id_of(file: impl AsFd) -> Result<FileId> {
    let status = rustix::fs::fstat(file).map_err(os("fstat"))?;
    Ok((status.st_dev, status.st_ino))
}

/// Whether a node has this file as its memory.
pub(crate) fn is_claimed(file: BorrowedFd<'_>) -> Result<bool> {
    Ok(claim(file)?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, CallAnswer, Handler};

    const REGION: RegionSpec = RegionSpec {
        len: 128,
        rights: Rights::ALL,
    };

    #[test]
    fn kept_memory_goes_on_as_the_same_node_once_the_one_before_has_let_go() {
        let memory = NodeMemory::to_be_kept(REGION).unwrap();
        let keeper = memory.file().try_clone_to_owned().unwrap();
        let (node, _file) = memory.into_node().unwrap();
        node.words_of(0).word(8).store(7, Ordering::Relaxed);
        assert!(is_claimed(keeper.as_fd()).unwrap());
        let incarnation = node.info().incarnation;
        drop(node);
        assert!(!is_claimed(keeper.as_fd()).unwrap());
        let memory = NodeMemory::of_file(keeper.try_clone().unwrap(), "it").unwrap();
        assert!(is_claimed(keeper.as_fd()).unwrap());
        let (node, _file) = memory.into_node().unwrap();
        assert_eq!(node.info().incarnation, incarnation);
        assert_eq!(node.words_of(0).word(8).load(Ordering::Relaxed), 7);
    }

    /// What `of_file` says of a kept memory that `damage` was done to.
    fn refused(damage: impl FnOnce(SharedWords<'_>)) -> FabricError {
        let memory = NodeMemory::to_be_kept(REGION).unwrap();
        let file = memory.file().try_clone_to_owned().unwrap();
        drop(memory);
        let mapped = Mapping::of_file(file.as_fd(), true, 4096).unwrap();
        damage(SharedWords::new(mapped.words()));
        NodeMemory::of_file(file, "it").unwrap_err()
    }

    #[test]
    fn what_cannot_go_on_is_refused_with_the_reason() {
        let set = |at, value| {
            move |words: SharedWords<'_>| words.word(at).store(value, Ordering::Relaxed)
        };
        assert!(matches!(
            refused(set(0, 1)),
            FabricError::NotFarslot { found: 1, .. }
        ));
        assert!(matches!(
            refused(set(8, 99)),
            FabricError::FormatVersion { found: 99, .. }
        ));
        for (at, value) in [(24, 1), (32, 17), (48, 0), (64, 1), (72, 1 << 60)] {
            let refused = refused(set(at, value));
            assert!(
                matches!(refused, FabricError::DamagedHeader { .. }),
                "{at}: {refused}"
            );
        }
        let memory = NodeMemory::to_be_kept(REGION).unwrap();
        let file = memory.file().try_clone_to_owned().unwrap();
        let refused = NodeMemory::of_file(file, "it").unwrap_err();
        assert_eq!(
            refused,
            FabricError::MemoryInUse {
                subject: "it".into()
            }
        );
        let unsealed = rustix::fs::memfd_create("none", rustix::fs::MemfdFlags::ALLOW_SEALING);
        let refused = NodeMemory::of_file(unsealed.unwrap(), "it").unwrap_err();
        assert!(
            matches!(refused, FabricError::DamagedHeader { .. }),
            "{refused}"
        );
    }

    /// Stores what it is asked to, and ends the turn if told so.
    struct Stores;

    impl Handler for Stores {
        fn handle(&self, call: Call<'_>) -> CallAnswer {
            let Call {
                request, memory, ..
            } = call;
            memory.begin_turn();
            memory.copy_in(8, &[1, 2]).unwrap();
            memory.store(16, 3).unwrap();
            assert_eq!(memory.compare_swap(8, 1, 4), Ok(1));
            let mut seen = [0; 3];
            memory.copy_out(0, &mut seen).unwrap();
            assert_eq!(seen, [0, 4, 3]);
            memory.note(b"a note");
            if request == b"end" {
                memory.end_turn().unwrap();
                assert_eq!(memory.notes(), [b"a note".to_vec()]);
            }
            CallAnswer::Now(0)
        }
    }

    #[test]
    fn a_turn_of_a_handler_changes_kept_memory_at_its_end() {
        let memory = NodeMemory::to_be_kept(REGION).unwrap();
        let (node, _file) = memory.into_node().unwrap();
        let allowed = |_: std::ops::Range<u64>, _| Ok(());
        for (request, found) in [(&b"stop"[..], [0, 0]), (b"end", [4, 3])] {
            node.answer_call(&Stores, RegionId(0), request, &mut [], &allowed);
            let words = [8, 16].map(|at| node.words_of(0).word(at).load(Ordering::Relaxed));
            assert_eq!(words, found);
        }
    }
}
