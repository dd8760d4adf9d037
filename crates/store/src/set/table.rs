//! A client of a set.

use super::layout::SetLayout;
use crate::Result as StoreResult;
use crate::error::bad_option;
use crate::lease::Leased;
use farslot_fabric::{
    Endpoint, EndpointExt, NodeId, RemoteAddr, Rights, Steps, Tally, let_others_run, window,
};
use farslot_index::{
    Answers, AtOnce, BATCH_WIDTH, ClientState, Cursor, Got, IndexError, Occupancy, Operation,
    Outcome, Outcomes, Result, SCAN, SchemeClient, SchemeKind, Survey, UPKEEP, Value, linear,
    run_side_by_side,
};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedDataSet, SharedWordSet};
use farslot_set::{Outcome as Put, SetError};
use std::cell::Cell;
use std::rc::Rc;

/// Operations of a batch behind one whose memory is asked for before it, where that is mapped.
const AHEAD: usize = 16;

/// A set of a node.
pub(crate) struct SetTable {
    endpoint: Rc<Leased>,
    at: RemoteAddr,
    layout: SetLayout,
    elements: Elements,
    /// Elements that this client has inserted and not reported.
    inserted: Cell<u64>,
    report_after: u64,
}

/// What its elements are.
enum Elements {
    /// Their buckets.
    Words(SharedWordSet<Leased>),
    /// Beside the buckets.
    Records(SharedDataSet<Leased>),
}

impl SetTable {
    pub(crate) fn open(
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        layout: &SetLayout,
        chunks: ChunkSizes,
    ) -> StoreResult<Self> {
        let open = || {
            let parts = vec![Part::Remote(at)];
            let reach = Reach::new(Rc::clone(&endpoint), layout.memory()?, 0, parts)?.uncounted();
            Ok(match layout.in_buckets() {
                true => Elements::Words(SharedWordSet::new(reach, chunks).seeded(layout.seed)),
                false => {
                    let set = SharedDataSet::new(layout.shape(), reach, chunks)?;
                    Elements::Records(set.seeded(layout.seed))
                }
            })
        };
        let elements = open().map_err(|error: SetError| match error {
            SetError::Fabric(error) => error.into(),
            error => bad_option("the layout", error, "one that its node has room for"),
        })?;
        Ok(Self {
            endpoint,
            at,
            elements,
            inserted: Cell::new(0),
            report_after: (layout.buckets / 4096).clamp(1, 1024),
            layout: layout.clone(),
        })
    }

    fn reach(&self) -> &Reach<Leased> {
        match &self.elements {
            Elements::Words(set) => set.reach(),
            Elements::Records(set) => set.reach(),
        }
    }

    fn chunks(&self) -> &ChunkSizes {
        match &self.elements {
            Elements::Words(set) => set.chunks(),
            Elements::Records(set) => set.chunks(),
        }
    }

    fn buckets_examined(&self) -> u64 {
        match &self.elements {
            Elements::Words(set) => set.reach_of_walks(),
            Elements::Records(set) => set.reach_of_walks(),
        }
    }

    /// The value of a key that is there, or nothing, where the key has this one now.
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        self.end_turn().await;
        self.layout.key.check_key(key)?;
        self.layout.value.check_value(value)?;
        let (put, found) = match &self.elements {
            Elements::Words(set) => {
                let put = set.find_or_put(self.layout.word_of(key)?).await;
                (put, Vec::new())
            }
            Elements::Records(set) => {
                let mut found = Vec::new();
                let fill = |words: &mut [u64]| self.layout.fill_value(value, words);
                let put = set.find_or_put_value(key, fill, &mut found).await;
                (put, found)
            }
        };
        match put.map_err(of_set)? {
            Put::Found(_) => Ok(Some(Value::from(self.layout.value_in(&found)?))),
            Put::Inserted(_) => {
                self.inserted.update(|inserted| inserted + 1);
                if self.has_to_report() {
                    // What was inserted is; the count is brought up to date later.
                    let _ = self.report().await;
                }
                Ok(None)
            }
            Put::Full => Err(self.full(key.len() + value.len()).await?),
        }
    }

    /// Does an operation on an element that is its bucket without a future, where the memory is
    /// mapped; nothing where it has to wait for something, or fails.
    fn word_in_place(&self, operation: Operation<'_>) -> Option<Outcome> {
        let Elements::Words(set) = &self.elements else {
            return None;
        };
        let key = operation.key();
        self.layout.key.check_key(key).ok()?;
        let word = self.layout.word_of(key).ok()?;
        let empty = || Value::from(&[][..]);
        Some(match operation {
            Operation::Get(_) => {
                let is_there = set.contains_in_place(word)?.ok()?;
                Outcome::Value(is_there.then(empty))
            }
            Operation::FindOrPut(_, []) | Operation::Put(_, []) => {
                let is_new = match set.find_or_put_in_place(word)?.ok()? {
                    Put::Found(_) => false,
                    Put::Inserted(_) => true,
                    Put::Full => return None,
                };
                self.inserted
                    .update(|inserted| inserted + u64::from(is_new));
                match operation {
                    Operation::Put(..) => Outcome::Changed(is_new),
                    _ => Outcome::Value((!is_new).then(empty)),
                }
            }
            _ => return None,
        })
    }

    /// The same, counted; the rest of it, if it has to wait.
    fn at_once<'s>(&'s self, operation: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        let core = self.endpoint.core();
        if core.is_turn_over() {
            return Some(Err(Box::pin(async move {
                let_others_run().await;
                self.run_one(operation).await
            })));
        }
        let outcome = self.word_in_place(operation)?;
        let mut tally = Tally::default();
        tally.operation_ended(Steps::default());
        core.counters.add(operation.class(), &tally);
        if self.has_to_report() {
            return Some(Err(Box::pin(async move {
                // What was inserted is; the count is brought up to date later.
                let _ = self.report().await;
                Ok(outcome)
            })));
        }
        Some(Ok(Ok(outcome)))
    }

    /// Does an operation of a batch, where the memory is mapped.
    async fn run_in_place(&self, operation: Operation<'_>) -> Result<Outcome> {
        match self.at_once(operation) {
            Some(Ok(outcome)) => outcome,
            Some(Err(rest)) => rest.await,
            None => self.run_one(operation).await,
        }
    }

    const fn has_to_report(&self) -> bool {
        self.inserted.get() >= self.report_after
    }

    /// Why there is no room for an element of so many bytes.
    async fn full(&self, record_bytes: usize) -> Result<IndexError> {
        if !self.layout.in_buckets() {
            let [taken, _] = self.reach().taken_and_count().await.map_err(of_set)?;
            let heap_bytes = self.layout.heap_bytes();
            if self.layout.taken_bytes(taken) == heap_bytes {
                return Ok(IndexError::HeapFull {
                    record_bytes,
                    heap_bytes,
                });
            }
        }
        Ok(IndexError::Full {
            probed: self.buckets_examined(),
            slots: self.layout.buckets,
        })
    }

    /// Lets others run, if it is their turn: operations in mapped memory wait for nothing.
    async fn end_turn(&self) {
        if self.endpoint.core().is_turn_over() && self.endpoint.core().may_wait() {
            let_others_run().await;
        }
    }

    /// Adds what this client has inserted to what all see.
    async fn report(&self) -> Result<()> {
        let inserted = self.inserted.take();
        if inserted == 0 {
            return Ok(());
        }
        let reporting = self.reach().count_inserted(inserted);
        let reported = self.endpoint.operation(UPKEEP, reporting).await;
        reported.map_err(of_set).inspect_err(|error| {
            // What was certainly not added is added next time.
            if !error.may_have_taken_effect() {
                self.inserted.update(|more| more + inserted);
            }
        })
    }

    /// Brings the count to what was seen, unless it differs by less than a client may not have
    /// reported.
    async fn correct(&self, seen: u64) -> Result<()> {
        let info = self.endpoint.node(self.at.node)?;
        let region = info.regions.get(usize::from(self.at.region.0));
        if !region.is_some_and(|region| region.rights.allow(Rights::ATOMIC)) {
            return Ok(());
        }
        self.report().await?;
        let correcting = async {
            let [_, counted] = self.reach().taken_and_count().await?;
            if counted.abs_diff(seen) < self.report_after {
                return Ok(());
            }
            self.reach().correct_count(counted, seen).await
        };
        let corrected = self.endpoint.operation(UPKEEP, correcting).await;
        corrected.map_err(of_set)
    }
}

/// What a set has failed with, in terms of tables.
fn of_set(error: SetError) -> IndexError {
    match error {
        SetError::Fabric(error) => IndexError::Fabric(error),
        SetError::NoSuchElement { index } => IndexError::BadElement { word: index },
        SetError::WordTooLarge { word, .. } => IndexError::SixtyThreeBits { record: word },
        error => IndexError::BadOption {
            option: "the set",
            value: error.to_string(),
            limit: "one that its layout allows".into(),
        },
    }
}

impl SchemeClient for SetTable {
    type Endpoint = Leased;

    const NAME: &'static str = SchemeKind::Set.name();

    fn endpoint(&self) -> &Leased {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.at.node
    }

    fn prefetch_slots(&self, key: &[u8]) -> bool {
        match &self.elements {
            Elements::Words(set) => {
                let word = self.layout.key.check_key(key);
                let word = word.and_then(|()| self.layout.word_of(key));
                word.is_ok_and(|word| set.prefetch(word))
            }
            Elements::Records(set) => set.prefetch(key),
        }
    }

    fn find_at_once<'s>(&'s self, key: &'s [u8]) -> AtOnce<'s, Got> {
        Some(match self.at_once(Operation::Get(key))? {
            Ok(outcome) => Ok(outcome.map(Outcome::into_value)),
            Err(rest) => Err(Box::pin(async { rest.await.map(Outcome::into_value) })),
        })
    }

    fn write_at_once<'s>(&'s self, write: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        self.at_once(write)
    }

    async fn find_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        if !self.reach().is_in_place() {
            let gets = keys.iter().map(|key| self.find_one(key));
            let done = |number, answer| done(Answers::One(number, answer));
            return window(BATCH_WIDTH, gets, done).await;
        }
        for (number, key) in keys.iter().enumerate() {
            if let Some(later) = keys.get(number + AHEAD) {
                self.prefetch_slots(later);
            }
            let found = self.run_in_place(Operation::Get(key)).await;
            done(Answers::One(number, found.map(Outcome::into_value)));
        }
    }

    async fn write_many(&self, writes: &[Operation<'_>], done: &mut dyn FnMut(Outcomes<'_>)) {
        if !self.reach().is_in_place() {
            return run_side_by_side(self, writes, done).await;
        }
        for (number, write) in writes.iter().enumerate() {
            if let Some(later) = writes.get(number + AHEAD) {
                self.prefetch_slots(later.key());
            }
            done(Outcomes::One(number, self.run_in_place(*write).await));
        }
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        self.end_turn().await;
        self.layout.key.check_key(key)?;
        let mut value = Vec::new();
        let is_there = match &self.elements {
            Elements::Words(set) => set.contains(self.layout.word_of(key)?).await,
            Elements::Records(set) => {
                let found = set.find_value(key, &mut value).await;
                found.map(|index| index.is_some())
            }
        };
        match is_there.map_err(of_set)? {
            true => Ok(Some(Value::from(self.layout.value_in(&value)?))),
            false => Ok(None),
        }
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        let only_grows = |operation| Err(IndexError::OnlyGrows { operation });
        match operation {
            Operation::FindOrPut(key, value) => {
                Ok(Outcome::Value(self.find_or_put(key, value).await?))
            }
            Operation::Put(key, value) => match self.find_or_put(key, value).await? {
                None => Ok(Outcome::Changed(true)),
                Some(current) if *current == *value => Ok(Outcome::Changed(false)),
                Some(_) => only_grows("a put of another value"),
            },
            Operation::Update(..) => only_grows("an update"),
            Operation::Replace(..) => only_grows("a replacement"),
            Operation::Remove(_) | Operation::RemoveIf(..) => only_grows("a removal"),
            Operation::Get(key) => Ok(Outcome::Value(self.find(key).await?)),
            Operation::GetAll(key) => Ok(Outcome::Values(self.find_all(key).await?)),
        }
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let key_bytes = self.layout.key.most();
        let mut damaged = Ok(());
        let next = match &self.elements {
            Elements::Words(set) => {
                let visiting = set.visit(cursor.0, most, |word| {
                    visit(&word.to_le_bytes()[..key_bytes], &[]);
                });
                visiting.await
            }
            Elements::Records(set) => {
                let visit = |key: &[u8], value: &[u64]| match self.layout.value_in(value) {
                    Ok(value) => visit(key, value),
                    Err(error) => damaged = Err(error),
                };
                set.visit(cursor.0, most, BATCH_WIDTH, visit).await
            }
        };
        let next = next.map_err(of_set)?;
        damaged.map(|()| next.map(Cursor))
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        let [taken, count] = self.reach().taken_and_count().await.map_err(of_set)?;
        // What was in doubt may have been added or not.
        let entries = count.min(self.layout.buckets);
        Ok(Occupancy {
            entries,
            used_slots: entries,
            slots: self.layout.buckets,
            heap_used: self.layout.taken_bytes(taken),
            heap_bytes: self.layout.heap_bytes(),
            ..Occupancy::default()
        })
    }

    /// Gives back the space for elements that it has not used, too.
    async fn report_all(&self) -> Result<()> {
        self.report().await?;
        match &self.elements {
            Elements::Words(_) => Ok(()),
            Elements::Records(set) => {
                let giving = self.endpoint.operation(UPKEEP, set.give_back()).await;
                giving.map_err(of_set)
            }
        }
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        let mut survey = linear::Survey::of_slots(self.layout.buckets);
        let mut seen = 0;
        let looking = self.reach().for_each_bucket(|bucket, word| {
            if word == 0 {
                return survey.end_cluster();
            }
            survey.note(bucket, true);
            seen += 1;
        });
        let looked = self.endpoint.operation(SCAN, looking).await;
        looked.map_err(of_set)?;
        survey.end_cluster();
        self.correct(seen).await?;
        Ok(Survey::Linear(survey))
    }

    fn known(&self) -> ClientState {
        ClientState {
            read_size: self.chunks().now().buckets as u64,
            ..ClientState::default()
        }
    }
}
