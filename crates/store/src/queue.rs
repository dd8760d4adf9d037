//! Queues: what is pushed and popped.

use crate::{Result, Store, StoreError, Table, TableRecord};
use farslot_index::{AdminOutcome, IndexError, QueueRequest};
use farslot_remote::queue::{MOST_BYTES, MOST_ITEMS};
use std::rc::Rc;

/// Bytes of an item in a call beside its own.
const BESIDE: usize = 4;

/// A FIFO queue, as one thread has it: a table of the scheme
/// [`queue`](crate::TableOptions::queue).
///
/// Each push and each pop is one call to the node that the queue lies on, which executes it at most
/// once. One that fails has done nothing, unless
/// [`may_have_taken_effect`](crate::StoreError::may_have_taken_effect) says that this is unknown:
/// then the item may be in the queue, or may have been taken by the pop that has no answer.
///
/// It takes no part in transactions, and lies on one node however many the store has.
///
/// ```
/// # use farslot::{FieldSize, Store, TableOptions};
/// # fn main() -> Result<(), farslot::StoreError> {
/// let store = Store::embedded()?;
/// store.create("jobs", &TableOptions::new(1_000).values(FieldSize::UpTo(100)).queue())?;
/// let jobs = store.queue("jobs")?;
/// jobs.push(b"resize photo 17")?;
/// jobs.push(b"resize photo 18")?;
/// assert_eq!(jobs.pop()?.as_deref(), Some(&b"resize photo 17"[..]));
/// assert_eq!(jobs.len()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Queue {
    table: Rc<Table>,
}

impl Store {
    /// Opens a queue for this thread.
    ///
    /// # Errors
    /// [`StoreError::NoQueue`] if the table is of another scheme; as [`Store::table`].
    pub fn queue(&self, name: &str) -> Result<Queue> {
        Queue::of(self.table(name)?)
    }
}

impl Queue {
    /// The queue that a table is which is open.
    ///
    /// # Errors
    /// [`StoreError::NoQueue`] if the table is of another scheme.
    pub fn of(table: impl Into<Rc<Table>>) -> Result<Self> {
        let table = table.into();
        table.check_queue()?;
        Ok(Self { table })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.table.name()
    }

    /// The queue as the catalog knows it.
    #[must_use]
    pub fn record(&self) -> &TableRecord {
        self.table.record()
    }

    /// Adds an item behind all others; returns how many were added before it.
    ///
    /// # Errors
    /// [`StoreError::FullQueue`]; an item that does not fit; what the fabric says.
    pub fn push(&self, item: &[u8]) -> Result<u64> {
        self.push_all(&[item])
    }

    /// Adds items one behind the other, all or none, by one call; returns how many were added
    /// before the first of them. At most 1,024, and where there are several of at most 64 KiB
    /// together, 4 bytes more for each.
    ///
    /// # Errors
    /// As [`Queue::push`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("jobs", &TableOptions::new(3).values(FieldSize::UpTo(100)).queue())?;
    /// # let jobs = store.queue("jobs")?;
    /// jobs.push_all(&[b"one", b"two"])?;
    /// assert!(jobs.push_all(&[b"three", b"four"]).is_err(), "it has room for three");
    /// assert_eq!(jobs.pop_many(10)?, [b"one", b"two"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn push_all(&self, items: &[&[u8]]) -> Result<u64> {
        self.table.push_all(items)
    }

    /// Takes the first item; nothing of an empty queue.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn pop(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.pop_many(1)?.pop())
    }

    /// Takes the first items, at most so many and no more than 1,024 or about 64 KiB, by one call.
    /// None at all of an empty queue alone.
    ///
    /// # Errors
    /// As [`Queue::pop`].
    pub fn pop_many(&self, most: u32) -> Result<Vec<Vec<u8>>> {
        self.table.pop_many(most)
    }

    /// The first item, which stays; nothing of an empty queue. Mostly by one READ.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("jobs", &TableOptions::new(3).values(FieldSize::UpTo(100)).queue())?;
    /// # let jobs = store.queue("jobs")?;
    /// assert_eq!(jobs.front()?, None);
    /// jobs.push(b"one")?;
    /// assert_eq!(jobs.front()?.as_deref(), Some(&b"one"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn front(&self) -> Result<Option<Vec<u8>>> {
        self.table.front()
    }

    /// How many items there are.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn len(&self) -> Result<u64> {
        Ok(self.table.occupancy()?.entries)
    }

    /// Whether there is no item.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Visits the items from the front on, which stay. One that is there all along is visited once,
    /// in its place; those that are pushed meanwhile are not.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        self.table.for_each(|_, item| visit(item))
    }

    /// Ends the use of the queue, and of the table unless others use that.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn close(self) -> Result<()> {
        Rc::try_unwrap(self.table).map_or(Ok(()), Table::close)
    }
}

/// A table that is a queue; any other refuses.
impl Table {
    fn check_queue(&self) -> Result<()> {
        let scheme = self.scheme();
        if !scheme.kind().has_keys() {
            return Ok(());
        }
        let (name, scheme) = (self.name().into(), scheme.name());
        Err(StoreError::NoQueue { name, scheme })
    }

    pub(crate) fn pop_many(&self, most: u32) -> Result<Vec<Vec<u8>>> {
        self.check_queue()?;
        let popped = self.ask_queue(QueueRequest::Pop(most));
        popped.map(AdminOutcome::into_items)
    }

    pub(crate) fn front(&self) -> Result<Option<Vec<u8>>> {
        self.check_queue()?;
        let front = self.ask_queue(QueueRequest::Front);
        Ok(front?.into_items().pop())
    }

    pub(crate) fn push_all(&self, items: &[&[u8]]) -> Result<u64> {
        self.check_queue()?;
        match self.ask_queue(QueueRequest::Push(items)) {
            Err(StoreError::Index(IndexError::Full { slots: limit, .. })) => {
                let name = self.name().into();
                Err(StoreError::FullQueue { name, limit })
            }
            pushed => pushed.map(AdminOutcome::into_position),
        }
    }

    /// Pushes items in their order, however many there are: as many at a time as a call takes.
    pub(crate) fn push_back<'i>(&self, items: impl Iterator<Item = &'i [u8]>) -> Result<()> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for item in items {
            if batch.len() == MOST_ITEMS || bytes + BESIDE + item.len() > MOST_BYTES {
                self.push_batch(&mut batch)?;
                bytes = 0;
            }
            bytes += BESIDE + item.len();
            batch.push(item);
        }
        self.push_batch(&mut batch)
    }

    fn push_batch(&self, batch: &mut Vec<&[u8]>) -> Result<()> {
        if !batch.is_empty() {
            self.push_all(batch)?;
            batch.clear();
        }
        Ok(())
    }
}
