//! How transactions begin, and are run until they commit.

use crate::database::{Database, Locking};
use crate::error::TxnError;
use crate::transaction::{DatabaseHandle, Transaction};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use rand::RngExt;
use std::ops::Deref;
use std::rc::Rc;

impl<E: Endpoint> Database<E> {
    /// Begins a transaction (paper 003, table 2). It holds nothing until it locks its first key.
    pub fn begin(&self) -> Transaction<'_, E> {
        self.begin_locking(self.options.locking)
    }

    /// As [`Database::begin`], of one that locks in another way than the others.
    pub fn begin_locking(&self, locking: Locking) -> Transaction<'_, E> {
        Transaction::new(DatabaseHandle::Borrowed(self), locking)
    }

    /// As [`Database::begin_locking`], of one that goes on for as long as its holder likes.
    pub fn begin_shared(self: &Rc<Self>, locking: Locking) -> Transaction<'static, E> {
        Transaction::new(DatabaseHandle::Shared(Rc::clone(self)), locking)
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
        let mut pauses = Attempts::new(self);
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
        let mut pauses = Attempts::new(self);
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

/// The attempts of one transaction, for who runs it step by step: [`Database::run`] has its own.
pub struct Attempts<'d, E> {
    database: &'d Database<E>,
    attempts: u32,
    longest: Nanos,
}

impl<'d, E: Endpoint> Attempts<'d, E> {
    /// Those of a transaction that begins now.
    #[must_use]
    pub fn new(database: &'d Database<E>) -> Self {
        Self {
            database,
            attempts: 1,
            longest: database.options.first_pause,
        }
    }

    /// Whether a transaction that has failed with this is run again.
    #[must_use]
    pub fn has_another_after(&self, error: &TxnError) -> bool {
        error.is_retryable() && self.attempts < self.database.options.attempts
    }

    /// How often it has failed.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.attempts - 1
    }

    /// Pauses before it is run again.
    pub async fn pause(&mut self) {
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
