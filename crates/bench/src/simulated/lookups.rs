//! What one client thread of an experiment does.

use super::endpoint::SortingEndpoint;
use super::measured::Measured;
use super::open::{OpenTable, SimulatedLookup};
use super::records::Records;
use super::zipf::Zipf;
use crate::answers::Answers;
use crate::{BenchError, Result};
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{AnyEndpoint, Endpoint, Nanos, window};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
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
pub(super) struct Lookups<T> {
    pub(super) table: T,
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
    posted: super::endpoint::PostedReads,
}

impl<T: OpenTable> Lookups<T> {
    /// Looks up keys for ever, or until an answer is wrong.
    pub(super) async fn run(self, endpoint: Rc<SimEndpoint>) -> BenchError {
        let endpoint = Rc::new(SortingEndpoint::new(
            AnyEndpoint::Sim(endpoint),
            self.table.areas(),
        ));
        let table = match self.table.clone().open(Rc::clone(&endpoint)).await {
            Ok(table) => table,
            Err(error) => return error.into(),
        };
        {
            let mut measured = self.measured.borrow_mut();
            measured.client_bytes = measured.client_bytes.max(table.client_bytes());
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let failed = RefCell::new(None);
        let next = || {
            let goes_on = failed.borrow().is_none();
            goes_on.then(|| self.ask.draw(&self.records, &mut random))
        };
        let lookups = iter::from_fn(next).map(|expected| {
            let (this, table, endpoint) = (&self, &table, &endpoint);
            async move { this.look_up(table, endpoint, expected).await }
        });
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
        table: &T::Table,
        endpoint: &SortingEndpoint,
        expected: ExpectedLookup,
    ) -> Result<LookupSample> {
        let since = endpoint.now();
        let mut posted = super::endpoint::PostedReads::default();
        let mut answering = pin!(self.answer(table, &expected));
        // What is posted while a lookup is polled is posted by it.
        let answered = poll_fn(|cx| {
            let before = endpoint.posted();
            let polled = answering.as_mut().poll(cx);
            posted += endpoint.posted() - before;
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

    /// Whether a lookup has found the right records. Each is noted when it is found.
    async fn answer(&self, table: &T::Table, expected: &ExpectedLookup) -> Result<bool> {
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
                let mut has_value = expected.record.is_none();
                let found = table.get_all(key, |value| {
                    self.measured.borrow_mut().records += 1;
                    has_value |= expected
                        .record
                        .is_some_and(|record| records.is_value(record, value));
                });
                let found = found.await?;
                let there_are = expected
                    .record
                    .map_or(0, |record| records.with_key_of(record));
                Ok(has_value && found == there_are as usize)
            }
        }
    }
}
