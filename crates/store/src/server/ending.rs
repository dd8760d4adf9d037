//! Names and ports that may still be those of a process that is ending.

use farslot_fabric::FabricError;
use farslot_fabric::shm::Node;
use std::time::{Duration, Instant};

/// How long a name or a port may still be that of the process before, which was killed.
const ENDING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// Does what takes a name or a port for a node; of one whose memory is kept, also if that is still
/// the one of the process before.
pub(super) fn once_free<T>(
    node: &Node,
    mut serve: impl FnMut() -> farslot_fabric::Result<T>,
) -> farslot_fabric::Result<T> {
    let until = Instant::now() + ENDING;
    loop {
        match serve() {
            Err(FabricError::NameTaken { .. } | FabricError::AddressInUse { .. })
                if node.is_kept() && Instant::now() < until =>
            {
                std::thread::sleep(LOOK);
            }
            done => return done,
        }
    }
}
