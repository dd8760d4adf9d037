//! The timed loops: each does one thing, with everything prepared before its clock starts.

use crate::answers::Answers;
use crate::memory_limit::{self, random_lines};
use crate::{BenchError, Keys, Result, threads};
use farslot::fabric::shm::{LINE, Node, ShmEndpoint};
use farslot::fabric::tcp::TcpEndpoint;
use farslot::fabric::verbs::VerbsEndpoint;
use farslot::fabric::{Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr};
use farslot::index::BATCH_WIDTH;
use farslot::{ErrorKind, Store, Table, TableOptions, TableRecord};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;
use std::future::poll_fn;
use std::hint::black_box;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;

const REGION: RegionId = RegionId(0);

/// The value of a key: its complement.
#[inline]
fn value_of(key: &[u8; 8]) -> [u8; 8] {
    (!u64::from_le_bytes(*key)).to_le_bytes()
}

/// Operations in a second.
fn rate(operations: usize, since: Instant) -> f64 {
    operations as f64 / since.elapsed().as_secs_f64()
}

/// Puts these keys into a table, on several threads; returns puts/s of all together while they put.
pub(super) fn fill(
    store: &Store,
    name: &str,
    keys: Keys,
    numbers: Range<u64>,
    on_threads: usize,
) -> Result<f64> {
    const AT_A_TIME: u64 = 1 << 14;
    let next = AtomicU64::new(numbers.start);
    let nanos = AtomicU64::new(0);
    let work = || -> Result<()> {
        let table = store.table(name)?;
        let mut answers = Answers::default();
        loop {
            let first = next.fetch_add(AT_A_TIME, Ordering::Relaxed);
            if first >= numbers.end {
                return answers.check();
            }
            let end = numbers.end.min(first + AT_A_TIME);
            let pairs: Vec<_> = (first..end)
                .map(|index| keys.long(index))
                .map(|key| (key, value_of(&key)))
                .collect();
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| (&key[..], &value[..]))
                .collect();
            let since = Instant::now();
            table.put_many(&pairs, |_, new| answers.see(new))?;
            nanos.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    };
    threads::on_each(on_threads, work)?;
    let seconds = nanos.into_inner() as f64 / 1e9 / on_threads as f64;
    Ok((numbers.end - numbers.start) as f64 / seconds)
}

/// What [`writes`] measures.
pub(super) const WRITES: [&str; 4] = [
    "update_many",
    "find_or_put_many, keys that are there",
    "remove_many",
    "put_many, keys that were removed",
];

/// Keys that a table has refused, because it was full.
pub(super) type Refused = HashSet<[u8; 8]>;

/// Writes keys which are all there, each kind of write as one batch; returns writes/s of each. The
/// table has the same records then, but for those that are added to `refused`: in a nearly full
/// table a key that was removed may find no slot when it is put again.
pub(super) fn writes(table: &Table, keys: &[[u8; 8]], refused: &mut Refused) -> Result<[f64; 4]> {
    let pairs: Vec<_> = keys.iter().map(|key| (*key, value_of(key))).collect();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let slices: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let mut answers = Answers::default();
    let (mut removed, mut put) = (0, 0);
    let mut full = Refused::default();
    let timed = |write: &mut dyn FnMut() -> Result<()>| {
        let since = Instant::now();
        write().map(|()| rate(keys.len(), since))
    };
    let rates = [
        timed(&mut || Ok(table.update_many(&pairs, |_, present| answers.see(present))?))?,
        timed(&mut || {
            Ok(table.find_or_put_many(&pairs, |number, was| {
                answers.see(was == Some(pairs[number].1));
            })?)
        })?,
        // A key that was drawn twice is there once.
        timed(&mut || Ok(table.remove_many(&slices, |_, present| removed += u64::from(present))?))?,
        timed(&mut || {
            let done = table.put_many(&pairs, |_, new| put += u64::from(new));
            for (number, error) in done.err().into_iter().flatten() {
                match error {
                    error if error.kind() == ErrorKind::Full => full.insert(keys[number]),
                    error => return Err(error.into()),
                };
            }
            Ok(())
        })?,
    ];
    // One that was drawn twice may have been put the second time.
    for key in full {
        if table.get(&key)?.is_none() {
            refused.insert(key);
            put += 1;
        }
    }
    answers.see(removed == put);
    answers.check()?;
    Ok(rates)
}

/// Makes a table of the first records; returns records/s.
pub(super) fn build(
    store: &Store,
    name: &str,
    options: &TableOptions,
    keys: Keys,
    records: u64,
) -> Result<f64> {
    let pairs: Vec<_> = (0..records)
        .map(|index| keys.long(index))
        .map(|key| (key, value_of(&key)))
        .collect();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let since = Instant::now();
    store.build(name, options, &pairs)?;
    Ok(rate(pairs.len(), since))
}

/// Looks up keys as one batch, which are all there or all absent; returns lookups/s.
pub(super) fn get_many(table: &Table, keys: &[[u8; 8]], are_there: bool) -> Result<f64> {
    let slices: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let mut answers = Answers::default();
    let since = Instant::now();
    table.get_many(&slices, |number, found| {
        let expected = are_there.then(|| value_of(&keys[number]));
        answers.see(found == expected.as_ref().map(|value| &value[..]));
    })?;
    let rate = rate(keys.len(), since);
    answers.check()?;
    Ok(rate)
}

/// Looks up keys which are all there, each of several threads all of them as one batch, in a table
/// that it opens; returns lookups/s of all together.
pub(super) fn get_many_on(
    threads: usize,
    store: &Store,
    name: &str,
    keys: &[[u8; 8]],
) -> Result<f64> {
    let all_are_open = Barrier::new(threads);
    let rates = Mutex::new(0.0);
    threads::on_each(threads, || {
        let table = store.table(name);
        all_are_open.wait();
        let rate = get_many(&table?, keys, true)?;
        *rates.lock().unwrap_or_else(PoisonError::into_inner) += rate;
        Ok::<_, BenchError>(())
    })?;
    Ok(rates.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Looks up the keys with these numbers below `records` once, so that the client has met all of
/// them.
pub(super) fn meet(table: &Table, keys: Keys, records: u64) -> Result<()> {
    const AT_A_TIME: u64 = 1 << 14;
    for first in (0..records).step_by(AT_A_TIME as usize) {
        let numbers = first..records.min(first + AT_A_TIME);
        let keys: Vec<_> = numbers.map(|number| keys.long(number)).collect();
        get_many(table, &keys, true)?;
    }
    Ok(())
}

/// Looks up keys one after the other, which are all there or all absent, and records how long each
/// took.
pub(super) fn gets(
    table: &Table,
    keys: &[[u8; 8]],
    are_there: bool,
    latency: &mut Histogram<u64>,
) -> Result<()> {
    let mut answers = Answers::default();
    let mut before = Instant::now();
    for key in keys {
        let value = table.get(key);
        let now = Instant::now();
        latency.saturating_record((now - before).as_nanos() as u64);
        before = now;
        let expected = are_there.then(|| value_of(key));
        answers
            .note(value.map(|value| value.as_deref() == expected.as_ref().map(|value| &value[..])));
    }
    answers.check()
}

/// A histogram of nanoseconds up to a second, to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("these bounds are in order")
}

/// The fabric under measurement, without any table.
pub(super) enum Fabric {
    Shm(Node, Executor<ShmEndpoint>),
    Tcp(Executor<TcpEndpoint>),
    Verbs(Executor<VerbsEndpoint>),
}

impl Fabric {
    /// That of a store.
    pub(super) fn of(store: &Store) -> Result<Self> {
        if let Some(node) = store.shm_node() {
            let endpoint = ShmEndpoint::new(vec![node.clone()], Limits::default());
            return Ok(Self::Shm(node, Executor::new(Rc::new(endpoint))));
        }
        if let Some(endpoint) = store.tcp_endpoint()? {
            return Ok(Self::Tcp(Executor::new(endpoint)));
        }
        match store.verbs_endpoint()? {
            Some(endpoint) => Ok(Self::Verbs(Executor::new(endpoint))),
            None => Err(BenchError::NotReal {
                address: store.address().to_string(),
            }),
        }
    }

    /// What it is called.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Shm(..) => "shared memory",
            Self::Tcp(_) => "TCP",
            Self::Verbs(_) => "verbs",
        }
    }

    /// Loads lines one after the other, where it can; returns loads/s.
    pub(super) fn loads(&self, lines: &[u64]) -> Result<Option<f64>> {
        match self {
            Self::Shm(node, _) => memory_limit::plain(node, REGION, lines).map(Some),
            Self::Tcp(_) | Self::Verbs(_) => Ok(None),
        }
    }

    /// Loads lines that were prefetched, where it can; returns loads/s.
    pub(super) fn prefetched_loads(&self, lines: &[u64]) -> Result<Option<f64>> {
        match self {
            Self::Shm(node, _) => memory_limit::prefetched(node, REGION, lines).map(Some),
            Self::Tcp(_) | Self::Verbs(_) => Ok(None),
        }
    }

    /// Reads lines through an endpoint, as many at once as a batch of lookups does; returns
    /// READs/s.
    pub(super) fn reads(&self, lines: &[u64]) -> Result<f64> {
        match self {
            Self::Shm(_, executor) => reads(executor, lines),
            Self::Tcp(executor) => reads(executor, lines),
            Self::Verbs(executor) => reads(executor, lines),
        }
    }
}

/// The cache lines of a table.
pub(super) struct CacheLines {
    first: u64,
    bytes: u64,
}

impl CacheLines {
    pub(super) fn of(place: &TableRecord) -> Self {
        Self {
            first: place.offset,
            bytes: place.scheme.table_bytes() as u64,
        }
    }

    /// Random lines, by their offsets in the region.
    pub(super) fn draw(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<u64> {
        random_lines(self.first, self.bytes, count, random)
    }
}

fn reads<E: Endpoint>(executor: &Executor<E>, lines: &[u64]) -> Result<f64> {
    let mut answers = Answers::default();
    let since = Instant::now();
    executor.block_on(read_all(&**executor.endpoint(), lines, &mut answers));
    let rate = rate(lines.len(), since);
    answers.check()?;
    Ok(rate)
}

async fn read_all<E: Endpoint>(endpoint: &E, lines: &[u64], answers: &mut Answers) {
    let mut lines = lines.iter().map(|line| RemoteAddr {
        node: NodeId(0),
        region: REGION,
        offset: *line,
    });
    let readers = (0..BATCH_WIDTH).map(|_| (endpoint.reader(), false));
    let mut readers: Vec<_> = readers.collect();
    poll_fn(|cx| {
        let mut idle = true;
        for (reader, busy) in &mut readers {
            loop {
                if *busy {
                    let Poll::Ready(read) = reader.poll(cx) else {
                        idle = false;
                        break;
                    };
                    answers.note(read.map(|()| black_box(reader.words()).len() == LINE / 8));
                }
                let Some(line) = lines.next() else {
                    *busy = false;
                    break;
                };
                let begun = reader.read(line, LINE);
                *busy = begun.is_ok();
                if let Err(error) = begun {
                    answers.note(Err::<bool, _>(error));
                }
            }
        }
        if idle { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
