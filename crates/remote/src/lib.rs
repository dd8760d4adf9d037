//! Remote data structures over READs and calls (paper 003).
//!
//! A [`RemoteStructure`] is three callbacks: where a key may be READ, whether what was READ tells,
//! and what the owner does for a call. [`StructureClient`] runs lookups over them: a fine-grained
//! READ first, then a call where pointers must be chased; its [`Policy`] changes to calls while
//! READs keep failing. Changes are calls, executed at most once.
//!
//! * [`chained`]: a bucket table with overflow chains, derived from MICA's, with lock and version
//!   inline;
//! * [`queue`]: a FIFO queue, whose head clients remember;
//! * [`ordered`]: a B+ tree, whose upper levels clients remember, with range scans.
//!
//! The owner's handlers touch memory that clients READ meanwhile. Every unit that a READ is judged
//! by has a checksum over its words and its place, so that a mix of old and new words is noticed:
//! by 64 bits, which two different contents share with a probability of 2^-63.

#![forbid(unsafe_code)]

pub mod chained;
mod error;
mod lock;
pub mod ordered;
mod policy;
pub mod queue;
mod remote;
mod structure;
mod sum;

pub use error::{DENIED, ENDING, NO_OBJECT, RemoteError};
pub use lock::Lock;
pub use policy::{Policy, PolicyOptions};
pub use remote::{CHANGE, LOOKUP, LookupCounts, ObjectId, Objects, StructureClient, serve};
pub use structure::{Found, LookupVerdict, RemoteStructure, Start};
