//! One-sided verbs on registered memory, the executor that runs coroutines over them, and the
//! fabrics that carry them.
//!
//! Everything above this crate is generic over [`Endpoint`]; nothing here knows what a hash table
//! is. A verb is *posted*, leaves with the next doorbell, and is later *completed*; the future that
//! stands for it resolves then. What an index may rely on, and no more:
//!
//! * an aligned 8-byte word is read and written whole; a longer read may be torn at any 8-byte
//!   boundary and see its words in any order;
//! * remote atomics are atomic against remote atomics, not against the owner's CPU;
//! * verbs of one endpoint to one peer start in order, and none takes effect behind one that was
//!   lost; nothing is ordered across endpoints, and a plain write may become visible to other
//!   endpoints some time after it completed, but no later than the writer's next atomic;
//! * a peer may stop at any point: a verb then fails, and may or may not have taken effect.
//!
//! The fabrics: [`sim`] (deterministic, virtual time, faults), [`shm`] (shared memory of one host) and
//! [`tcp`] (other machines, without their NICs' help).

pub mod addr;
pub mod any;
pub mod buffer;
pub mod counters;
pub mod endpoint;
pub mod error;
pub mod executor;
pub mod in_place;
mod links;
mod prefetch;
pub mod reader;
mod redial;
pub mod shm;
pub mod sim;
pub mod standing;
pub mod tcp;
pub mod timer;
pub mod verb;
pub mod verbs;
pub mod window;

pub use addr::{NodeId, NodeInfo, RegionId, RegionInfo, RemoteAddr, Rights};
pub use any::{AnyEndpoint, AnyPosted};
pub use buffer::{Buffer, BufferPool};
pub use counters::{Booking, Counters, OperationClass, OperationCounters, Tally};
pub use endpoint::{Endpoint, EndpointCore, EndpointExt, Inbox, Limits, PostError};
pub use error::{FabricError, Result};
pub use executor::{Executor, Join};
pub use in_place::InPlace;
pub use prefetch::prefetch;
pub use reader::Reader;
pub use standing::{Backoff, NodeState};
pub use timer::TimedOut;
pub use verb::{Completion, Message, Piece, Pieces, Verb, VerbFuture, VerbKind};
pub use window::{all_in_order, both, in_order, window};

/// A span or an instant in nanoseconds: of the wall clock on real fabrics, of the virtual clock in
/// [`sim`]. Instants count from the start of the process or of the simulation.
pub type Nanos = u64;
