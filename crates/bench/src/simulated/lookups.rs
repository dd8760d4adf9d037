//! What one client thread of an experiment does.

use super::measured::Measured;
use super::posted::PostedReads;
use super::records::Records;
use super::table::SimulatedTable;
use super::zipf::Zipf;
use crate::answers::Answers;
use crate::{BenchError, Result};
use farslot::bare::Leased;
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{AnyEndpoint, Endpoint, Nanos, window};
use farslot::index::{Index, IndexExt};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::iter;
use std::pin::pin;
use std::rc::Rc;

/// Which keys are looked up.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The key of a random record.
    Hits,
    /// A key that no record has.
    Misses,
    /// The key of a random record, or one that no record has.
    Mixed {
        /// The share of the former, 0 to 1.
        hit_ratio: f64,
    },
    /// The key of a record whose number has this distribution.
    Popular(Zipf),
    /// The key of a record whose rank has this distribution, or one that no record has. Ranks have
    /// nothing to do with numbers: which record is the most popular, the ranking says.
    MixedPopular {
        /// The share of the former, 0 to 1.
        hit_ratio: f64,
        /// Of the ranks.
        popularity: Zipf,
        /// Tells rankings from each other.
        ranking: u32,
    },
}

/// What a lookup returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The key's value (`get`), the record's own. For keys with one record each.
    Value,
    /// All records of the key (`get_all`).
    AllRecords,
}

/// A key to look up, and what there is to be found.
struct ExpectedLookup {
    key: [u8; 4],
    record: Option<u32>,
}

impl Ask {
    fn draw(&self, records: &Records, random: &mut impl Rng) -> ExpectedLookup {
        let misses = match self {
            Self::Misses => true,
            Self::Mixed { hit_ratio } | Self::MixedPopular { hit_ratio, .. } => {
                !random.random_bool(*hit_ratio)
            }
            Self::Hits | Self::Popular(_) => false,
        };
        let record = match self {
            _ if misses => {
                return ExpectedLookup {
                    key: records.absent_key(random),
                    record: None,
                };
            }
            Self::Popular(zipf) => zipf.draw(random) % records.count(),
            Self::MixedPopular {
                popularity,
                ranking,
                ..
            } => {
                let rank = u64::from(popularity.draw(random));
                // A prime above all counts: other ranks are other records.
                let permuted = (rank + 1) * 2_654_435_761 + u64::from(*ranking) * 1_000_003;
                (permuted % u64::from(records.count())) as u32
            }
            _ => random.random_range(0..records.count()),
        };
        ExpectedLookup {
            key: records.key(record),
            record: Some(record),
        }
    }
}

/// One client thread's lookups.
pub(super) struct Lookups {
    pub(super) table: SimulatedTable,
    pub(super) records: Records,
    pub(super) ask: Ask,
    pub(super) answer: Answer,
    pub(super) width: usize,
    pub(super) seed: u64,
    /// Where all clients note what they have done.
    pub(super) measured: Rc<RefCell<Measured>>,
}

/// One lookup that has ended.
struct LookupSample {
    is_right: bool,
    latency: Nanos,
    posted: PostedReads,
}

impl Lookups {
    /// Looks up keys for ever, or until an answer is wrong.
    pub(super) async fn run(self, endpoint: Rc<SimEndpoint>) -> BenchError {
        let posted = Rc::default();
        endpoint.observe(PostedReads::counter(self.table.areas(), Rc::clone(&posted)));
        let endpoint = Leased::new(AnyEndpoint::Sim(endpoint));
        let table = match self.table.open(&endpoint).await {
            Ok(table) => table,
            Err(error) => return error,
        };
        {
            let mut measured = self.measured.borrow_mut();
            measured.client_bytes = measured.client_bytes.max(table.state().client_bytes);
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let failed = RefCell::new(None);
        let next = || {
            let goes_on = failed.borrow().is_none();
            goes_on.then(|| self.ask.draw(&self.records, &mut random))
        };
        let lookups =
            iter::from_fn(next).map(|expected| self.look_up(&*table, &endpoint, &posted, expected));
        window(self.width, lookups, |_, sample| {
            if let Err(error) = sample.and_then(|sample| self.note(&sample)) {
                *failed.borrow_mut() = Some(error);
            }
        })
        .await;
        failed.take().expect("lookups end by an error only")
    }

    fn note(&self, sample: &LookupSample) -> Result<()> {
        let mut measured = self.measured.borrow_mut();
        measured.note(sample.latency, sample.posted);
        let mut answers = Answers::default();
        answers.see(sample.is_right);
        answers.check()
    }

    async fn look_up(
        &self,
        table: &dyn Index,
        endpoint: &Leased,
        all_posted: &Cell<PostedReads>,
        expected: ExpectedLookup,
    ) -> Result<LookupSample> {
        let since = endpoint.now();
        let mut posted = PostedReads::default();
        let mut answering = pin!(self.answer(table, &expected));
        // What is posted while a lookup is polled is posted by it.
        let answered = poll_fn(|cx| {
            let before = all_posted.get();
            let polled = answering.as_mut().poll(cx);
            posted += all_posted.get() - before;
            polled
        })
        .await;
        let is_right = answered?;
        Ok(LookupSample {
            is_right,
            latency: endpoint.now() - since,
            posted,
        })
    }

    /// Whether a lookup has found the right records, which are noted.
    async fn answer(&self, table: &dyn Index, expected: &ExpectedLookup) -> Result<bool> {
        let (key, records) = (&expected.key, &self.records);
        match self.answer {
            Answer::Value => {
                let found = table.get(key).await?;
                let is_right = match (&found, expected.record) {
                    (Some(value), Some(record)) => records.is_value(record, value),
                    (found, record) => found.is_none() && record.is_none(),
                };
                self.measured.borrow_mut().records += u64::from(found.is_some());
                Ok(is_right)
            }
            Answer::AllRecords => {
                let found = table.get_all(key).await?;
                self.measured.borrow_mut().records += found.len() as u64;
                Ok(match expected.record {
                    Some(record) => {
                        found.len() == records.with_key_of(record) as usize
                            && found.iter().any(|value| records.is_value(record, value))
                    }
                    None => found.is_empty(),
                })
            }
        }
    }
}
