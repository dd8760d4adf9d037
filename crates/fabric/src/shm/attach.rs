//! Attaches to a node that another process owns.

use super::fd_passing;
use crate::error::os;
use crate::memory::{Header, MAGIC, Mapping, Node, check_sealed};
use crate::words::SharedWords;
use crate::{FabricError, Result, Rights};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What goes with the memory of a node that another process owns.
pub(super) struct Attached {
    /// Under which it is served, and what was wanted of it.
    pub(super) name: String,
    pub(super) rights: Rights,
    _watcher: fd_passing::Watcher,
}

/// Attaches to the node that is served under `name`, with at most the rights `wanted`. Without the
/// rights to write or to use atomics the memory is mapped read-only.
///
/// # Errors
/// [`NoSuchRegion`](crate::FabricError::NoSuchRegion) where nobody serves it,
/// [`WrongUser`](crate::FabricError::WrongUser) where another user does,
/// [`NotFarslot`](crate::FabricError::NotFarslot),
/// [`FormatVersion`](crate::FabricError::FormatVersion) and
/// [`DamagedHeader`](crate::FabricError::DamagedHeader) where the memory is not what it should be.
pub fn attach(name: &str, wanted: Rights) -> Result<Node> {
    let writable = wanted.masked_by(Rights::WRITE.and(Rights::ATOMIC)) != Rights::NONE;
    let gone = Arc::new(AtomicBool::new(false));
    let (file, watcher) = fd_passing::connect(name, writable, Arc::clone(&gone))?;
    check_sealed(file.as_fd(), name)?;
    let what = format!("shared memory {name:?}");
    let status = rustix::fs::fstat(&file).map_err(os("fstat"))?;
    if status.st_size == 0 {
        return Err(FabricError::NotFarslot {
            what,
            found: 0,
            expected: MAGIC,
        });
    }
    let page_bytes = status.st_blksize as u64;
    let memory = Mapping::of_file(file.as_fd(), writable, page_bytes)?;
    let words = SharedWords::new(memory.words());
    let mut header = Header::read(words, memory.words().len() as u64 * 8, &what)?;
    for region in &mut header.info.regions {
        region.rights = region.rights.masked_by(wanted);
    }
    let attached = Attached {
        name: name.into(),
        rights: wanted,
        _watcher: watcher,
    };
    Ok(Node::new(memory, header, gone).with_companion(Arc::new(attached)))
}
