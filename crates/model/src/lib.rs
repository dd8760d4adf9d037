//! How many slots should one READ of a remote linear-probing table fetch?
//!
//! A lookup reads R slots at a time until it meets its key or an empty slot. A small R takes more
//! round trips, a large one more bandwidth; the best depends on the load factor, on the NIC, and on
//! what the lookups look for. This crate prices a read size and finds the cheapest, after the model
//! of paper 000, section 3, which it extends by lookups that hit, by lookups that stop at their
//! match, and by an objective of throughput.
//!
//! - [`ProbeDistribution`]: how far a lookup has to look, exactly, for tables of up to 2^40 slots,
//!   and how many READs that takes.
//! - [`ProbeDistribution::ordered`]: the same for a table whose keys stand in the order of their
//!   hashes.
//! - [`NicModel`]: what a READ costs.
//! - [`hit_ratios`]: how much of what a NIC needs it finds in its cache (paper 003).
//! - [`ReadSizeModel`]: the two together; chooses R.
//! - [`advise`]: what an operation costs in each scheme.
//! - [`ReadSizeTable`]: R for every load factor, for use on a client's hot path.
//! - [`HybridPrices`]: up to which size records should stand in their slots, where sizes vary.
//! - [`Hint`], [`HintedReadSizes`]: R where the next cluster is known (paper 000, section 3.4).
//! - [`ChunkModel`]: chunks of a find-or-put, the next requested before one is waited for (paper
//!   002).
//! - [`duo`]: how often fingerprints collide and paths are missing in CuckooDuo (paper 001, section
//!   IV).
//!
//! These are pure functions: no I/O, no clock, no state but remembered results. Numbers out of
//! range are typed errors.
//!
//! ```
//! use farslot_model::{
//!     HitPolicy, NicModel, Objective, ProbeDistribution, ReadSizeModel, ReadSizeTable, TableLoad,
//!     Workload,
//! };
//!
//! # fn main() -> Result<(), farslot_model::ModelError> {
//! // A table of 2^24 slots of 8 bytes, at load 0.9; unique keys, and nine lookups in ten hit.
//! let workload = Workload::new(0.9, HitPolicy::StopAtMatch)?;
//! let table = TableLoad::from_load(1 << 24, 0.9)?;
//! let distances = ProbeDistribution::lookup(table, workload)?;
//!
//! let nic = NicModel::connectx5_edr();
//! let model = ReadSizeModel::new(8, Objective::Throughput, nic)?.with_max_read_bytes(16 << 10)?;
//! let best = model.choose(&distances);
//! assert!(best.cost_ns < model.cost(&distances, 23).cost_ns);
//!
//! // The same for all load factors at once.
//! let sizes = ReadSizeTable::new(&model, 1 << 24, workload)?;
//! assert!(sizes.read_size(0.5) < sizes.read_size(0.9));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod advise;
mod drops;
pub mod duo;
mod error;
mod find_or_put;
mod hinted;
mod hinted_table;
mod hybrid;
mod mean;
mod nic;
mod nic_cache;
mod ordered;
mod probe;
mod read_size;
mod read_table;
mod reads;
mod sum;
mod table;
mod workload;

pub use error::ModelError;
pub use find_or_put::{CHUNK_UNIT, ChunkCost, ChunkModel, Chunking};
pub use hinted::Hint;
pub use hinted_table::HintedReadSizes;
pub use hybrid::{HybridPrices, HybridShape, InlineCandidate, MOST_LOAD, RecordSize};
pub use nic::NicModel;
pub use nic_cache::{CacheClass, Reuse, hit_ratios};
pub use probe::{MAX_TABULATED, ProbeDistribution};
pub use read_size::{DEFAULT_MAX_READ_BYTES, MAX_READ_SLOTS, Objective, ReadCost, ReadSizeModel};
pub use read_table::ReadSizeTable;
pub use table::{MAX_SLOTS, TableLoad};
pub use workload::{HitPolicy, Workload};
