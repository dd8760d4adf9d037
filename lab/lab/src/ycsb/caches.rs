//! Hit ratios of caches: one client asks each system for the same objects in the same order, and
//! puts what it does not find.
//!
//! Objects have sizes from 100 bytes to 64 KiB, evenly by their logarithm. Each system may take the
//! same memory: Farslot's table in all, Redis's `maxmemory`, memcached's `-m`; beside each ratio
//! stands by how much the resident memory of its process has grown in the trace. The traces are
//! generated: Zipf's popularity of two skews; one with a scan through it, a third of the time, of
//! objects that are asked for once in a round; and one whose popularity shifts.

use super::LEAST_VALUE_BYTES;
use super::memcached_client::MemcachedClient;
use super::peers::{PeerKind, PeerResources, PeerServer};
use super::record::{Key, Records};
use super::redis_client::RedisClient;
use super::system::{FarslotTable, Request, ServedStore, WorkloadSystem};
use crate::{LabError, Progress, Result};
use farslot::layout::RaceShape;
use farslot::{Evicting, FieldSize, OpenOptions, Store, TableOptions};
use farslot_bench::process::memory_of;
use farslot_bench::simulated::Zipf;
use farslot_bench::{BenchReport, BenchRow};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SMALLEST: f64 = 100.0;
const LARGEST: f64 = 65_536.0;
/// Requests of a scan, and of what comes between two scans; of the popularity until it shifts, and
/// by how many objects it does.
const SCAN: u64 = 20_000;
const SHIFT_AFTER: u64 = 3_000;
const SHIFT: u64 = 40;

/// The sequences of objects that are asked for.
const TRACES: [(&str, Kind, f64); 4] = [
    ("zipf 0.9", Kind::Steady, 0.9),
    ("zipf 1.0", Kind::Steady, 1.0),
    ("zipf 1.0 and scans", Kind::Scans, 1.0),
    ("zipf 1.0 that shifts", Kind::Shifts, 1.0),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Steady,
    Scans,
    Shifts,
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Objects of the popularity; a scan has twice as many of its own.
    pub objects: u64,
    /// Requests of a trace, of which the first half is not counted.
    pub requests: u64,
    /// The memory of each system, in hundredths of the objects' bytes.
    pub percent: Vec<u64>,
    pub against: Vec<PeerKind>,
    pub seed: u64,
}

/// One trace, at one size of memory.
struct CacheTrace<'o> {
    options: &'o Options,
    kind: Kind,
    popularity: Zipf,
    rng: ChaCha8Rng,
}

impl CacheTrace<'_> {
    /// The object of a request, by its number.
    fn object(&mut self, request: u64) -> u64 {
        let objects = self.options.objects;
        let drawn = u64::from(self.popularity.draw(&mut self.rng));
        match self.kind {
            Kind::Scans if (request / SCAN) % 3 == 2 => {
                let of_scans = request / (3 * SCAN) * SCAN + request % SCAN;
                objects + of_scans % (2 * objects)
            }
            Kind::Shifts => (drawn + request / SHIFT_AFTER * SHIFT) % (3 * objects),
            _ => drawn,
        }
    }
}

/// Measures all traces at all sizes.
///
/// # Errors
/// [`LabError::NotInstalled`] and [`LabError::Peer`] of the peers; what the store says.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    if options.objects == 0 || options.objects > u64::from(u32::MAX) / 4 {
        let limit = "from 1 to 1,073,741,823";
        return Err(LabError::bad("objects", options.objects, limit));
    }
    let mut rows = Vec::new();
    for percent in &options.percent {
        let bytes: u64 = (0..options.objects).map(|of| size(options, of)).sum();
        let memory = bytes * percent / 100;
        for (name, kind, skew) in TRACES {
            let popularity = Zipf::new(options.objects as u32, skew);
            for system in systems(options, memory)? {
                let system_name = &system.0;
                progress(&format!("{name}, {percent} %: {system_name}"));
                let trace = CacheTrace {
                    options,
                    kind,
                    popularity: popularity.clone(),
                    rng: ChaCha8Rng::seed_from_u64(options.seed),
                };
                let before = resident_bytes(&*system.1);
                let ratio = hit_ratio(trace, &*system.1)?;
                let taken = resident_bytes(&*system.1).saturating_sub(before);
                let mib = memory >> 20;
                let row = format!("{name}, {mib} MiB ({percent} %): {system_name}");
                rows.push(BenchRow::new(&row, ratio * 100.0, "% hits"));
                let taken = taken as f64 / f64::from(1 << 20);
                rows.push(BenchRow::new(format!("{row}, taken"), taken, "MiB"));
            }
        }
    }
    Ok(BenchReport {
        bench: "caches",
        fabric: "farslot embedded, others over TCP to another process of this machine".into(),
        rows,
    })
}

/// The bytes of an object's value.
fn size(options: &Options, object: u64) -> u64 {
    let drawn: f64 = ChaCha8Rng::seed_from_u64(object ^ options.seed << 40).random();
    let bytes = SMALLEST * (LARGEST / SMALLEST).powf(drawn);
    (bytes as u64).max(LEAST_VALUE_BYTES as u64)
}

/// The systems, each with so much memory.
fn systems(options: &Options, memory: u64) -> Result<Vec<(String, Box<dyn WorkloadSystem>)>> {
    let mut systems: Vec<(String, Box<dyn WorkloadSystem>)> =
        vec![("farslot".into(), farslot(memory)?)];
    for peer in &options.against {
        let resources = |evicts| PeerResources {
            memory,
            threads: 1,
            evicts: Some(evicts),
        };
        match peer {
            PeerKind::Redis => {
                for policy in ["allkeys-lru", "allkeys-lfu"] {
                    let peer = PeerServer::<RedisClient>::open(None, resources(policy))?;
                    systems.push((format!("redis {policy}"), Box::new(peer)));
                }
            }
            PeerKind::Memcached => {
                let peer = PeerServer::<MemcachedClient>::open(None, resources("lru"))?;
                systems.push(("memcached".into(), Box::new(peer)));
            }
        }
    }
    Ok(systems)
}

/// A table that takes so much memory in all.
fn farslot(memory: u64) -> Result<Box<dyn WorkloadSystem>> {
    let sized = |heap_bytes| {
        TableOptions::new(memory / 2_000)
            .race(RaceShape::default())
            .keys(FieldSize::UpTo(64))
            .values(FieldSize::UpTo(LARGEST as u32))
            .heap_bytes(heap_bytes)
            .evicting(Evicting::All)
    };
    let besides = sized(1 << 20).scheme()?.table_bytes() as u64 - (1 << 20);
    let options = sized(memory.saturating_sub(besides).max(1 << 20));
    let served = ServedStore {
        store: Store::embedded_with(memory + (6 << 20), OpenOptions::default())?,
        process: None,
        guard: Box::new(()),
    };
    Ok(Box::new(FarslotTable::new(
        served,
        "objects".into(),
        &options,
    )?))
}

/// The resident memory of a system's process, which may be this one.
fn resident_bytes(system: &dyn WorkloadSystem) -> u64 {
    let process = system.process().unwrap_or_else(std::process::id);
    memory_of(process, "VmRSS:").unwrap_or_default()
}

/// The part of the requests that found their object, of the second half of a trace.
fn hit_ratio(mut trace: CacheTrace<'_>, system: &dyn WorkloadSystem) -> Result<f64> {
    let mut client = system.connect()?;
    let options = trace.options;
    let records = Records::new(options.seed, LEAST_VALUE_BYTES);
    let (mut hits, mut request) = (0, Request::default());
    for number in 0..options.requests {
        let object = trace.object(number);
        let key: Key = records.key(object);
        let mut is_hit = false;
        request.clear();
        request.reads.push(key);
        client.ask(&request, &mut |_, value| is_hit = value.is_some())?;
        if !is_hit {
            request.clear();
            request.writes.push(key);
            request.values.resize(size(options, object) as usize, 7);
            client.ask(&request, &mut |_, _| {})?;
        }
        hits += u64::from(is_hit && number >= options.requests / 2);
    }
    let counted = options.requests - options.requests / 2;
    Ok(hits as f64 / counted.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More memory has more hits, and so do fewer popular objects.
    #[test]
    fn hit_ratios_are_those_of_a_cache() {
        let options = Options {
            objects: 2_000,
            requests: 20_000,
            percent: vec![10, 30],
            against: Vec::new(),
            seed: 1,
        };
        let report = run(&options, &|_| {}).unwrap();
        let ratios = report.rows.iter().step_by(2);
        let ratios: Vec<f64> = ratios.map(|row| row.value).collect();
        assert_eq!(ratios.len(), 8);
        for trace in 0..4 {
            assert!(ratios[trace] < ratios[trace + 4], "{ratios:?}");
        }
        assert!(ratios[0] > 35.0 && ratios[1] > ratios[0], "{ratios:?}");
    }
}
