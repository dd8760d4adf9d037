//! How transactions begin, and are run until they commit.

use crate::database::Database;
use crate::error::TxnError;
use crate::transaction::Transaction;
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use rand::RngExt;
use std::ops::Deref;

impl<E: Endpoint> Database<E> {
    /// Begins a transaction (paper 003, table 2). It holds nothing until it locks its first key.
    pub fn begin(&self) -> Transaction<'_, E> {
        Transaction::new(self, self.options.locking)
    }

    /// Runs a transaction until it commits: conflicts are retried, after pauses that grow and are
    /// drawn at random. A `body` that has called [`Transaction::abort`] is done without a commit.
    ///
    /// # Errors
    /// The last error, if it is not retryable or
    /// [`DatabaseOptions::attempts`](crate::DatabaseOptions::attempts) are used up.
    pub async fn run<T>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction<'_, E>) -> Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        let mut pauses = Pauses::new(self);
        loop {
            let mut transaction = self.begin();
            let end = match body(&mut transaction).await {
                Ok(done) if transaction.is_ended() => return Ok(done),
                Ok(done) => transaction.commit().await.map(|()| done),
                Err(error) => {
                    transaction.abort().await;
                    Err(error)
                }
            };
            match end {
                Err(error) if pauses.has_another_after(&error) => pauses.pause().await,
                end => return end,
            }
        }
    }

    /// Has the owner of a node run one of its [procedures](crate::Procedures) as a transaction, by
    /// one call; resolves to what it returns, of at most `room` bytes. Conflicts are retried as by
    /// [`Database::run`].
    ///
    /// # Errors
    /// [`TxnError::InDoubt`]: run as a whole or not at all. All others: nothing is changed.
    /// [`RpcError::Refused`](farslot_rpc::RpcError::Refused) if the node has no such procedure, or
    /// it ended with an error.
    pub async fn execute(
        &self,
        node: u8,
        procedure: u16,
        input: &[u8],
        room: usize,
    ) -> Result<Reply, TxnError> {
        let mut pauses = Pauses::new(self);
        loop {
            match self.execute_at(node, (procedure, input), room).await {
                Err(error) if pauses.has_another_after(&error) => pauses.pause().await,
                end => return end.map(Reply),
            }
        }
    }
}

/// What a procedure has returned.
#[derive(Debug)]
pub struct Reply(farslot_rpc::Reply);

impl Deref for Reply {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // Behind the status, which was read.
        &self.0[1..]
    }
}

/// The attempts of one transaction.
struct Pauses<'d, E> {
    database: &'d Database<E>,
    attempts: u32,
    longest: Nanos,
}

impl<'d, E: Endpoint> Pauses<'d, E> {
    fn new(database: &'d Database<E>) -> Self {
        Self {
            database,
            attempts: 1,
            longest: database.options.first_pause,
        }
    }

    fn has_another_after(&self, error: &TxnError) -> bool {
        error.is_retryable() && self.attempts < self.database.options.attempts
    }

    async fn pause(&mut self) {
        self.attempts += 1;
        let retries = &self.database.retries;
        retries.set(retries.get() + 1);
        let span = self
            .database
            .pauses
            .borrow_mut()
            .random_range(0..=self.longest);
        self.database.endpoint().sleep(span).await;
        let most = self.database.options.longest_pause;
        self.longest = self.longest.saturating_mul(2).min(most);
    }
}
