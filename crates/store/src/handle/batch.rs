//! Requests that wait together, and what becomes of them. All of a batch are in one piece of
//! memory, which is used again: a request costs no allocation of its own.

use crate::{Operation, Outcome, Record, Result, StoreError, Table};
use std::task::Waker;
use std::time::Duration;

/// Requests of a batch where one worker does all. Over a network larger batches are fewer wake-ups:
/// 1,000 tasks did 0.48 of `get_many` in batches of 256, and 0.6 in these.
const BATCH: usize = 1024;
/// Requests of a batch where many workers share them.
const SHARED_BATCH: usize = 256;
/// Futures of a large batch of which one wakes the others.
const GROUP: usize = 32;
/// Futures of a batch that are all woken by the worker: fewer are not worth the detour.
const ALL_AT_ONCE: usize = 8;
const _: () = assert!(BATCH <= GROUP * u64::BITS as usize);
/// Values of at most so many bytes are copied for the future that gets them; the worker makes a
/// vector of any longer one.
const SHORT: usize = 256;
/// Bytes of keys and values for which a batch keeps its memory.
const KEPT_BYTES: usize = 64 << 10;

/// The most requests of a batch, of which so many workers do one each.
pub(super) fn most_requests(workers: usize) -> usize {
    (BATCH / workers.max(1)).max(SHARED_BATCH)
}

/// Something else that is done with the table. It keeps its result itself, and returns the failure
/// that may mean that the table is to be opened again.
pub(super) type Call = Box<dyn FnOnce(&Table) -> Result<()> + Send>;

/// What a worker is asked for.
pub(super) enum WorkerRequest<'r> {
    Operation(Operation<'r>),
    /// A put of a record that lives for so long.
    PutFor(Record<'r>, Duration),
    Call(Call),
}

/// The outcome of an operation, which can go to another thread.
pub(super) type Answer = Outcome<Vec<u8>>;

/// Makes an operation of its key and its values.
type Make = for<'r> fn([&'r [u8]; 3]) -> Operation<'r>;

fn make_of(operation: &Operation<'_>) -> Make {
    match operation {
        Operation::Get(_) => |[key, ..]| Operation::Get(key),
        Operation::GetAll(_) => |[key, ..]| Operation::GetAll(key),
        Operation::Put(..) => |[key, value, _]| Operation::Put(key, value),
        Operation::FindOrPut(..) => |[key, value, _]| Operation::FindOrPut(key, value),
        Operation::Update(..) => |[key, value, _]| Operation::Update(key, value),
        Operation::Replace(..) => |[key, expected, value]| Operation::Replace(key, expected, value),
        Operation::Remove(_) => |[key, ..]| Operation::Remove(key),
        Operation::RemoveIf(..) => |[key, expected, _]| Operation::RemoveIf(key, expected),
    }
}

/// An operation whose bytes are somewhere else.
struct Entry {
    /// Nothing once nobody waits for it.
    make: Option<Make>,
    /// How long the record of a put lives, where that is said.
    time_to_live: Option<Duration>,
    /// Where its key and its values end. The key begins where the entry before ends.
    ends: [usize; 3],
}

/// What a batch asks for: operations, or one call alone.
#[derive(Default)]
pub(super) struct RequestBatch {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    call: Option<Call>,
    /// Operations that are more than a get.
    writes: usize,
    /// Requests that nobody waits for any more.
    dropped: usize,
}

impl RequestBatch {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether another request can be added, where a batch has so many at most.
    pub(super) fn takes(&self, request: &WorkerRequest<'_>, most: usize) -> bool {
        match request {
            WorkerRequest::Operation(_) | WorkerRequest::PutFor(..) => {
                self.call.is_none() && self.len() < most
            }
            WorkerRequest::Call(_) => self.entries.is_empty(),
        }
    }

    /// Adds a request, which the batch [takes](RequestBatch::takes).
    pub(super) fn add(&mut self, request: WorkerRequest<'_>) {
        let (operation, time_to_live) = match request {
            WorkerRequest::Operation(operation) => (Some(operation), None),
            WorkerRequest::PutFor((key, value), span) => {
                (Some(Operation::Put(key, value)), Some(span))
            }
            WorkerRequest::Call(call) => {
                self.call = Some(call);
                (None, None)
            }
        };
        let (make, ends) = match operation {
            Some(operation) => {
                let (mut ends, mut parts) = ([self.bytes.len(); 3], 0);
                let _ = operation.map(|part| -> &[u8] {
                    self.bytes.extend_from_slice(part);
                    // A part that the operation has not is empty, at the end.
                    ends[parts..].fill(self.bytes.len());
                    parts += 1;
                    &[]
                });
                self.writes += usize::from(!matches!(operation, Operation::Get(_)));
                (Some(make_of(&operation)), ends)
            }
            None => (None, [0; 3]),
        };
        self.entries.push(Entry {
            make,
            time_to_live,
            ends,
        });
    }

    /// Takes a request away, which no worker has yet. Returns what is to be dropped when nothing
    /// is locked.
    pub(super) fn remove(&mut self, number: usize) -> Option<Call> {
        self.dropped += 1;
        self.entries[number].make = None;
        self.call.take()
    }

    /// Whether nobody waits for any of it.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped == self.len()
    }

    pub(super) fn take_call(&mut self) -> Option<Call> {
        self.call.take()
    }

    /// Whether all operations are gets.
    pub(super) fn are_gets(&self) -> bool {
        self.writes == 0
    }

    /// The operations with their numbers, but for puts of records that live for a while.
    pub(super) fn operations(&self) -> impl Iterator<Item = (usize, Operation<'_>)> {
        let all = self.all();
        all.filter_map(|(number, operation, span)| span.is_none().then_some((number, operation)))
    }

    /// The puts of records that live for a while, with their numbers.
    pub(super) fn puts_for(&self) -> impl Iterator<Item = (usize, (Record<'_>, Duration))> {
        self.all().filter_map(|(number, operation, span)| {
            let record = (operation.key(), operation.value().unwrap_or_default());
            Some((number, (record, span?)))
        })
    }

    fn all(&self) -> impl Iterator<Item = (usize, Operation<'_>, Option<Duration>)> {
        let mut from = 0;
        let of_entry = move |(number, entry): (usize, &Entry)| {
            let [key, first, second] = entry.ends;
            let parts = [from..key, key..first, first..second];
            from = second;
            let make = entry.make?;
            let operation = make(parts.map(|part| &self.bytes[part]));
            Some((number, operation, entry.time_to_live))
        };
        self.entries.iter().enumerate().filter_map(of_entry)
    }

    fn clear(&mut self) {
        self.entries.clear();
        clear_bytes(&mut self.bytes);
        (self.call, self.writes, self.dropped) = (None, 0, 0);
    }
}

/// Empties a buffer. One very long value shall not take its memory for ever.
fn clear_bytes(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.shrink_to(KEPT_BYTES);
}

/// What has become of a request.
enum RequestOutcome {
    /// It is under way.
    Nothing,
    /// A get of an absent key.
    Absent,
    /// A get of a key whose value is in the batch's bytes, there.
    Short {
        from: usize,
        to: usize,
    },
    Other(Box<Result<Answer>>),
    /// It was handed over.
    Gone,
}

/// What has become of the requests of a batch, by their numbers.
#[derive(Default)]
pub(super) struct Answers {
    outcomes: Vec<RequestOutcome>,
    bytes: Vec<u8>,
}

impl Answers {
    /// Makes them ready for so many requests.
    pub(super) fn begin(&mut self, requests: usize) {
        self.outcomes.clear();
        self.outcomes
            .resize_with(requests, || RequestOutcome::Nothing);
        clear_bytes(&mut self.bytes);
    }

    /// Keeps what a get has found.
    pub(super) fn keep_value(&mut self, number: usize, value: Option<&[u8]>) {
        self.outcomes[number] = match value {
            None => RequestOutcome::Absent,
            Some(value) if value.len() <= SHORT => {
                let from = self.bytes.len();
                self.bytes.extend_from_slice(value);
                let to = self.bytes.len();
                RequestOutcome::Short { from, to }
            }
            Some(value) => {
                RequestOutcome::Other(Box::new(Ok(Outcome::Value(Some(value.to_vec())))))
            }
        };
    }

    pub(super) fn keep(&mut self, number: usize, answer: Result<Answer>) {
        self.outcomes[number] = RequestOutcome::Other(Box::new(answer));
    }

    /// Whether there is nothing to answer, or nothing was told.
    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Hands an answer over, if there is one.
    fn take(&mut self, number: usize) -> Option<Result<Answer>> {
        let outcome = self.outcomes.get_mut(number)?;
        match std::mem::replace(outcome, RequestOutcome::Gone) {
            RequestOutcome::Nothing => {
                *outcome = RequestOutcome::Nothing;
                None
            }
            RequestOutcome::Absent => Some(Ok(Outcome::Value(None))),
            RequestOutcome::Short { from, to } => {
                let value = self.bytes[from..to].to_vec();
                Some(Ok(Outcome::Value(Some(value))))
            }
            RequestOutcome::Other(answer) => Some(*answer),
            RequestOutcome::Gone => Some(Err(StoreError::HandleClosed)),
        }
    }
}

/// How far a batch has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Progress {
    /// No worker has it yet.
    #[default]
    Waiting,
    /// A worker has it: each of its requests is done once, whether or not somebody waits for it.
    Taken,
    Done,
}

/// A batch, as its futures and its worker share it.
#[derive(Default)]
pub(super) struct Batch {
    /// Empty once a worker has it.
    pub(super) requests: RequestBatch,
    pub(super) answers: Answers,
    pub(super) wakers: Vec<Option<Waker>>,
    /// Groups of [`GROUP`] futures, a bit each, of which one was woken, who wakes the others.
    led: u64,
    pub(super) progress: Progress,
    /// Futures that have not taken their answers.
    pub(super) futures: usize,
}

impl Batch {
    /// The answer to a request, if there is one; once a batch is done, one that is missing is of a
    /// worker that has panicked.
    pub(super) fn answer(&mut self, number: usize) -> Option<Result<Answer>> {
        match self.answers.take(number) {
            None if self.progress == Progress::Done => Some(Err(StoreError::WorkerPanicked)),
            answer => answer,
        }
    }

    /// Of a batch that is done: takes the wakers of those who are to be woken now. Of a large batch
    /// these are one of each group; the others are woken by that one, when it takes its answer. So
    /// a thread that runs many tasks mostly wakes its own, which costs it little, and the worker
    /// has few to wake on threads that are not its own.
    pub(super) fn leaders(&mut self, woken: &mut Vec<Waker>) {
        if self.wakers.len() <= ALL_AT_ONCE {
            woken.extend(self.wakers.drain(..).flatten());
            return;
        }
        for (group, wakers) in self.wakers.chunks_mut(GROUP).enumerate() {
            woken.extend(wakers.iter_mut().find_map(Option::take));
            self.led |= 1 << group;
        }
    }

    /// Takes the wakers of the group that a future is in, if they were left to it.
    pub(super) fn group_of(&mut self, number: usize, woken: &mut Vec<Waker>) {
        let group = number / GROUP;
        if self.led & 1 << group != 0 {
            self.led &= !(1 << group);
            let of_group = self.wakers.iter_mut().skip(group * GROUP).take(GROUP);
            woken.extend(of_group.filter_map(Option::take));
        }
    }

    /// Takes the wakers of all groups that nobody has woken yet.
    pub(super) fn all_groups(&mut self, woken: &mut Vec<Waker>) {
        if std::mem::take(&mut self.led) != 0 {
            woken.extend(self.wakers.iter_mut().filter_map(Option::take));
        }
    }

    /// Whether its memory can be that of another batch.
    pub(super) fn is_over(&self) -> bool {
        self.futures == 0 && self.progress == Progress::Done
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.answers.begin(0);
        self.wakers.clear();
        self.led = 0;
        self.progress = Progress::Waiting;
    }
}

/// What a worker keeps from one batch to the next.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) requests: RequestBatch,
    pub(super) answers: Answers,
    pub(super) wakers: Vec<Waker>,
    /// The batch that was done last: some of its futures may have been left to others to wake.
    pub(super) last: Option<usize>,
}

impl Desk {
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.answers.begin(0);
        self.wakers.clear();
    }
}
