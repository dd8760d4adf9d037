//! A table for programs with many tasks: cloned freely, used from any thread, by futures that need
//! no runtime.

mod asking;
mod batch;
#[cfg(test)]
mod fault_tests;
mod in_place;
mod items;
mod opener;
mod queue;
mod shared;
#[cfg(test)]
mod tests;
mod worker;

pub use self::asking::Running;
use self::asking::{OwnedOperation, RequestFuture, RequestSource};
use self::batch::{Answer, Call, WorkerRequest};
use self::in_place::ThreadTables;
use self::opener::Opener;
use self::queue::Queue;
use self::shared::HandleInner;
use self::worker::Worker;
use crate::error::bad_option;
use crate::{FieldSize, KeyRange, Operation, Pair, Result, Store, StoreError, Table, Transaction};
use farslot_fabric::let_others_run;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How a [`Handle`] works, where the defaults do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleOptions {
    /// Threads, each with a [`Table`] of its own. A cuckoo table admits one writer: one thread.
    pub workers: usize,
    /// Requests that may wait for a worker. Futures of more wait for room before they are sent.
    pub queue: usize,
}

impl Default for HandleOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            queue: 4096,
        }
    }
}

/// A table as a program with many tasks uses it: clones share it, among threads too.
///
/// Requests go to threads of its own. Those of many tasks that wait for a worker leave together, as
/// one [`Table::get_many`] or [`Table::run_many`] of up to 256; so no task has to collect any. A
/// worker that has nothing to do looks for requests for 50 µs more before it sleeps. Where the
/// memory is mapped (`embedded`, `shm://`) and clients of the table take little of their own, the
/// thread that asks looks keys up itself, in a table that it keeps until it ends or the handle
/// does. A [`Table`] of one's own thread stays the fastest way to many keys at once. What [`Table`]
/// says of operations goes for these, too; of several that are under way for one key, which takes
/// effect first is unspecified.
///
/// A future does nothing before it is polled. If it is dropped before a worker has taken its
/// operation, the operation is never sent; if later, it is done once all the same. When the last
/// clone is dropped, or [`Handle::close`] was called, what was sent is done and the workers end.
///
/// ```
/// use farslot::{FieldSize, Handle, HandleOptions, Store, TableOptions};
///
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = std::pin::pin!(future);
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop {
/// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
/// #             return output;
/// #         }
/// #         std::thread::yield_now();
/// #     }
/// # }
/// # fn main() -> Result<(), farslot::StoreError> {
/// let store = Store::embedded()?;
/// store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
/// let stock = Handle::open(&store, "stock", HandleOptions::default())?;
/// # block_on(async {
/// let other = stock.clone();
/// assert!(other.put(b"pears", b"7").await?, "a new key");
/// assert_eq!(stock.get(b"pears").await?.as_deref(), Some(&b"7"[..]));
/// # stock.close().await;
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct Handle(Arc<HandleInner>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.0.opener.name;
        f.debug_struct("Handle")
            .field("table", name)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Opens a table for any number of tasks.
    ///
    /// # Errors
    /// As [`Store::table`]; [`BadOption`](crate::IndexError::BadOption) without workers or room;
    /// [`StoreError::Thread`] if a thread cannot be started.
    ///
    /// ```
    /// # use farslot::{Handle, HandleOptions, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("stock", &TableOptions::default())?;
    /// let options = HandleOptions {
    ///     workers: 2,
    ///     ..HandleOptions::default()
    /// };
    /// let stock = Handle::open(&store, "stock", options)?;
    /// assert_eq!(stock.name(), "stock");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(store: &Store, table: &str, options: HandleOptions) -> Result<Self> {
        let HandleOptions { workers, queue } = options;
        for (option, value) in [("workers", workers), ("queue", queue)] {
            if value == 0 {
                return Err(bad_option(option, value, "at least 1"));
            }
        }
        // An error in opening is told now, not by every operation.
        let opener = Arc::new(Opener::new(store, table));
        let opened = opener.open()?;
        let record_sizes = opened.scheme().record_sizes();
        let thread_tables = ThreadTables::of(&opener, &opened);
        opened.close()?;
        let queue = Arc::new(Queue::new(queue, workers));
        let handle = Self(Arc::new(HandleInner {
            queue: Arc::clone(&queue),
            opener: Arc::clone(&opener),
            record_sizes,
            thread_tables,
        }));
        let all = (0..workers).map(|_| Worker::new(Arc::clone(&queue), Arc::clone(&opener)));
        // All of them, so that one that is not started leaves the queue.
        let all: Vec<_> = all.collect();
        for worker in all {
            let thread = std::thread::Builder::new().name("farslot-handle".into());
            let started = thread.spawn(move || worker.run());
            started.map_err(|error| StoreError::Thread {
                reason: error.to_string(),
            })?;
        }
        Ok(handle)
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.opener.name
    }

    pub(crate) fn record_sizes(&self) -> (FieldSize, FieldSize) {
        self.0.record_sizes
    }

    /// Runs an operation, when there is room in the queue and a worker takes it. Its bytes are
    /// copied now.
    ///
    /// # Errors
    /// As the operation of a [`Table`]; [`StoreError::HandleClosed`];
    /// [`StoreError::WorkerPanicked`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// use farslot::{Operation, Outcome};
    /// let outcome = stock.run(Operation::Update(b"pears", b"8")).await?;
    /// if !outcome.is_changed() {
    ///     println!("no pears");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, operation: Operation<'_>) -> Running {
        Running::new(Arc::clone(&self.0), OwnedOperation::of(operation))
    }

    /// The same of bytes that stay where they are until they are sent.
    async fn ask(&self, source: impl RequestSource) -> Result<Answer> {
        RequestFuture::new(&self.0.queue, source).await
    }

    /// As [`Handle::run`], sent now, even if the future is never polled.
    ///
    /// # Errors
    /// [`StoreError::QueueFull`] and [`StoreError::HandleClosed`] at once.
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// use farslot::Operation;
    /// // Sent even if nobody waits for it.
    /// drop(stock.try_run(Operation::Put(b"pears", b"7"))?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_run(&self, operation: Operation<'_>) -> Result<Running> {
        let place = self.0.queue.try_push(WorkerRequest::Operation(operation))?;
        Ok(Running::sent(Arc::clone(&self.0), place))
    }

    /// The key's value, if the key is present.
    ///
    /// # Errors
    /// As [`Table::get`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let pears = stock.get(b"pears").await?;
    /// assert!(pears.is_none_or(|value| value.len() <= 8));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(tables) = &self.0.thread_tables
            && tables.prefetch(key)
        {
            // Other tasks have their turn while the memory is fetched.
            let_others_run().await;
            // Of the thread that the task is on now.
            if let Some(got) = tables.get(key) {
                return got;
            }
        }
        Ok(self.ask(Operation::Get(key)).await?.into_value())
    }

    /// Makes the key have this value; true if the key is new.
    ///
    /// # Errors
    /// As [`Table::put`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let is_new = stock.put(b"pears", b"7").await?;
    /// println!("{}", if is_new { "added" } else { "replaced" });
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.ask(Operation::Put(key, value)).await?.is_changed())
    }

    /// Makes the key have this value for so long, from when a worker puts it, as
    /// [`Table::put_for`].
    ///
    /// # Errors
    /// As [`Table::put_for`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn of(sessions: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// sessions.put_for(b"ada", b"logged in", Duration::from_secs(1_800)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_for(&self, key: &[u8], value: &[u8], time_to_live: Duration) -> Result<bool> {
        let put = self.ask(((key, value), time_to_live)).await?;
        Ok(put.is_changed())
    }

    /// The key's value, and how long it still has, as [`Table::get_with_time_to_live`]. It takes a
    /// worker by itself, as [`Handle::with`] does.
    ///
    /// # Errors
    /// As [`Table::get_with_time_to_live`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(sessions: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// if let Some((_value, Some(left))) = sessions.get_with_time_to_live(b"ada").await? {
    ///     println!("it expires in {left:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_with_time_to_live(
        &self,
        key: &[u8],
    ) -> Result<Option<(Vec<u8>, Option<Duration>)>> {
        let key = key.to_vec();
        self.try_with(move |table| table.get_with_time_to_live(&key))
            .await
    }

    /// Lets the key live so long from now on, or for ever, as [`Table::set_time_to_live`]. It takes
    /// a worker by itself, as [`Handle::with`] does.
    ///
    /// # Errors
    /// As [`Table::set_time_to_live`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(sessions: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let is_there = sessions.set_time_to_live(b"ada", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_time_to_live(
        &self,
        key: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<bool> {
        let key = key.to_vec();
        self.try_with(move |table| table.set_time_to_live(&key, time_to_live))
            .await
    }

    /// Puts the value if the key is absent, else answers with the value that is there.
    ///
    /// # Errors
    /// As [`Table::find_or_put`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// match stock.find_or_put(b"pears", b"7").await? {
    ///     Some(_there) => println!("somebody was first"),
    ///     None => println!("put"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self
            .ask(Operation::FindOrPut(key, value))
            .await?
            .into_value())
    }

    /// Replaces the key's value if it is `expected`, as [`Table::compare_and_set`].
    ///
    /// # Errors
    /// As [`Table::compare_and_set`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// if !stock.compare_and_set(b"pears", Some(b"7"), b"8").await? {
    ///     println!("somebody else wrote");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool> {
        let Some(expected) = expected else {
            return Ok(self.find_or_put(key, value).await?.is_none());
        };
        let operation = Operation::Replace(key, expected, value);
        Ok(self.ask(operation).await?.is_changed())
    }

    /// Removes the key; false if it was absent.
    ///
    /// # Errors
    /// As [`Table::remove`] and [`Handle::run`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let was_there = stock.remove(b"pears").await?;
    /// println!("{was_there}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.ask(Operation::Remove(key)).await?.is_changed())
    }

    /// Does something else with a worker's table: visits it, counts, adds to numbers. Meanwhile
    /// that worker does nothing else.
    ///
    /// # Errors
    /// As [`Handle::run`], besides what the closure returns; [`StoreError::WorkerPanicked`] if the
    /// closure panics.
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let sold = stock.with(|table| table.increment(b"sold", 1)).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Table) -> T + Send + 'static,
    ) -> Result<T> {
        self.call(|table| (call(table), Ok(()))).await
    }

    /// As [`Handle::with`], of a call that can fail. A failure that means that the table is gone
    /// has the worker open it again before it does anything else, as that of an operation has.
    ///
    /// # Errors
    /// As [`Handle::with`], and what the closure fails with.
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let sold = stock.try_with(|table| table.increment(b"sold", 1)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Table) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let call = |table: &Table| {
            let done = call(table);
            let met = done.as_ref().map(drop).map_err(Clone::clone);
            (done, met)
        };
        self.call(call).await?
    }

    /// Has a worker do something with its table, and told what failure it has met, if that may mean
    /// that the table is to be opened again.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Table) -> (T, Result<()>) + Send + 'static,
    ) -> Result<T> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let call = move |table: &Table| {
            let (done, met) = call(table);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            met
        };
        let call: Option<Call> = Some(Box::new(call));
        self.ask(call).await?;
        let mut place = result.lock().unwrap_or_else(PoisonError::into_inner);
        place.take().ok_or(StoreError::WorkerPanicked)
    }

    /// Runs a transaction over any tables of the store, as [`Store::transaction`]. It takes a
    /// worker by itself, as [`Handle::with`] does.
    ///
    /// # Errors
    /// As [`Store::transaction`] and [`Handle::with`].
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let has_sold = stock.transaction(|t| {
    ///     let was_there = t.remove("stock", b"pear 7")?;
    ///     t.insert("sold", b"pear 7", b"2026-11-29")?;
    ///     Ok(was_there)
    /// });
    /// println!("{}", if has_sold.await? { "sold" } else { "there was none" });
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.0.opener.store.clone();
        self.with(move |_| store.transaction(body)).await?
    }

    /// The first `most` pairs of a range of the table's keys, if it is an ordered one, as they were
    /// at one moment. It takes a worker by itself, as [`Handle::with`] does.
    ///
    /// # Errors
    /// As [`Transaction::scan`] and [`Handle::with`].
    ///
    /// ```no_run
    /// # async fn of(ledger: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// use farslot::KeyRange;
    /// let latest = ledger.scan(KeyRange::default().reversed(), 10).await?;
    /// assert!(latest.is_sorted_by(|(a, _), (b, _)| a > b));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scan(&self, range: impl Into<KeyRange<'_>>, most: usize) -> Result<Vec<Pair>> {
        let KeyRange {
            from,
            to,
            is_reversed,
        } = range.into();
        let (from, to) = (from.to_vec(), to.map(<[u8]>::to_vec));
        let opener = Arc::clone(&self.0.opener);
        let scan = move |t: &mut Transaction| {
            let range = KeyRange {
                from: &from,
                to: to.as_deref(),
                is_reversed,
            };
            t.scan(&opener.name, range, most)
        };
        self.transaction(scan).await
    }

    /// Takes no more operations, of no clone: they fail with [`StoreError::HandleClosed`]. The
    /// future ends when all that were sent before are done and the workers' tables are closed;
    /// that goes on without it, too.
    ///
    /// ```no_run
    /// # async fn of(stock: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// stock.close().await;
    /// assert!(stock.get(b"pears").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) -> Closing {
        self.0.close();
        Closing(Arc::clone(&self.0.queue))
    }
}

/// The end of a [`Handle`].
#[derive(Debug)]
#[must_use = "the handle is closed already; this tells when its workers have ended"]
pub struct Closing(Arc<Queue>);

impl Future for Closing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_end(context)
    }
}
