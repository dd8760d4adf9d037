//! Addresses of remote memory, and rights to it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A peer of this fabric: an index into the list of nodes that the endpoint was connected to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u16);

/// A registered region of a node. Nodes register few, large, contiguous regions: every region costs
/// the NIC an entry of its cache (paper 003, section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RegionId(pub u16);

/// A byte of remote memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RemoteAddr {
    /// The node that owns the memory.
    pub node: NodeId,
    /// The region within the node.
    pub region: RegionId,
    /// Bytes from the start of the region.
    pub offset: u64,
}

impl RemoteAddr {
    /// The address `bytes` further on in the same region. Bounds are checked when a verb is posted.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self {
            offset: self.offset.wrapping_add(bytes),
            ..self
        }
    }
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} region {} offset {:#x}",
            self.node.0, self.region.0, self.offset
        )
    }
}

/// What a peer may do to a region. Enforced by every fabric when a verb arrives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Rights(u8);

impl Rights {
    /// Nothing at all.
    pub const NONE: Self = Self(0);
    /// `read` and `read_many`.
    pub const READ: Self = Self(1);
    /// `write` and `write_imm`.
    pub const WRITE: Self = Self(2);
    /// `compare_swap` and `fetch_add`.
    pub const ATOMIC: Self = Self(4);
    /// `call`.
    pub const CALL: Self = Self(8);
    /// Every verb.
    pub const ALL: Self = Self(15);

    /// Both sets of rights together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Only the rights that are in both sets.
    #[must_use]
    pub const fn masked_by(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether every right of `needed` is granted.
    #[must_use]
    pub const fn allow(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// The bits, for a header in memory or on a wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The rights of a stored byte; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READ, "read"),
            (Self::WRITE, "write"),
            (Self::ATOMIC, "atomic"),
            (Self::CALL, "call"),
        ];
        let mut granted = names.iter().filter(|(right, _)| self.allow(*right));
        match granted.next() {
            None => return f.write_str("none"),
            Some((_, name)) => f.write_str(name)?,
        }
        granted.try_for_each(|(_, name)| write!(f, "+{name}"))
    }
}

/// What an endpoint knows of a region of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionInfo {
    /// Its length in bytes.
    pub len: u64,
    /// What this endpoint may do to it.
    pub rights: Rights,
}

/// What an endpoint knows of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    /// A number drawn anew at every start of the node: a node that came back empty has another.
    pub incarnation: u64,
    /// The node's regions; a [`RegionId`] indexes this list.
    pub regions: Vec<RegionInfo>,
    /// Size of the pages that back the memory, in bytes, as far as the fabric knows it.
    pub page_bytes: u64,
}

impl NodeInfo {
    /// What is known of a peer that was never connected to.
    pub(crate) const UNKNOWN: Self = Self {
        incarnation: 0,
        regions: Vec::new(),
        page_bytes: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_print_and_round_trip() {
        assert_eq!(Rights::NONE.to_string(), "none");
        assert_eq!(Rights::READ.and(Rights::ATOMIC).to_string(), "read+atomic");
        assert_eq!(Rights::from_bits(0xff), Rights::ALL);
        assert!(!Rights::READ.allow(Rights::READ.and(Rights::WRITE)));
        assert!(Rights::ALL.allow(Rights::NONE));
    }
}
