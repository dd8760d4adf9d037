//! Find-or-puts a second (paper 002), by processes of this host that share one table, or by threads
//! of one process: how many, as the table fills, of elements of which some are there.
//!
//! A mix such as 80/20 says of how many of 100 find-or-puts the element is there, and of how many
//! it is new. A load factor is what the table has reached when the measurement ends; it begins 1/32
//! of the slots earlier, so that a mix with few new elements has more find-or-puts. No element is
//! inserted by two ranks, elements that are there were inserted by any of them, and every outcome
//! counts: a set that says "inserted" once too often or too seldom ends the measurement. What a set
//! refuses for want of a bucket, as that of paper 002 does where 1,024 are full, is in the report.
//!
//! Every figure is the median over repetitions, and within each repetition everything is measured
//! once, one after the other. The limit is compare-and-swaps of random buckets of the set's own
//! memory, with as many prefetched or under way as find-or-puts have, by all ranks at once, right
//! behind the find-or-puts that it is the limit of.
//!
//! The set's memory is mapped by all processes ([`MappedSet`]), served by each of them over TCP
//! ([`NetworkSet`]), or of simulated machines ([`measure_simulated`]).

mod draw;
mod mapped;
mod measure;
mod network;
mod options;
mod ranks;
mod simulated;
mod stored;
mod subject;

pub use draw::Mix;
pub use mapped::MappedSet;
pub use measure::measure;
pub use network::NetworkSet;
pub use options::Options;
pub use ranks::{JobRanks, Ranks};
pub use simulated::measure_simulated;
pub use stored::{StoredSet, memory};
pub use subject::{Answers, Limited, Subject};
