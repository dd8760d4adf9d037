//! How transactions begin, and are run until they commit.

use crate::database::Database;
use crate::error::TxnError;
use crate::transaction::Transaction;
use farslot_fabric::{Endpoint, EndpointExt};
use rand::RngExt;

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
        let mut pause = self.options.first_pause;
        let mut attempts = 1;
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
                Err(error) if error.is_retryable() && attempts < self.options.attempts => {
                    attempts += 1;
                    let span = self.pauses.borrow_mut().random_range(0..=pause);
                    self.endpoint().sleep(span).await;
                    pause = pause.saturating_mul(2).min(self.options.longest_pause);
                }
                end => return end,
            }
        }
    }
}
