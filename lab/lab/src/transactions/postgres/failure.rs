//! What the server said, as an error.

use crate::LabError;
use std::net::SocketAddr;

pub(super) const PEER: &str = "postgres";

pub(super) fn failure(address: SocketAddr, reason: String) -> LabError {
    LabError::Peer {
        peer: PEER,
        address,
        reason,
    }
}
