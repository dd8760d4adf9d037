//! The fabrics that a test runs over.

use farslot_fabric::{Limits, Nanos, NodeId, RegionId, RemoteAddr};

/// How long a verb is waited for, in nanoseconds: machines that run tests have other things to do,
/// and a test that waits for so long has failed anyway.
pub const PATIENCE: Nanos = 60_000_000_000;

/// The first byte of a node's first region.
pub const NODE_START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// What carries the verbs of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fabric {
    /// The simulator, without faults.
    Sim,
    /// Shared memory of this process.
    Shm,
    /// TCP on loopback: an agent with a thread of its own beside the memory.
    Tcp,
    /// RDMA verbs, where this machine has a device for them.
    Verbs,
}

impl Fabric {
    /// What messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Verbs => "verbs",
        }
    }

    /// A verb takes about this many times as long as over shared memory, the machine's own time:
    /// what a test does many times at random it does so much more seldom here.
    #[must_use]
    pub fn slowness(self) -> u32 {
        match self {
            Self::Shm => 1,
            Self::Sim => 4,
            Self::Tcp => 10,
            // By the emulated device of an emulated machine, as where `scripts/test-verbs` runs.
            Self::Verbs => 50,
        }
    }

    /// Whether the program alone decides when its verbs complete, and no thread beside it: so many
    /// verbs of a batch complete in one turn, and so many doorbells ring, in every run.
    #[must_use]
    pub fn is_punctual(self) -> bool {
        matches!(self, Self::Sim | Self::Shm)
    }

    /// Whether lookups load from the memory itself, and post no verbs for that.
    #[must_use]
    pub fn is_in_place(self) -> bool {
        matches!(self, Self::Shm)
    }

    /// How many of `full` random cases are worth their time on this fabric; at least one.
    #[must_use]
    pub fn cases(self, full: u32) -> u32 {
        full.div_ceil(self.slowness())
    }

    /// What an endpoint may hold if its test does not care: the default, and patience.
    #[must_use]
    pub fn limits() -> Limits {
        Limits {
            verb_timeout: PATIENCE,
            ..Limits::default()
        }
    }
}
