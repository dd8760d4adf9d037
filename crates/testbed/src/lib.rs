//! Nodes on every fabric, for tests that run over all of them (tests only; nothing that is built for use
//! depends on this crate).
//!
//! A test of what a fabric must not change is written once, as a function of a [`Fabric`], and [`suites!`] makes a
//! test of it for each:
//!
//! ```
//! use farslot_fabric::{EndpointExt, RegionId, RemoteAddr, Rights};
//! use farslot_testbed::{Fabric, NODE_START};
//!
//! fn a_counter_counts(fabric: Fabric) {
//!     let node = fabric.start(&[(4096, Rights::ALL)]);
//!     let counter = RemoteAddr { region: RegionId(0), offset: 64, ..NODE_START };
//!     let seen = node.run_clients(3, Fabric::limits(), async move |_, endpoint| {
//!         endpoint.fetch_add(counter, 1).await.unwrap()
//!     });
//!     assert_eq!(seen.into_iter().sum::<u64>(), 0 + 1 + 2);
//! }
//!
//! a_counter_counts(Fabric::Sim);
//! a_counter_counts(Fabric::Shm);
//! a_counter_counts(Fabric::Tcp);
//! ```
//!
//! The fabric is a value, and no type parameter, so that the tests and all that they use are compiled once.

mod node;
mod suites;

pub use farslot_fabric::AnyEndpoint;
pub use node::TestNode;

use farslot_fabric::{Limits, Nanos, NodeId, RegionId, RemoteAddr, Rights};

/// How long a verb is waited for, in nanoseconds: machines that run tests have other things to do, and a
/// test that waits for so long has failed anyway.
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

    /// A verb takes about this many times as long as over shared memory, the machine's own time: what a
    /// test does many times at random it does so much more seldom here.
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

    /// Whether the program alone decides when its verbs complete, and no thread beside it: so many verbs of a
    /// batch complete in one turn, and so many doorbells ring, in every run.
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

    /// Serves a node with regions of these lengths in bytes, and these rights.
    ///
    /// # Panics
    /// If the machine has no such fabric, or no room.
    #[must_use]
    pub fn start(self, regions: &[(u64, Rights)]) -> TestNode {
        TestNode::start(self, regions)
    }
}
