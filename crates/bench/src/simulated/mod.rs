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
//! A new kind of table takes an [`OpenTable`]: how a client opens it, and where its bytes lie; and
//! if it is written, an [`OpenWriter`], with which [`WrittenTable`] fills it.

mod clients;
mod endpoint;
mod experiment;
mod filling;
mod lookups;
mod measured;
mod memory;
mod open;
mod records;
mod writes;
mod zipf;

pub use clients::{CLIENT_THREADS, ClientThreads, WARM_UP};
pub use endpoint::{PostedReads, SortingEndpoint, TableAreas};
pub use experiment::{Experiment, RunLimit};
pub use filling::{BuiltSealed, Filling, built_cuckoo};
pub use lookups::{Answer, Ask};
pub use measured::Measured;
pub use memory::{TABLE_AT, TableMemory};
pub use open::{
    DuoReaderTable, OpenCuckoo, OpenDuo, OpenDuoAlone, OpenLinear, OpenRace, OpenSealed, OpenTable,
    OpenWriter, SimulatedLookup,
};
pub use records::Records;
pub use writes::{WriteCost, Writes, WrittenTable};
pub use zipf::Zipf;
