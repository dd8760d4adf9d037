//! Tables and figures of the papers, reproduced: one module each.

mod ahead;
mod cuckoo_tables;
mod fig10;
mod fig11;
mod fig12;
mod fig13;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
mod gather;
mod hybrid;
mod hybrid_tables;
mod insertion;
mod linear_tables;
mod local_insertion;
mod local_rates;
mod loop_ratio;
mod paper001;
mod probing;
mod remote_insertion;
mod several_ways;
mod stats;
mod storage;
mod table1;
mod table2;
mod table3;
mod table4;

use crate::paper000::LOADS;
use crate::{BenchError, Progress, ReproReport, Result};

/// What a reproduction may vary; where there is nothing, it has a default of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Slots of each table.
    pub slots: Option<u64>,
    /// Tables that are averaged over.
    pub tables: Option<u32>,
    /// Lookups, in each table, behind each cell.
    pub lookups: Option<u32>,
    /// What all chance derives from.
    pub seed: u64,
}

/// [`Options`] with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    slots: u64,
    tables: u32,
    lookups: u32,
    seed: u64,
}

impl Scale {
    fn with(self, options: &Options) -> Result<Self> {
        let scale = Self {
            slots: options.slots.unwrap_or(self.slots),
            tables: options.tables.unwrap_or(self.tables),
            lookups: options.lookups.unwrap_or(self.lookups),
            seed: options.seed,
        };
        // Keys have 4 bytes; and the longest READ must not be longer than the table.
        if !(1 << 10..=1 << 31).contains(&scale.slots) {
            return Err(BenchError::bad("slots", scale.slots, "from 2^10 to 2^31"));
        }
        if scale.tables == 0 {
            return Err(BenchError::bad("tables", 0, "at least 1"));
        }
        if scale.lookups == 0 {
            return Err(BenchError::bad("lookups", 0, "at least 1"));
        }
        Ok(scale)
    }

    /// The seed of one of the tables.
    fn seed_of(&self, table: u32) -> u64 {
        self.seed.wrapping_mul(1 << 20).wrapping_add(table.into())
    }
}

struct Reproduction {
    id: &'static str,
    title: &'static str,
    scale: Scale,
    run: fn(&Scale, Progress<'_>) -> Result<ReproReport>,
}

const ALL: &[Reproduction] = &[
    Reproduction {
        id: table1::ID,
        title: "paper 000, table 1: READs per lookup, and read sizes",
        scale: table1::SCALE,
        run: table1::run,
    },
    Reproduction {
        id: table2::ID,
        title: "paper 000, table 2: lookups/s where the load factor is not the one assumed",
        scale: table2::SCALE,
        run: table2::run,
    },
    Reproduction {
        id: table3::ID,
        title: "paper 000, table 3: read sizes, inline and out of band",
        scale: table3::SCALE,
        run: table3::run,
    },
    Reproduction {
        id: table4::ID,
        title: "paper 000, table 4: READs to the table and to the heap",
        scale: storage::SCALE,
        run: table4::run,
    },
    Reproduction {
        id: fig6::ID,
        title: "paper 000, figure 6: lookups/s of four kinds of cuckoo hashing",
        scale: fig6::SCALE,
        run: fig6::run,
    },
    Reproduction {
        id: fig7::ID,
        title: "paper 000, figure 7: lookups/s of linear probing and cuckoo hashing",
        scale: probing::SCALE,
        run: fig7::run,
    },
    Reproduction {
        id: fig8::ID,
        title: "paper 000, figure 8: effective bandwidth, and how READs are distributed",
        scale: probing::SCALE,
        run: fig8::run,
    },
    Reproduction {
        id: fig9::ID,
        title: "paper 000, figure 9: latency of single lookups",
        scale: fig9::SCALE,
        run: fig9::run,
    },
    Reproduction {
        id: fig10::ID,
        title: "paper 000, figure 10: lookups/s and predicted cost by read size",
        scale: fig10::SCALE,
        run: fig10::run,
    },
    Reproduction {
        id: fig11::ID,
        title: "paper 000, figure 11: lookups/s by record size, inline and out of band",
        scale: storage::SCALE,
        run: fig11::run,
    },
    Reproduction {
        id: fig12::ID,
        title: "paper 000, figure 12: matching records/s of skewed keys, tracking clusters or not",
        scale: fig12::SCALE,
        run: fig12::run,
    },
    Reproduction {
        id: fig13::ID,
        title: "paper 000, figure 13: read sizes near a known cluster",
        scale: fig13::SCALE,
        run: fig13::run,
    },
    Reproduction {
        id: ahead::ID,
        title: "beyond paper 000: unique keys and tables in the order of their hashes",
        scale: ahead::SCALE,
        run: ahead::run,
    },
    Reproduction {
        id: gather::ID,
        title: "beyond paper 000: cuckoo hashing with a NIC that gathers",
        scale: gather::SCALE,
        run: gather::run,
    },
    Reproduction {
        id: hybrid::ID,
        title: "beyond paper 000: records of 8 B to 1 KiB, inline, out of band, and hybrid",
        scale: hybrid::SCALE,
        run: hybrid::run,
    },
    Reproduction {
        id: insertion::ID,
        title: "beyond paper 000: what an insertion into a cuckoo table costs",
        scale: insertion::SCALE,
        run: insertion::run,
    },
    Reproduction {
        id: paper001::table1::ID,
        title: "paper 001, table I: what CuckooDuo costs, and what it is compared with",
        scale: paper001::table1::SCALE,
        run: paper001::table1::run,
    },
    Reproduction {
        id: paper001::table3::ID,
        title: "paper 001, table III: latencies of mixed operations",
        scale: paper001::table3::SCALE,
        run: paper001::table3::run,
    },
    Reproduction {
        id: paper001::fig6::ID,
        title: "paper 001, figure 6: the theorems",
        scale: paper001::fig6::SCALE,
        run: paper001::fig6::run,
    },
    Reproduction {
        id: paper001::fig7::ID,
        title: "paper 001, figure 7: CuckooDuo's parameters",
        scale: paper001::fig7::SCALE,
        run: paper001::fig7::run,
    },
    Reproduction {
        id: paper001::fig8::ID,
        title: "paper 001, figure 8: the length of fingerprints",
        scale: paper001::fig8::SCALE,
        run: paper001::fig8::run,
    },
    Reproduction {
        id: paper001::fig9::ID,
        title: "paper 001, figure 9: load factors, and what insertions cost",
        scale: paper001::fig9::SCALE,
        run: paper001::fig9::run,
    },
    Reproduction {
        id: paper001::fig10::ID,
        title: "paper 001, figure 10: latencies",
        scale: paper001::fig10::SCALE,
        run: paper001::fig10::run,
    },
    Reproduction {
        id: paper001::fig11::ID,
        title: "paper 001, figure 11: lookups with the same memory for index and cache",
        scale: paper001::fig11::SCALE,
        run: paper001::fig11::run,
    },
    Reproduction {
        id: paper001::fig12::ID,
        title: "paper 001, figure 12: growth",
        scale: paper001::fig12::SCALE,
        run: paper001::fig12::run,
    },
    Reproduction {
        id: paper001::supplement::ID,
        title: "paper 001, its supplement: sizes, several operations under way, limited bandwidth",
        scale: paper001::supplement::SCALE,
        run: paper001::supplement::run,
    },
    Reproduction {
        id: loop_ratio::ID,
        title: "paper 004, figure 1: insertions that walk into an endless loop",
        scale: loop_ratio::SCALE,
        run: loop_ratio::run,
    },
    local_rates::FIG7,
    local_rates::FIG8,
    local_rates::FIG9,
    local_rates::FIG10,
    local_rates::FIG11,
    local_rates::FIG12,
    local_rates::FIG13,
    Reproduction {
        id: local_insertion::ID,
        title: "paper 004, counted: what an insertion costs in SmartCuckoo and in what it is compared with",
        scale: local_insertion::SCALE,
        run: local_insertion::run,
    },
    Reproduction {
        id: several_ways::ID,
        title: "beyond paper 004: failures known with several hash functions and slots",
        scale: several_ways::SCALE,
        run: several_ways::run,
    },
    Reproduction {
        id: remote_insertion::ID,
        title: "beyond paper 004: round trips of insertions into a remote table whose failures are known",
        scale: remote_insertion::SCALE,
        run: remote_insertion::run,
    },
];

/// What can be reproduced: its id, and what that is.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|known| (known.id, known.title))
}

/// The papers of which there is something.
pub fn papers() -> impl Iterator<Item = &'static str> {
    ["000", "001", "004"].into_iter()
}

/// The ids of a paper's tables and figures, in order; none if nothing of that paper is here.
#[must_use]
pub fn of_paper(paper: &str) -> Vec<&'static str> {
    let of_it = |known: &&Reproduction| known.id.split_once('-').is_some_and(|id| id.0 == paper);
    ALL.iter().filter(of_it).map(|known| known.id).collect()
}

/// Reproduces one table or figure.
///
/// # Errors
/// [`BenchError::UnknownId`], [`BenchError::BadOption`], or what the measurement says.
pub fn run(id: &str, options: &Options, progress: Progress<'_>) -> Result<ReproReport> {
    match ALL.iter().find(|known| known.id == id) {
        Some(known) => (known.run)(&known.scale.with(options)?, progress),
        None => {
            let known: Vec<_> = ALL.iter().map(|known| known.id).collect();
            Err(BenchError::UnknownId {
                id: id.into(),
                known: known.join(", "),
            })
        }
    }
}

/// The points of a line over [`LOADS`], from the value at each of them.
fn by_load(value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let points = LOADS.into_iter().enumerate();
    points.map(|(row, load)| (load, value(row))).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
