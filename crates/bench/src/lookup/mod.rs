//! Lookups per second in tables of one or several schemes, all with the same records and equally
//! full, beside what the memory or the fabric gives.
//!
//! [`served`] measures one thread on memory of another process, over shared memory, TCP or verbs,
//! in real time; [`simulated`] the 28 client threads of one machine behind a simulated NIC, in
//! virtual time. Both report the same figures under the same names, for hits and, if asked, for
//! misses: lookups/s with many under way, latencies of one at a time, what a lookup reads, and the
//! bytes that a key takes.

mod bare_reads;
mod figures;
mod scheme;
mod served;
mod sim;
mod timed;

pub use scheme::LookupScheme;
pub use served::{Served, memory, served};
pub use sim::{Simulated, simulated};

use crate::{BenchError, Result};

/// What is looked up in which tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The schemes, at least one.
    pub schemes: Vec<LookupScheme>,
    /// Load factors, rising: above 0, and at most the [limit](LookupScheme::limit) of a scheme.
    /// Schemes are measured at those that are within their limits, each at one at least.
    pub loads: Vec<f64>,
    /// Whether absent keys are looked up too.
    pub misses: bool,
    /// Slots of each table, about: 2^10 to 2^31.
    pub slots: u64,
    /// What the keys derive from.
    pub seed: u64,
}

impl Options {
    /// Hits in tables of so many slots, half full and nearly full.
    #[must_use]
    pub fn new(schemes: Vec<LookupScheme>, slots: u64) -> Self {
        Self {
            schemes,
            loads: vec![0.5, 0.9],
            misses: false,
            slots,
            seed: 0,
        }
    }

    fn check(&self) -> Result<()> {
        if self.schemes.is_empty() {
            return Err(BenchError::bad("number of schemes", 0, "at least 1"));
        }
        if !(1 << 10..=1 << 31).contains(&self.slots) {
            return Err(BenchError::bad("slots", self.slots, "from 2^10 to 2^31"));
        }
        let rising = self.loads.is_sorted_by(|one, next| one < next);
        if self.loads.is_empty() || !rising {
            let loads = format!("{:?}", self.loads);
            return Err(BenchError::bad_text("load factors", loads, "some, rising"));
        }
        let of_none = |load: &&f64| self.schemes_at(**load).next().is_none();
        let of_none = self.loads.iter().find(of_none);
        for scheme in &self.schemes {
            let is_left_out = !self.loads.iter().any(|load| scheme.has_room_at(*load));
            let first = self.loads.first().filter(|_| is_left_out);
            if let Some(load) = of_none.or(first) {
                let limit = format!("above 0 and at most {} for {scheme}", scheme.limit());
                return Err(BenchError::bad_text("load factor", load.to_string(), limit));
            }
        }
        Ok(())
    }

    /// The schemes that are measured at a load factor.
    fn schemes_at(&self, load: f64) -> impl Iterator<Item = LookupScheme> {
        let all = self.schemes.iter().copied();
        all.filter(move |scheme| scheme.has_room_at(load))
    }

    /// What is said of the schemes that are not measured at some load factors.
    fn left_out(&self) -> String {
        let mut left_out = String::new();
        for scheme in &self.schemes {
            let limit = scheme.limit();
            for load in self.loads.iter().filter(|load| !scheme.has_room_at(**load)) {
                left_out += &format!("; {scheme} is full at {limit}, so not measured at {load}");
            }
        }
        left_out
    }

    /// How many records fill a table to a load factor.
    fn records_at(&self, load: f64) -> u64 {
        (self.slots as f64 * load).round() as u64
    }
}
