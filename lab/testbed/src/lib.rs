//! Nodes on every fabric, for tests that run over all of them (tests only; nothing that is built
//! for use depends on this crate).
//!
//! A test of what a fabric must not change is written once, as a function of a [`Fabric`], and
//! [`suites!`] makes a test of it for each:
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
//! The fabric is a value, and no type parameter, so that the tests and all that they use are
//! compiled once.

mod block_on;
mod fabric;
mod memory;
mod node;
mod suites;

pub use block_on::block_on;
pub use fabric::{Fabric, NODE_START, PATIENCE};
pub use farslot_fabric::AnyEndpoint;
pub use memory::PlainMemory;
pub use node::TestNode;
