//! The tables and figures that can be reproduced.

pub use crate::scale::Options;

use farslot::fabric::sim::NicProfile;

use crate::scale::Reproduction;
use crate::{
    LabError, Progress, ReproReport, Result, paper000, paper001, paper002, paper003, paper004,
};

const ALL: &[Reproduction] = &[
    Reproduction {
        id: paper000::table1::ID,
        title: "paper 000, table 1: READs per lookup, and read sizes",
        scale: paper000::table1::SCALE,
        run: paper000::table1::run,
    },
    Reproduction {
        id: paper000::table2::ID,
        title: "paper 000, table 2: lookups/s where the load factor is not the one assumed",
        scale: paper000::table2::SCALE,
        run: paper000::table2::run,
    },
    Reproduction {
        id: paper000::table3::ID,
        title: "paper 000, table 3: read sizes, inline and out of band",
        scale: paper000::table3::SCALE,
        run: paper000::table3::run,
    },
    Reproduction {
        id: paper000::table4::ID,
        title: "paper 000, table 4: READs to the table and to the heap",
        scale: paper000::storage::SCALE,
        run: paper000::table4::run,
    },
    Reproduction {
        id: paper000::fig6::ID,
        title: "paper 000, figure 6: lookups/s of four kinds of cuckoo hashing",
        scale: paper000::fig6::SCALE,
        run: paper000::fig6::run,
    },
    Reproduction {
        id: paper000::fig7::ID,
        title: "paper 000, figure 7: lookups/s of linear probing and cuckoo hashing",
        scale: paper000::probing::SCALE,
        run: paper000::fig7::run,
    },
    Reproduction {
        id: paper000::fig8::ID,
        title: "paper 000, figure 8: effective bandwidth, and how READs are distributed",
        scale: paper000::probing::SCALE,
        run: paper000::fig8::run,
    },
    Reproduction {
        id: paper000::fig9::ID,
        title: "paper 000, figure 9: latency of single lookups",
        scale: paper000::fig9::SCALE,
        run: paper000::fig9::run,
    },
    Reproduction {
        id: paper000::fig10::ID,
        title: "paper 000, figure 10: lookups/s and predicted cost by read size",
        scale: paper000::fig10::SCALE,
        run: paper000::fig10::run,
    },
    Reproduction {
        id: paper000::fig11::ID,
        title: "paper 000, figure 11: lookups/s by record size, inline and out of band",
        scale: paper000::storage::SCALE,
        run: paper000::fig11::run,
    },
    Reproduction {
        id: paper000::fig12::ID,
        title: "paper 000, figure 12: matching records/s of skewed keys, tracking clusters or not",
        scale: paper000::fig12::SCALE,
        run: paper000::fig12::run,
    },
    Reproduction {
        id: paper000::fig13::ID,
        title: "paper 000, figure 13: read sizes near a known cluster",
        scale: paper000::fig13::SCALE,
        run: paper000::fig13::run,
    },
    Reproduction {
        id: paper000::ahead::ID,
        title: "beyond paper 000: unique keys and tables in the order of their hashes",
        scale: paper000::ahead::SCALE,
        run: paper000::ahead::run,
    },
    Reproduction {
        id: paper000::gather::ID,
        title: "beyond paper 000: cuckoo hashing with a NIC that gathers",
        scale: paper000::gather::SCALE,
        run: paper000::gather::run,
    },
    Reproduction {
        id: paper000::hybrid::ID,
        title: "beyond paper 000: records of 8 B to 1 KiB, inline, out of band, and hybrid",
        scale: paper000::hybrid::SCALE,
        run: paper000::hybrid::run,
    },
    Reproduction {
        id: paper000::insertion::ID,
        title: "beyond paper 000: what an insertion into a cuckoo table costs",
        scale: paper000::insertion::SCALE,
        run: paper000::insertion::run,
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
    paper002::latency::TABLE1,
    paper002::latency::FIG2,
    Reproduction {
        id: paper002::throughput::ID,
        title: "paper 002, table 1 (right) and figure 3: find-or-puts/s of 2 to 48 machines",
        scale: paper002::throughput::SCALE,
        run: paper002::throughput::run,
    },
    Reproduction {
        id: paper003::fig1::ID,
        title: "paper 003, figure 1: READs by connections, three generations of NICs",
        scale: paper003::fig1::SCALE,
        run: paper003::fig1::run,
    },
    Reproduction {
        id: paper003::fig4::ID,
        title: "paper 003, figure 4: lookups in Storm",
        scale: paper003::fig4::SCALE,
        run: paper003::fig4::run,
    },
    Reproduction {
        id: paper003::fig5::ID,
        title: "paper 003, figure 5: Storm, eRPC, FaRM and LITE",
        scale: paper003::fig5::SCALE,
        run: paper003::fig5::run,
    },
    Reproduction {
        id: paper003::fig6::ID,
        title: "paper 003, figure 6: TATP in Storm",
        scale: paper003::fig6::SCALE,
        run: paper003::fig6::run,
    },
    Reproduction {
        id: paper003::fig7::ID,
        title: "paper 003, figure 7: up to 128 machines",
        scale: paper003::fig7::SCALE,
        run: paper003::fig7::run,
    },
    Reproduction {
        id: paper003::segments::ID,
        title: "paper 003, section 6.2.5: physical segments",
        scale: paper003::segments::SCALE,
        run: paper003::segments::run,
    },
    Reproduction {
        id: paper003::table5::ID,
        title: "paper 003, table 5: round trips of an idle cluster",
        scale: paper003::table5::SCALE,
        run: paper003::table5::run,
    },
    Reproduction {
        id: paper004::loop_ratio::ID,
        title: "paper 004, figure 1: insertions that walk into an endless loop",
        scale: paper004::loop_ratio::SCALE,
        run: paper004::loop_ratio::run,
    },
    paper004::local_rates::FIG7,
    paper004::local_rates::FIG8,
    paper004::local_rates::FIG9,
    paper004::local_rates::FIG10,
    paper004::local_rates::FIG11,
    paper004::local_rates::FIG12,
    paper004::local_rates::FIG13,
    Reproduction {
        id: paper004::local_insertion::ID,
        title: "paper 004, counted: what an insertion costs in SmartCuckoo and in what it is compared with",
        scale: paper004::local_insertion::SCALE,
        run: paper004::local_insertion::run,
    },
    Reproduction {
        id: paper004::several_ways::ID,
        title: "beyond paper 004: failures known with several hash functions and slots",
        scale: paper004::several_ways::SCALE,
        run: paper004::several_ways::run,
    },
    Reproduction {
        id: paper004::remote_insertion::ID,
        title: "beyond paper 004: round trips of insertions into a remote table whose failures are known",
        scale: paper004::remote_insertion::SCALE,
        run: paper004::remote_insertion::run,
    },
];

/// What can be reproduced: its id, and what that is.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|known| (known.id, known.title))
}

/// The papers of which there is something.
pub fn papers() -> impl Iterator<Item = &'static str> {
    ["000", "001", "002", "003", "004"].into_iter()
}

/// The ids of a paper's tables and figures, in order; none if nothing of that paper is here.
#[must_use]
pub fn of_paper(paper: &str) -> Vec<&'static str> {
    let of_it = |known: &&Reproduction| known.id.split_once('-').is_some_and(|id| id.0 == paper);
    ALL.iter().filter(of_it).map(|known| known.id).collect()
}

/// Whether figures rest on the simulated NIC of papers 000 and 001; those of the other papers say
/// themselves what theirs rest on.
fn rests_on_the_nic(id: &str) -> bool {
    let counted = [
        paper000::table1::ID,
        paper000::fig13::ID,
        paper000::insertion::ID,
        paper001::fig6::ID,
        paper001::fig8::ID,
        paper001::fig9::ID,
    ];
    (id.starts_with("000-") || id.starts_with("001-")) && !counted.contains(&id)
}

/// What is fitted and what is assumed of that NIC.
fn nic_basis() -> String {
    let nic = NicProfile::connectx5_edr();
    format!(
        "The NIC's numbers: a READ occupies the responder for {} ns + {} ns a byte, fitted on table 2 of paper 000; {} bytes of a \
         message beside its payload, from that paper's read sizes; idle latency and peak rate are published. Assumed: {} ns a doorbell, {} ns \
         a posted verb, and {} ns that an atomic takes longer than a READ, whatever its word (real NICs serialise atomics on one word); a \
         WRITE occupies the responder as a READ does.",
        nic.responder_ns.per_message,
        nic.responder_ns.per_byte,
        nic.header_bytes,
        nic.doorbell_ns,
        nic.post_ns,
        nic.atomic_ns
    )
}

/// Reproduces one table or figure.
///
/// # Errors
/// [`LabError::UnknownId`], [`BadOption`](farslot_bench::BenchError::BadOption), or what the
/// measurement says.
pub fn run(id: &str, options: &Options, progress: Progress<'_>) -> Result<ReproReport> {
    match ALL.iter().find(|known| known.id == id) {
        Some(known) => {
            let mut report = (known.run)(&known.scale.with(options)?, progress)?;
            if rests_on_the_nic(id) {
                report.setup.push(' ');
                report.setup.push_str(&nic_basis());
            }
            Ok(report)
        }
        None => {
            let known: Vec<_> = ALL.iter().map(|known| known.id).collect();
            Err(LabError::UnknownId {
                id: id.into(),
                known: known.join(", "),
            })
        }
    }
}

/// A report's id and what that is.
#[must_use]
pub fn title(report: &ReproReport) -> String {
    let known = all().find(|(id, _)| *id == report.id);
    known.map_or_else(
        || report.id.to_owned(),
        |(id, title)| format!("{id}: {title}"),
    )
}
