//! Shared memory, of this process or another: real threads. Latencies by the clock on the wall, rates by the
//! processor time of the threads: one that waits for its turn on a busy machine posts nothing.

use super::bed::{Bed, Load, median};
use super::probe::{Busy, Client, Probe, Scratch};
use crate::{Result, threads};
use farslot::fabric::shm::{LINE, Node, ShmEndpoint};
use farslot::fabric::sim::{NicCacheProfile, NicProfile};
use farslot::fabric::{Executor, Limits};
use rustix::time::{ClockId, clock_gettime};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Blocks of verbs one after the other of which the median counts, and the verbs of each: so many that
/// reading the clock does not count.
const BLOCKS: usize = 4096;
const BLOCK: usize = 16;
/// How long clients are kept busy. What they do at first is a small part of it.
const MEASURED: Duration = Duration::from_millis(60);

/// The time for which the calling thread has had a processor. Verbs over shared memory are the work of that
/// processor, so this is what they cost, whatever else the machine does.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

pub(super) struct ShmBed {
    node: Node,
    scratch: Scratch,
    description: String,
    seed: u64,
    /// How often rates were measured: no two take the same way through memory.
    runs: u64,
}

impl ShmBed {
    pub(super) fn new(node: Node, scratch: Scratch, description: String, seed: u64) -> Self {
        Self {
            node,
            scratch,
            description,
            seed,
            runs: 0,
        }
    }

    fn endpoint(node: &Node) -> Rc<ShmEndpoint> {
        Rc::new(ShmEndpoint::new(vec![node.clone()], Limits::default()))
    }
}

impl Bed for ShmBed {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        let nic = NicProfile::connectx5_edr();
        let profile = NicProfile {
            name: "calibrated-shm".into(),
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
        };
        let why = "not measured: shared memory has no NIC (no doorbells, no cache of connections; a message is \
                   a cache line); the rest as cx5-edr has it";
        (profile, why)
    }

    fn tells_nics_apart(&self) -> bool {
        false
    }

    fn has_link(&self) -> bool {
        false
    }

    fn repetitions(&self) -> usize {
        5
    }

    fn most_clients(&self) -> usize {
        threads::available()
    }

    fn idle_ns(&mut self, probe: Probe) -> Result<f64> {
        self.runs += 1;
        let endpoint = Self::endpoint(&self.node);
        let client = Client {
            endpoint: &*endpoint,
            scratch: self.scratch,
            probe,
            seed: self.seed.wrapping_add(self.runs << 32),
        };
        let executor = Executor::new(Rc::clone(&endpoint));
        let blocks = BLOCKS * 64 / probe.bytes().max(64);
        Ok(median(
            executor.block_on(client.one_by_one(blocks.max(64), BLOCK))?,
        ))
    }

    fn rate(&mut self, load: &Load) -> Result<f64> {
        self.runs += 1;
        let busy: Vec<Busy> = (0..load.clients).map(|_| Busy::default()).collect();
        let (node, scratch, seed) = (
            &self.node,
            self.scratch,
            self.seed.wrapping_add(self.runs << 32),
        );
        thread::scope(|scope| {
            let clients: Vec<_> = (1..)
                .zip(&busy)
                .map(|(number, busy)| {
                    scope.spawn(move || {
                        let endpoint = Self::endpoint(node);
                        let client = Client {
                            endpoint: &*endpoint,
                            scratch,
                            probe: load.probe,
                            seed: seed.wrapping_add(number),
                        };
                        let executor = Executor::new(Rc::clone(&endpoint));
                        let since = processor_time();
                        executor.block_on(client.keep_busy(load.width, busy))?;
                        let spent = (processor_time() - since).as_secs_f64();
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
