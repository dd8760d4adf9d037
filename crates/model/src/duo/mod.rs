//! What chance does to CuckooDuo: the theorems of paper 001, section IV, as they come out when
//! nothing is left out.
//!
//! - [`Fingerprints::collisions`] is theorem IV.1, exactly.
//! - [`Fingerprints::unresolved`] is what theorem IV.2 is a bound for, and shows that it is none.
//! - [`Fingerprints::false_positives`] is section III-B's rate.
//! - [`without_path`] is theorem IV.3 for paths of one move, without the assumption that buckets
//!   are full independently of each other.

mod collisions;
mod filling;

pub use collisions::{BackupRoom, Fingerprints};
pub use filling::{FillOrder, MOST_BUCKET_SLOTS, without_path};

#[cfg(test)]
mod collisions_tests;
#[cfg(test)]
mod filling_tests;
