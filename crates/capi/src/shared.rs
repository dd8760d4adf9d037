//! The memory of a job's processes on one machine, mapped in all of them.

use farslot_fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot_fabric::{RegionId, Rights};
use farslot_set::job::Job;
use farslot_set::{Layout, Segments};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables that this process has made with others: each has a name of its own.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A table of which each process of a job owns a part: all of them call this, for the same kind of
/// elements and with the same numbers. The node serves this process's part for as long as it is
/// held.
pub(crate) fn segments(
    job: &mut Job,
    kind: &str,
    buckets_per_rank: u64,
    element_words: u64,
) -> Result<(Segments, Node), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    // Each would take another rank's part for what it is not.
    let terms = [
        ("kind of elements", kind.to_owned()),
        ("buckets of a rank", buckets_per_rank.to_string()),
        ("words of a rank for elements", element_words.to_string()),
    ];
    let agreed = job.agree(
        &terms
            .each_ref()
            .map(|(term, value)| (*term, value.as_str())),
    );
    agreed.map_err(|error| said(&error))?;
    let layout = Layout::new(job.ranks().into(), buckets_per_rank, element_words);
    let layout = layout.map_err(|error| said(&error))?;
    let region = RegionSpec {
        len: layout.region_bytes(),
        rights: Rights::ALL,
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("capi-{}-{number}", std::process::id());
    let node = Node::serve(&name, &[region]).map_err(|error| said(&error))?;
    let names = job.all_gather(name.as_bytes());
    let names = names.map_err(|error| said(&error))?;
    let mut parts = Vec::new();
    for (rank, name) in (0..).zip(names) {
        let node = if rank == job.rank() {
            node.clone()
        } else {
            let name = String::from_utf8_lossy(&name);
            shm::attach(&name, Rights::ALL).map_err(|error| said(&error))?
        };
        parts.push(MappedWords::of(&node, RegionId(0)).map_err(|error| said(&error))?);
    }
    let segments = Segments::mapped(layout, job.rank() as usize, parts);
    let segments = segments.map_err(|error| said(&error))?;
    job.barrier().map_err(|error| said(&error))?;
    Ok((segments, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_set::job::Launch;
    use std::net::TcpListener;

    #[test]
    fn processes_that_make_other_tables_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ends: Vec<[bool; 4]> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..2_u32)
                .map(|rank| {
                    let listener = (rank == 0).then(|| listener.try_clone().unwrap());
                    let launch = Launch {
                        rank,
                        ranks: 2,
                        rendezvous: Some(address.clone()),
                        ..Launch::alone()
                    };
                    scope.spawn(move || {
                        let mut job = Job::join_over(launch, listener).unwrap();
                        let mut made = |kind, buckets, words| {
                            let made = segments(&mut job, kind, buckets, words);
                            if let Err(refused) = &made {
                                assert!(refused.contains("rank 1"), "{refused}");
                            }
                            made.is_ok()
                        };
                        let other = u64::from(rank);
                        [
                            made(["a set", "a map"][rank as usize], 64, 0),
                            made("a set", 64 << other, 0),
                            made("a map", 64, 64 << other),
                            made("a map", 64, 64),
                        ]
                    })
                })
                .collect();
            let ends = ranks.into_iter().map(|rank| rank.join().unwrap());
            ends.collect()
        });
        assert_eq!(ends, [[false, false, false, true]; 2]);
    }
}
