//! A table as a whole: its records and counts, its writer, building and closing it, and what its
//! client has done.

use super::Table;
use crate::deduplicate::last_of_each_key;
use crate::nodes::PartitionReport;
use crate::session::SessionRequest;
use crate::{
    BatchError, Cursor, Occupancy, Operation, Record, Result, StoreError, Survey, WriterChange,
};
use farslot_fabric::counters::CounterSnapshot;
use farslot_fabric::{Endpoint, Nanos};
use farslot_index::CacheCounts;
use farslot_index::{Admin, AdminOutcome, QueueRequest};

impl Table {
    /// Visits every record. One that is there all along is visited once, whatever others write; but
    /// in a cuckoo or CuckooDuo table those that its writer moves meanwhile may be visited twice,
    /// or not at all.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// let mut records = 0;
    /// stock.for_each(|_key, _value| records += 1)?;
    /// assert_eq!(records, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.session.scan(from, u64::MAX, &mut visit)?;
        }
        Ok(())
    }

    /// Visits a piece of the table; returns where the next piece starts, or nothing at the end.
    ///
    /// A piece has at most `most` slots, vacant ones included, or the few dozen that are the least
    /// a scheme visits at once. [`u64::MAX`] visits as many as one read fetches well, thousands:
    /// use it unless pages shall be short. Each call may have another limit.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// // A piece at a time: a page of a listing, say.
    /// let (mut records, mut next) = (0, Some(farslot::Cursor::default()));
    /// while let Some(cursor) = next {
    ///     next = stock.scan(cursor, 100, |_key, _value| records += 1)?;
    /// }
    /// assert_eq!(records, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.session.scan(cursor, most, &mut visit)
    }

    /// Where the next partition of a table over several nodes starts, behind the one that a cursor
    /// is in: for who visits what can be reached, past a node that does not answer. Nothing behind
    /// the last, and in a table on one node.
    ///
    /// ```
    /// # use farslot::{Cursor, ErrorKind, Table};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// /// Counts the records that can be reached, and the partitions that cannot.
    /// fn count(table: &Table) -> Result<(u64, u64), farslot::StoreError> {
    ///     let (mut records, mut gaps) = (0, 0);
    ///     let mut next = Some(Cursor::default());
    ///     while let Some(cursor) = next {
    ///         next = match table.scan(cursor, u64::MAX, |_key, _value| records += 1) {
    ///             Ok(next) => next,
    ///             Err(error) if error.kind() == ErrorKind::NodeDown => {
    ///                 gaps += 1;
    ///                 table.next_partition(cursor)
    ///             }
    ///             Err(error) => return Err(error),
    ///         };
    ///     }
    ///     Ok((records, gaps))
    /// }
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// # stock.put(b"pears", b"7")?;
    /// # assert_eq!(count(&stock)?, (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn next_partition(&self, cursor: Cursor) -> Option<Cursor> {
        let next = cursor.partition + 1;
        (next < self.session.client().partition_count())
            .then(|| Cursor::of(next, Default::default()))
    }

    /// What the table holds, as its clients have counted it together: cheap, and behind by what
    /// they have not reported yet.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.flush()?;
    /// assert_eq!(stock.occupancy()?.entries, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn occupancy(&self) -> Result<Occupancy> {
        self.admin(Admin::Occupancy)
            .map(AdminOutcome::into_occupancy)
    }

    /// Reports what this table has put and removed to the count that all see. Done at intervals,
    /// and when the table is dropped.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.flush()?;
    /// assert_eq!(store.table("stock")?.occupancy()?.entries, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.admin(Admin::Flush).map(drop)
    }

    /// Looks at every slot: exact counts, occupancy along the table, and how the keys lie.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// println!("{:?}", stock.survey()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn survey(&self) -> Result<Survey> {
        self.admin(Admin::Survey).map(AdminOutcome::into_survey)
    }

    /// What each node has of a table over several, and which cannot tell; of any other, nothing.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.partitions().is_empty(), "of one node");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionReport> {
        self.session.client().partitions()
    }

    /// The number of the client that is the table's writer now, of a table that admits one; over
    /// several nodes, that of the first partition that has one.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.writer()?, None);
    /// stock.start_writing()?;
    /// assert!(stock.writer()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn writer(&self) -> Result<Option<u64>> {
        self.admin(Admin::Writer).map(AdminOutcome::into_writer)
    }

    /// Becomes the writer now and not at the first write, of a table that admits one.
    ///
    /// # Errors
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy), or what the fabric says.
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.start_writing()?;
    /// let other = store.table("stock")?;
    /// assert!(other.put(b"pears", b"7").is_err(), "there is a writer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_writing(&self) -> Result<()> {
        self.change_writer(WriterChange::Start)
    }

    /// Becomes the writer in place of one that was killed, of a table that admits one. This waits
    /// as long as something that it had begun may still happen: two and a half seconds, or the
    /// [verb timeout](farslot_fabric::Limits::verb_timeout) if that is longer.
    ///
    /// In shared memory this is refused while the writer's process is alive, even if it is stopped;
    /// [`Table::force_take_over`] takes over all the same. A process may always take over from
    /// itself. Over a network, and from another PID namespace, nothing tells whether the writer is
    /// alive: take over from dead ones only. [`Table::force_take_over`] says what it may cost
    /// otherwise.
    ///
    /// # Errors
    /// [`WriterAlive`](farslot_index::IndexError::WriterAlive) names the process;
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy) if a third client was faster, or what
    /// the fabric says.
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.start_writing()?;
    /// let other = store.table("stock")?;
    /// other.take_over()?;
    /// other.put(b"pears", b"7")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_over(&self) -> Result<()> {
        self.change_writer(WriterChange::TakeOver)
    }

    /// Becomes the writer as [`Table::take_over`] does, whether or not the writer is alive.
    ///
    /// A writer that is alive, or was stopped and goes on, is refused every write from then on
    /// ([`ErrorKind::WriterBusy`](crate::ErrorKind::WriterBusy)), and what this client acknowledges
    /// stays. What else it may cost depends on how the other reaches the memory:
    ///
    /// - over TCP nothing: the node looks at who the writer is before it executes each write;
    /// - in shared memory, if the other was stopped in the nanoseconds between that look and the
    ///   write itself, the write can still overwrite one slot, and destroy a record that this
    ///   client has acknowledged;
    /// - over RDMA the same, if it was stopped between its look, up to a second and a half before,
    ///   and the NIC's taking the verbs: nobody can refuse them then.
    ///
    /// # Errors
    /// As [`Table::take_over`], without [`WriterAlive`](farslot_index::IndexError::WriterAlive).
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.start_writing()?;
    /// let other = store.table("stock")?;
    /// other.force_take_over()?;
    /// assert!(stock.put(b"pears", b"7").is_err(), "it is the writer no longer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_take_over(&self) -> Result<()> {
        self.change_writer(WriterChange::ForceTakeOver)
    }

    /// Whether the table can never change again, as far as this client knows.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).sealed())?;
    /// # let stock = store.table("stock")?;
    /// stock.build(&[(b"pears", b"7")])?;
    /// assert!(stock.is_sealed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.session.client().state().sealed
    }

    /// Fills an empty table with these records, and seals it: it can never change again. Places are
    /// found in local memory, so that this is much faster than putting, and the table can be
    /// fuller. Of several records of a key, the last stays where keys are unique. Returns how many
    /// stay.
    ///
    /// # Errors
    /// [`StoreError::NotBuildable`](crate::StoreError::NotBuildable) on a table that is neither
    /// cuckoo nor sealed; [`NotEmpty`](farslot_index::IndexError::NotEmpty),
    /// [`Full`](farslot_index::IndexError::Full), a record that does not fit,
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy) if another client builds or has begun
    /// to, or what the fabric says. Unless the fabric fails, the table is as empty then as it was.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).sealed())?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.build(&[(b"pears", b"7"), (b"plums", b"12")])?, 2);
    /// assert_eq!(stock.get(b"plums")?.as_deref(), Some(&b"12"[..]));
    /// assert!(stock.put(b"figs", b"1").is_err(), "it is sealed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(&self, records: &[(&[u8], &[u8])]) -> Result<u64> {
        let records = last_of_each_key(self.record.scheme.keys(), records);
        let built = self.build_deduplicated(&records);
        built.map_err(StoreError::in_doubt)?;
        Ok(records.len() as u64)
    }

    /// As [`Table::build`], with no key twice where keys are unique.
    pub(crate) fn build_deduplicated(&self, records: &[Record<'_>]) -> Result<()> {
        self.admin(Admin::Build(records)).map(drop)
    }

    /// What tells whether records have moved past a scan, of each partition; of the writer.
    pub(crate) fn moves(&self) -> Result<Vec<u64>> {
        self.admin(Admin::Moves).map(AdminOutcome::into_moves)
    }

    /// Is the table's writer no longer, until the next write. A CuckooDuo table that other `Table`s
    /// of this store write as well keeps its writer until the last of them resigns.
    ///
    /// # Errors
    /// What the fabric says; another client may then have to [take over](Table::take_over).
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.resign()?;
    /// // Another may write now.
    /// store.table("stock")?.put(b"plums", b"12")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resign(&self) -> Result<()> {
        self.change_writer(WriterChange::Resign)
    }

    /// Reports the counts, and lets another client be the writer. Dropping does the same, if it can
    /// be done at once, and does not say whether it was.
    ///
    /// # Errors
    /// What the fabric says; another client may then have to [take over](Table::take_over).
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.noted(self.session.client().close(None))
    }

    /// What this table's endpoint has counted.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// let before = stock.counters();
    /// stock.get(b"pears")?;
    /// let of_the_get = stock.counters().since(&before);
    /// assert_eq!(of_the_get.doorbells, 0, "memory of this process needs none");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn counters(&self) -> CounterSnapshot {
        self.session.client().endpoint().core().counters.snapshot()
    }

    /// Slots that one READ of a lookup fetches: in a linear table, of the next lookup.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.read_size() >= 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn read_size(&self) -> u64 {
        self.session.client().state().read_size
    }

    /// What this table's cache has done, and what it holds; zeros without one
    /// ([`OpenOptions::cache`](crate::OpenOptions::cache)). What it answers is no operation of
    /// [`Table::counters`]. Of a partition whose node came back empty, since it was made anew.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.cache_counts().hits, 0, "it has no cache");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        self.session.client().state().cache
    }

    /// Bytes of this process's memory that this table takes, or may take, beside its endpoint's
    /// buffers: for hints, a graph or an index, and answers.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// println!("{} bytes of hints and cached answers", stock.client_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        self.session.client().state().client_bytes
    }

    /// The endpoint's clock, in nanoseconds: virtual in a simulated store.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// let before = stock.now();
    /// stock.get(b"pears")?;
    /// println!("{} ns", stock.now() - before);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.session.now()
    }

    fn change_writer(&self, change: WriterChange) -> Result<()> {
        self.admin(Admin::ChangeWriter(change)).map(drop)
    }

    /// Asks a queue, and counts it as what it is nearest to of a table with keys.
    pub(crate) fn ask_queue(&self, request: QueueRequest<'_>) -> Result<AdminOutcome> {
        let asked = match request {
            QueueRequest::Push([value]) => SessionRequest::One(Operation::Put(&[], value)),
            QueueRequest::Push(values) => SessionRequest::Puts(values.len()),
            QueueRequest::Pop(_) => SessionRequest::One(Operation::Remove(&[])),
            QueueRequest::Front => SessionRequest::One(Operation::Get(&[])),
        };
        let since = self.session.now();
        let _under_way = self.session.begun(&asked);
        let outcome = self.session.client().admin(Admin::Queue(request));
        self.session.did(asked, since);
        self.noted(outcome)
    }

    /// Puts records as they were visited, of a queue in their order: all, or it says why not.
    pub(crate) fn put_back(&self, records: &[Record<'_>]) -> Result<()> {
        if !self.scheme().kind().has_keys() {
            return self.push_back(records.iter().map(|(_, value)| *value));
        }
        let put = self.put_many(records, |_, _| ());
        put.map_err(BatchError::into_first)
    }

    /// Asks the client for what is of no key.
    fn admin(&self, request: Admin<'_>) -> Result<AdminOutcome> {
        let since = self.session.now();
        let _under_way = self.session.begun(&SessionRequest::Admin);
        let outcome = self.session.client().admin(request);
        self.session.did(SessionRequest::Admin, since);
        self.noted(outcome)
    }

    /// The same result, its failure counted.
    pub(super) fn noted<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.session.failed(error))
    }
}
