//! A node: memory with its regions, as its owner or an attached client holds it.

use super::header::Header;
use super::link::{self, Watcher};
use super::mailbox;
use super::mapping::{Mapping, sealed_memfd};
use super::words::SharedWords;
use crate::{Inbox, Message, NodeInfo, RegionInfo, Result, Rights};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A region to be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Its length in bytes; rounded up to a multiple of 8.
    pub len: u64,
    /// What clients may do to it.
    pub rights: Rights,
}

/// The memory of one node. Cloning shares it; the memory goes when the last holder does.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    memory: Mapping,
    info: NodeInfo,
    starts: Vec<u64>,
    gone: Arc<AtomicBool>,
    /// The owner's serving thread, or the client's watch over the owner.
    _watcher: Option<Watcher>,
}

impl Node {
    /// A node within this process. Its memory is anonymous: no other process can reach it.
    ///
    /// # Errors
    /// [`Memory`](crate::FabricError::Memory) beyond what the machine has.
    pub fn embedded(regions: &[RegionSpec]) -> Result<Self> {
        let mut header = lay_out(regions)?;
        let memory = Mapping::anonymous(header.bytes)?;
        header.info.page_bytes = memory.page_bytes;
        header.write(SharedWords::new(memory.words()));
        Ok(Self::new(memory, header, Arc::default(), None))
    }

    /// A node that processes of the same user can [`attach`](super::attach()) to by name, for as long
    /// as it is held. Each client takes an open file of this process, whose limit on them is raised
    /// as far as it goes.
    ///
    /// # Errors
    /// [`NameTaken`](crate::FabricError::NameTaken), [`BadName`](crate::FabricError::BadName),
    /// [`Memory`](crate::FabricError::Memory), or what the system says.
    pub fn serve(name: &str, regions: &[RegionSpec]) -> Result<Self> {
        let mut header = lay_out(regions)?;
        let (file, page_bytes) = sealed_memfd(header.bytes)?;
        let memory = Mapping::of_file(file.as_fd(), true, page_bytes)?;
        header.info.page_bytes = page_bytes;
        header.write(SharedWords::new(memory.words()));
        raise_file_limit();
        let watcher = link::serve(name, file)?;
        Ok(Self::new(memory, header, Arc::default(), Some(watcher)))
    }

    pub(super) fn new(
        memory: Mapping,
        header: Header,
        gone: Arc<AtomicBool>,
        watcher: Option<Watcher>,
    ) -> Self {
        Self(Arc::new(Inner {
            memory,
            info: header.info,
            starts: header.starts,
            gone,
            _watcher: watcher,
        }))
    }

    /// The node's incarnation and regions.
    #[must_use]
    pub fn info(&self) -> &NodeInfo {
        &self.0.info
    }

    /// Whether the owner's process has ended.
    #[inline]
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn words(&self) -> SharedWords<'_> {
        SharedWords::new(self.0.memory.words())
    }

    /// The byte of the memory at which a region starts.
    #[inline]
    pub(crate) fn start_of(&self, region: usize) -> u64 {
        self.0.starts[region]
    }

    #[inline]
    pub(super) fn region(&self, region: usize) -> Option<&RegionInfo> {
        self.0.info.regions.get(region)
    }
}

impl Inbox for Node {
    fn take_message(&self) -> Option<Message> {
        // A client that may only read has no messages to take, and could not take one.
        let writable = self.0.memory.writable;
        writable.then(|| mailbox::take(self.words())).flatten()
    }
}

/// Lets this process open as many files as it may; a refusal leaves it at what it has.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

fn lay_out(regions: &[RegionSpec]) -> Result<Header> {
    let regions = regions
        .iter()
        .map(|spec| RegionInfo {
            len: spec.len.checked_next_multiple_of(8).unwrap_or(u64::MAX),
            rights: spec.rights,
        })
        .collect();
    Header::lay_out(rand::random(), regions)
}
