//! The handle of a queue: pushes and pops of many tasks.

use super::Handle;
use crate::{Result, Table};

impl Handle {
    /// Adds an item to the queue that the table is, as [`Queue::push`](crate::Queue::push). It
    /// takes a worker by itself, as [`Handle::with`] does; so do all that follow.
    ///
    /// # Errors
    /// As [`Queue::push`](crate::Queue::push) and [`Handle::run`];
    /// [`StoreError::NoQueue`](crate::StoreError::NoQueue) if the table is none.
    ///
    /// ```no_run
    /// # async fn of(jobs: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// jobs.push(b"resize photo 17").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn push(&self, item: &[u8]) -> Result<u64> {
        let item = item.to_vec();
        let push = move |table: &Table| table.push_all(&[&item]);
        self.try_with(push).await
    }

    /// Takes the first item of the queue that the table is, as [`Queue::pop`](crate::Queue::pop). A
    /// future that is dropped when a worker has begun takes the item along.
    ///
    /// # Errors
    /// As [`Handle::push`].
    ///
    /// ```no_run
    /// # async fn of(jobs: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// while let Some(job) = jobs.pop().await? {
    ///     println!("{}", String::from_utf8_lossy(&job));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop(&self) -> Result<Option<Vec<u8>>> {
        let pop = |table: &Table| Ok(table.pop_many(1)?.pop());
        self.try_with(pop).await
    }

    /// The first item of the queue that the table is, which stays.
    ///
    /// # Errors
    /// As [`Handle::push`].
    ///
    /// ```no_run
    /// # async fn of(jobs: farslot::Handle) -> Result<(), farslot::StoreError> {
    /// let is_idle = jobs.front().await?.is_none();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn front(&self) -> Result<Option<Vec<u8>>> {
        self.try_with(Table::front).await
    }
}
