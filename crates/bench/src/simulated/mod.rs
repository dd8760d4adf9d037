//! Lookups in any index behind a simulated NIC, measured in the steady state of virtual time.
//!
//! A table is written in memory of this process ([`TableMemory`]), which costs less than simulated
//! verbs do, and its bytes are loaded into a simulated node. There client threads of one machine
//! look up keys for ever ([`Experiment`]), each thread over a queue pair of its own and with some
//! lookups under way; what they have done between two moments is what was measured ([`Measured`]).
//! Every answer is checked: figures of a table that errs mean nothing.
//!
//! What one client's writes take, one after the other, [`WriteCost`] says.
//!
//! A table of any scheme is a [`SimulatedTable`], which clients open as those of a store;
//! [`WrittenTable`] fills it.

mod clients;
mod experiment;
mod filling;
mod lookups;
mod measured;
mod memory;
mod posted;
mod records;
mod table;
mod writes;
mod zipf;

pub use clients::{CLIENT_THREADS, ClientThreads, WARM_UP};
pub use experiment::{Experiment, RunLimit};
pub use filling::{BuiltSealed, Filling, built_cuckoo};
pub use lookups::{Answer, Ask};
pub use measured::Measured;
pub use memory::{TABLE_AT, TableMemory};
pub use posted::PostedReads;
pub use records::Records;
pub use table::SimulatedTable;
pub use writes::{WriteCost, Writes, WrittenTable};
pub use zipf::Zipf;
