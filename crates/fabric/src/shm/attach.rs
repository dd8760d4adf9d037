//! Attaches to a node that another process owns.

use super::fd_passing::{self, Link};
use crate::error::os;
use crate::memory::{Header, Mapping, Node, check_sealed, id_of};
use crate::{Result, Rights};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What goes with the memory of a node that another process owns.
pub(super) struct Attachment {
    /// Under which it is served, and what was wanted of it.
    pub(super) name: String,
    pub(super) rights: Rights,
    /// How often an owner has come back to it.
    lives: Arc<AtomicU64>,
    _watcher: fd_passing::Watcher,
}

impl Attachment {
    /// Which of its owners it has, or had last.
    pub(super) fn life(&self) -> u64 {
        self.lives.load(Ordering::Acquire)
    }
}

/// Attaches to the node that is served under `name`, with at most the rights `wanted`. Without the
/// rights to write or to use atomics the memory is mapped read-only. Where the memory is
/// [kept](crate::keep), verbs fail while it has no owner, and go on with the next one.
///
/// # Errors
/// [`NoSuchRegion`](crate::FabricError::NoSuchRegion) where nobody serves it,
/// [`WrongUser`](crate::FabricError::WrongUser) where another user does,
/// [`NotFarslot`](crate::FabricError::NotFarslot),
/// [`FormatVersion`](crate::FabricError::FormatVersion) and
/// [`DamagedHeader`](crate::FabricError::DamagedHeader) where the memory is not what it should be.
pub fn attach(name: &str, wanted: Rights) -> Result<Node> {
    let writable = wanted.masked_by(Rights::WRITE.and(Rights::ATOMIC)) != Rights::NONE;
    let (file, stream) = fd_passing::connect(name, writable)?;
    let subject = format!("shared memory {name:?}");
    check_sealed(file.as_fd(), &subject)?;
    let mut header = Header::of_file(file.as_fd(), &subject)?;
    let page_bytes = rustix::fs::fstat(&file).map_err(os("fstat"))?.st_blksize as u64;
    let memory = Mapping::of_file(file.as_fd(), writable, page_bytes)?;
    for region in &mut header.info.regions {
        region.rights = region.rights.masked_by(wanted);
    }
    let (gone, lives) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let link = Link {
        name: name.into(),
        kept: header.kept,
        file: id_of(&file)?,
        gone: Arc::clone(&gone),
        lives: Arc::clone(&lives),
    };
    let attached = Attachment {
        name: name.into(),
        rights: wanted,
        lives,
        _watcher: fd_passing::watch(stream, link)?,
    };
    Ok(Node::new(memory, header, gone).with_companion(Arc::new(attached)))
}
