//! One-sided verbs on registered memory, the executor that runs coroutines over them, and the
//! fabrics that carry them.
//!
//! Everything above this crate is generic over [`Endpoint`]; nothing in it knows hash tables. A
//! verb is *posted*, leaves with the next doorbell, and *completes* later, which resolves its
//! future. An index may rely on the following guarantees and on nothing else:
//!
//! * an aligned 8-byte word is read and written whole; a longer read may be torn at any 8-byte
//!   boundary and see its words in any order;
//! * remote atomics are atomic against remote atomics, not against the owner's CPU;
//! * verbs of one endpoint to one peer start in order, and none takes effect behind one that was
//!   lost; nothing is ordered across endpoints, and a plain write may become visible to other
//!   endpoints some time after it completed, but no later than the writer's next atomic;
//! * a peer may stop at any point: a verb then fails, and may or may not have taken effect.
//!
//! The fabrics: [`sim`] (deterministic, virtual time, faults), [`shm`] (shared memory of one host),
//! [`tcp`] (other machines without an RDMA NIC) and [`verbs`] (RDMA NICs).
//!
//! # Rooms
//!
//! ```text
//! any                     an endpoint of any fabric
//! shm  tcp  verbs  sim    the fabrics; none imports another
//! net                     admission, frames, connections: shared by tcp and verbs
//! memory                  a node's memory: shared by shm, tcp and verbs
//! (the root), error       verbs, buffers, endpoint, executor, counters, errors
//! ```

#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    target_pointer_width = "64"
)))]
compile_error!(
    "Farslot runs on Linux alone, on 64-bit little-endian processors: it maps memory as Linux does, \
     and the words that nodes exchange are little-endian"
);

pub mod addr;
pub mod any;
pub mod buffer;
mod byte_count;
pub mod call;
pub mod counters;
mod eight;
pub mod endpoint;
mod endpoint_ext;
pub mod error;
pub mod event_loop;
pub mod executor;
mod freed;
mod held_answers;
pub mod in_place;
pub mod keep;
mod large_pages;
mod look;
pub mod memory;
pub mod net;
mod node_state;
mod owner_endpoint;
mod prefetch;
mod process;
pub mod reader;
#[cfg(feature = "schedule")]
pub mod schedule;
mod segments;
pub mod shm;
pub mod sim;
mod tally;
pub mod tcp;
mod ticket;
pub mod timer;
mod unix_socket;
pub mod verb;
mod verb_future;
pub mod verbs;
pub mod window;
mod words;

pub use addr::{NodeId, NodeInfo, RegionId, RegionInfo, RemoteAddr, Rights};
pub use any::{AnyEndpoint, AnyPosted};
pub use buffer::{Buffer, BufferPool};
pub use byte_count::ByteCount;
pub use call::{Call, CallAnswer, Caller, Handler, OwnerMemory};
pub use counters::{Accounting, Counters, OperationClass};
pub use eight::equal_of_eight;
pub use endpoint::{Endpoint, EndpointCore, Inbox, Limits, PostError, WorkLimit};
pub use endpoint_ext::EndpointExt;
pub use error::{FabricError, Result};
pub use event_loop::EventLoop;
pub use executor::{Executor, Join};
pub use freed::give_back_freed;
pub use in_place::InPlace;
pub use large_pages::zeros_in_large_pages;
pub use look::{Change, Fetched};
pub use net::Backoff;
pub use node_state::NodeState;
pub use owner_endpoint::{OwnerEndpoint, OwnerPosted};
pub use prefetch::prefetch;
pub use process::ProcessId;
pub use reader::Reader;
pub use segments::Segments;
pub use tally::{OperationCounters, Steps, Tally};
pub use ticket::{LaterAnswer, Ticket};
pub use timer::{InWords, Nanos, TimedOut};
pub use verb::{Completion, Message, Piece, Pieces, Verb, VerbKind};
pub use verb_future::VerbFuture;
pub use window::{
    all_in_order, both, in_order, let_others_run, posting_many, prefetched_window, window,
};
