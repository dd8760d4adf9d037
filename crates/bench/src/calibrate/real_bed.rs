//! Memory that is there, of this process or another, over shared memory, TCP or verbs: real
//! threads. Latencies by the clock on the wall. Rates over shared memory by the processor time of
//! the threads, for one that waits for its turn on a busy machine posts nothing; over TCP and verbs
//! by the clock, for its agents, or a NIC, work as well.

use super::bed::{FabricBed, Load};
use super::probe::{Busy, Client, ScratchMemory, VerbProbe};
use crate::median::median;
use crate::memory_limit::{self, random_lines};
use crate::{BenchError, Result, threads};
use farslot::Store;
use farslot::fabric::shm::{LINE, Node, ShmEndpoint};
use farslot::fabric::sim::{NicCacheProfile, NicProfile};
use farslot::fabric::tcp::TcpEndpoint;
use farslot::fabric::verbs::VerbsEndpoint;
use farslot::fabric::{Endpoint, Executor, Limits, RegionId};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The name of a profile of mapped memory.
pub(crate) const SHM_PROFILE: &str = "calibrated-shm";
/// The verbs of a block, one after the other: so many that reading the clock does not count.
const BLOCK: usize = 16;
/// The fewest blocks, of the longest verbs.
const FEWEST_BLOCKS: usize = 64;
/// How long clients are kept busy. What they do at first is a small part of it.
const MEASURED: Duration = Duration::from_millis(60);
/// Cache lines that are loaded at a time to measure what one takes.
const LOADED: usize = 1 << 20;

/// The time for which the calling thread has had a processor. Verbs over shared memory are the work
/// of that processor, so this is what they cost, whatever else the machine does.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Where the endpoints of a bed come from.
pub(super) trait Source: Sync {
    /// What they are.
    type Endpoint: Endpoint;

    /// Blocks of verbs of which the median counts.
    const BLOCKS: usize;

    /// One more, of the calling thread.
    fn endpoint(&self) -> Result<Rc<Self::Endpoint>>;

    /// As [`FabricBed::defaults`].
    fn defaults(&self) -> (NicProfile, &'static str);

    /// The time that a rate is over.
    fn time(&self) -> Duration;

    /// Loads these lines of a region, several prefetched together, where the memory is mapped;
    /// nothing elsewhere.
    fn load(&self, _region: RegionId, _lines: &[u64]) -> Result<Option<()>> {
        Ok(None)
    }
}

/// Endpoints of shared memory.
pub(super) struct ShmSource(pub(super) Node);

impl Source for ShmSource {
    type Endpoint = ShmEndpoint;

    const BLOCKS: usize = 4096;

    fn endpoint(&self) -> Result<Rc<ShmEndpoint>> {
        let nodes = vec![self.0.clone()];
        Ok(Rc::new(ShmEndpoint::new(nodes, Limits::default())))
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        let why = "not measured: shared memory has no NIC (no doorbells, no cache of connections; a message is \
                   a cache line); the rest as cx5-edr has it";
        (without_nic(SHM_PROFILE), why)
    }

    fn time(&self) -> Duration {
        processor_time()
    }

    fn load(&self, region: RegionId, lines: &[u64]) -> Result<Option<()>> {
        memory_limit::prefetched(&self.0, region, lines)?;
        Ok(Some(()))
    }
}

/// Connections to a store's node over TCP.
pub(super) struct TcpSource(pub(super) Store);

impl Source for TcpSource {
    type Endpoint = TcpEndpoint;

    // Each takes a hundred times as long as over shared memory.
    const BLOCKS: usize = 128;

    fn endpoint(&self) -> Result<Rc<TcpEndpoint>> {
        let address = || self.0.address().to_string();
        let not_tcp = || BenchError::NotReal { address: address() };
        self.0.tcp_endpoint()?.ok_or_else(not_tcp)
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        let why = "not measured: what TCP costs is the processors' work, and no NIC's (no doorbells apart from a \
                   batch's system call, no cache of connections); the rest as cx5-edr has it";
        (without_nic("calibrated-tcp"), why)
    }

    fn time(&self) -> Duration {
        wall_time()
    }
}

/// Queue pairs to a store's node.
pub(super) struct VerbsSource(pub(super) Store);

impl Source for VerbsSource {
    type Endpoint = VerbsEndpoint;

    const BLOCKS: usize = 128;

    fn endpoint(&self) -> Result<Rc<VerbsEndpoint>> {
        let address = || self.0.address().to_string();
        let not_verbs = || BenchError::NotReal { address: address() };
        self.0.verbs_endpoint()?.ok_or_else(not_verbs)
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        let nic = NicProfile {
            name: "calibrated-verbs".into(),
            ..NicProfile::connectx5_edr()
        };
        (nic, "not measured: as cx5-edr has it")
    }

    fn time(&self) -> Duration {
        wall_time()
    }
}

fn wall_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// A profile of no NIC at all.
fn without_nic(name: &str) -> NicProfile {
    let nic = NicProfile::connectx5_edr();
    NicProfile {
        name: name.into(),
        // A cache line.
        header_bytes: LINE as u32,
        doorbell_ns: 0.0,
        post_ns: 0.0,
        max_outstanding_reads: 1024,
        send_queue_depth: 1024,
        cache: NicCacheProfile {
            capacity_bytes: 1 << 40,
            ..nic.cache
        },
        ..nic
    }
}

pub(super) struct RealBed<S> {
    source: S,
    scratch: ScratchMemory,
    description: String,
    seed: u64,
    /// How often rates were measured: no two take the same way through memory.
    runs: u64,
}

impl<S> RealBed<S> {
    pub(super) fn new(source: S, scratch: ScratchMemory, description: String, seed: u64) -> Self {
        Self {
            source,
            scratch,
            description,
            seed,
            runs: 0,
        }
    }
}

impl<S: Source> FabricBed for RealBed<S> {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        self.source.defaults()
    }

    fn tells_nics_apart(&self) -> bool {
        false
    }

    fn has_link(&self) -> bool {
        false
    }

    fn line_ns(&mut self) -> Result<Option<f64>> {
        let mut times = Vec::new();
        for _ in 0..self.repetitions() {
            self.runs += 1;
            let mut random = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(self.runs << 32));
            let ScratchMemory { first, bytes, .. } = self.scratch;
            let lines = random_lines(first, bytes, LOADED, &mut random);
            let since = self.source.time();
            if self.source.load(self.scratch.region, &lines)?.is_none() {
                return Ok(None);
            }
            times.push((self.source.time() - since).as_nanos() as f64 / LOADED as f64);
        }
        Ok(Some(median(times)))
    }

    fn repetitions(&self) -> usize {
        5
    }

    fn most_clients(&self) -> usize {
        threads::available()
    }

    fn idle_ns(&mut self, probe: VerbProbe) -> Result<f64> {
        self.runs += 1;
        let endpoint = self.source.endpoint()?;
        let client = Client {
            endpoint: &*endpoint,
            scratch: self.scratch,
            probe,
            seed: self.seed.wrapping_add(self.runs << 32),
        };
        let executor = Executor::new(Rc::clone(&endpoint));
        let blocks = S::BLOCKS * 64 / probe.bytes().max(64);
        Ok(median(executor.block_on(
            client.one_by_one(blocks.max(FEWEST_BLOCKS), BLOCK),
        )?))
    }

    fn rate(&mut self, load: &Load) -> Result<f64> {
        self.runs += 1;
        let busy: Vec<Busy> = (0..load.clients).map(|_| Busy::default()).collect();
        let (source, scratch, seed) = (
            &self.source,
            self.scratch,
            self.seed.wrapping_add(self.runs << 32),
        );
        thread::scope(|scope| {
            let clients: Vec<_> = (1..)
                .zip(&busy)
                .map(|(number, busy)| {
                    scope.spawn(move || {
                        let endpoint = source.endpoint()?;
                        let client = Client {
                            endpoint: &*endpoint,
                            scratch,
                            probe: load.probe,
                            seed: seed.wrapping_add(number),
                        };
                        let executor = Executor::new(Rc::clone(&endpoint));
                        let since = source.time();
                        executor.block_on(client.keep_busy(load.width, busy))?;
                        let spent = (source.time() - since).as_secs_f64();
                        Ok(busy.completed.load(Ordering::Relaxed) as f64 / spent)
                    })
                })
                .collect();
            thread::sleep(MEASURED);
            busy.iter()
                .for_each(|busy| busy.stop.store(true, Ordering::Relaxed));
            let ends = clients.into_iter().map(|client| {
                client
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // All of them are waited for, whichever fails first.
            let rates: Vec<Result<f64>> = ends.collect();
            rates.into_iter().sum()
        })
    }
}
