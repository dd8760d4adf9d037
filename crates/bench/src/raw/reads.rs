//! READs through an endpoint, from memory of this process.

use super::options::Options;
use super::secured;
use crate::Result;
use crate::answers::Answers;
use farslot::fabric::Endpoint;
use farslot::fabric::shm::{self, Node, RegionSpec, ShmEndpoint};
use farslot::fabric::tcp::{Agent, AgentOptions, ConnectOptions, ServeOptions, TcpEndpoint};
use farslot::fabric::verbs::{self, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot::fabric::{
    EndpointExt, Executor, FabricError, Limits, NodeId, RegionId, RemoteAddr, Rights,
};
use hdrhistogram::Histogram;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Both sides go on looking for this long: no measurement sleeps.
const SPIN: Duration = Duration::from_millis(1);

/// A client of memory, and what serves it.
pub(super) struct InFlightReads<E: Endpoint, S> {
    executor: Executor<E>,
    _served: S,
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// Random places of a READ, multiples of its length.
pub(super) fn draw(options: &Options, count: usize, random: &mut ChaCha8Rng) -> Vec<RemoteAddr> {
    let bytes = options.read_bytes as u64;
    let places = options.memory / bytes;
    (0..count)
        .map(|_| at(random.random_range(0..places) * bytes))
        .collect()
}

fn region(options: &Options) -> RegionSpec {
    RegionSpec {
        len: options.memory.next_multiple_of(8),
        rights: Rights::ALL,
    }
}

impl InFlightReads<TcpEndpoint, Agent> {
    /// Through an agent of this process.
    pub(super) fn over_tcp(options: &Options) -> Result<Self> {
        let node = Node::embedded(&[region(options)])?;
        fill(&node)?;
        let (of_agent, of_client) = match options.tls {
            false => (None, None),
            true => secured::both_sides().map(|(agent, client)| (Some(agent), Some(client)))?,
        };
        let serve = ServeOptions {
            tls: of_agent,
            ..ServeOptions::default()
        };
        let agent = Agent::start(
            node,
            &AgentOptions {
                spin: SPIN,
                ..AgentOptions::from(serve)
            },
        )?;
        let to_agent = ConnectOptions {
            spin: SPIN,
            tls: of_client,
            ..ConnectOptions::default()
        };
        let endpoint = TcpEndpoint::connect(&[agent.address().to_string()], &to_agent)?;
        Ok(Self {
            executor: Executor::new(Rc::new(endpoint)),
            _served: agent,
        })
    }
}

impl InFlightReads<VerbsEndpoint, verbs::Agent> {
    /// Through this machine's NIC. Beside it the device's name.
    pub(super) fn over_verbs(options: &Options) -> Result<(Self, String)> {
        let node = Node::embedded(&[region(options)])?;
        fill(&node)?;
        let agent = verbs::Agent::start(node, &VerbsAgentOptions::default())?;
        let to_agent = VerbsOptions::from(ConnectOptions {
            spin: SPIN,
            ..ConnectOptions::default()
        });
        let endpoint = VerbsEndpoint::connect(&[agent.address().to_string()], &to_agent)?;
        let device = endpoint.device().to_owned();
        let reads = Self {
            executor: Executor::new(Rc::new(endpoint)),
            _served: agent,
        };
        Ok((reads, device))
    }
}

impl InFlightReads<ShmEndpoint, Node> {
    /// Through a mapping of memory that is served by name, as another process would have it. Beside
    /// it that mapping, for plain loads.
    pub(super) fn over_shm(options: &Options) -> Result<(Self, Node)> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-raw-{}-{run}", std::process::id());
        let owner = Node::serve(&name, &[region(options)])?;
        let mapping = shm::attach(&name, Rights::ALL)?;
        fill(&mapping)?;
        let endpoint = ShmEndpoint::new(vec![mapping.clone()], Limits::default());
        let reads = Self {
            executor: Executor::new(Rc::new(endpoint)),
            _served: owner,
        };
        Ok((reads, mapping))
    }
}

impl<E: Endpoint, S> InFlightReads<E, S> {
    /// READs/s with [`Options::outstanding`] under way.
    pub(super) fn rate(&mut self, options: &Options, random: &mut ChaCha8Rng) -> Result<f64> {
        let places = draw(options, options.operations, random);
        let mut answers = Answers::default();
        let since = Instant::now();
        self.executor
            .block_on(self.read_all(&places, options, &mut answers));
        let rate = places.len() as f64 / since.elapsed().as_secs_f64();
        answers.check()?;
        Ok(rate)
    }

    async fn read_all(&self, places: &[RemoteAddr], options: &Options, answers: &mut Answers) {
        let endpoint = self.executor.endpoint();
        let mut places = places.iter().copied();
        let readers = (0..options.outstanding).map(|_| (endpoint.reader(), None));
        let mut readers: Vec<_> = readers.collect();
        poll_fn(|cx| {
            let mut idle = true;
            for (reader, reading) in &mut readers {
                loop {
                    if let Some(place) = *reading {
                        let Poll::Ready(read) = reader.poll(cx) else {
                            idle = false;
                            break;
                        };
                        answers.note(read.map(|()| is_of(place, reader.words())));
                    }
                    *reading = places.next();
                    let Some(place) = *reading else {
                        break;
                    };
                    if let Err(error) = reader.read(place, options.read_bytes) {
                        answers.note(Err::<bool, _>(error));
                        *reading = None;
                    }
                }
            }
            if idle { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Times READs one by one, the clock's own time included.
    pub(super) fn latency(
        &mut self,
        options: &Options,
        random: &mut ChaCha8Rng,
        latency: &mut Histogram<u64>,
    ) -> Result<()> {
        let places = draw(options, options.single_reads, random);
        let endpoint = Rc::clone(self.executor.endpoint());
        let mut answers = Answers::default();
        self.executor.block_on(async {
            let mut before = Instant::now();
            for place in places {
                let read = endpoint.read(place, options.read_bytes).await;
                let now = Instant::now();
                latency.saturating_record((now - before).as_nanos() as u64);
                before = now;
                answers.note(read.map(|read| is_of(place, read.words())));
            }
        });
        answers.check()
    }
}

/// The word at a place of the memory: never 0.
fn word_at(offset: u64) -> u64 {
    !offset
}

fn is_of(place: RemoteAddr, words: &[u64]) -> bool {
    words.first() == Some(&word_at(place.offset))
}

/// Fills the memory, within this process.
fn fill(node: &Node) -> Result<()> {
    const AT_ONCE: u64 = 1 << 20;
    let len = node.info().regions[0].len;
    let endpoint = Rc::new(ShmEndpoint::new(vec![node.clone()], Limits::default()));
    let executor = Executor::new(Rc::clone(&endpoint));
    let filled: std::result::Result<(), FabricError> = executor.block_on(async {
        for first in (0..len).step_by(AT_ONCE as usize) {
            let bytes = AT_ONCE.min(len - first);
            let mut data = endpoint.core().buffers.take(bytes as usize)?;
            for (word, offset) in data.words_mut().iter_mut().zip((first..).step_by(8)) {
                *word = word_at(offset);
            }
            endpoint.write(at(first), data).await?;
        }
        Ok(())
    });
    Ok(filled?)
}
