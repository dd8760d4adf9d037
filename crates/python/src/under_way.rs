//! The transactions of a thread.

use crate::failure::Failure;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the transaction that began last. There is none of number 0.
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The transactions that are under way in this thread.
    static KEPT: RefCell<Vec<ThreadTransaction>> = const { RefCell::new(Vec::new()) };
}

/// A transaction, kept for its thread.
struct ThreadTransaction {
    number: u64,
    /// Of the [`ActiveTransaction`] that has begun it. Another number there: it was given up.
    wanted: Arc<AtomicU64>,
    transaction: farslot::Transaction,
}

/// Which transaction is under way; any thread may know, and one has it.
#[derive(Default)]
pub(crate) struct ActiveTransaction(Arc<AtomicU64>);

impl Drop for ActiveTransaction {
    fn drop(&mut self) {
        drop(self.take());
        self.give_up();
    }
}

impl ActiveTransaction {
    fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether one is.
    pub(crate) fn is_any(&self) -> bool {
        self.number() != 0
    }

    /// Keeps a transaction for this thread.
    pub(crate) fn begin(
        &self,
        begin: impl FnOnce() -> Result<farslot::Transaction, Failure>,
    ) -> Result<(), Failure> {
        drop_given_up();
        let transaction = begin()?;
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.store(number, Ordering::Relaxed);
        let wanted = Arc::clone(&self.0);
        KEPT.with_borrow_mut(|all| {
            all.push(ThreadTransaction {
                number,
                wanted,
                transaction,
            });
        });
        Ok(())
    }

    /// Takes it, if it is this thread's. Another thread's stays under way there.
    pub(crate) fn take(&self) -> Result<farslot::Transaction, Failure> {
        drop_given_up();
        let number = self.number();
        let taken = KEPT.try_with(|all| {
            let mut all = all.borrow_mut();
            let at = all.iter().position(|kept| kept.number == number)?;
            Some(all.swap_remove(at).transaction)
        });
        // While the thread ends there is none.
        let taken = taken.ok().flatten().ok_or(Failure::NoTransaction)?;
        // Unless another thread has begun one with it meanwhile.
        let (was, none) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.0.compare_exchange(number, 0, was, none);
        Ok(taken)
    }

    /// It is not wanted any more, whichever thread has it: that drops it when it next begins or
    /// ends one.
    pub(crate) fn give_up(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Does something with it, in its thread.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut farslot::Transaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let number = self.number();
        KEPT.with_borrow_mut(|all| {
            let entry = all.iter_mut().find(|kept| kept.number == number);
            work(&mut entry.ok_or(Failure::NoTransaction)?.transaction)
        })
    }
}

/// Drops those of this thread that another thread has given up.
fn drop_given_up() {
    let given_up: Option<Vec<ThreadTransaction>> = KEPT
        .try_with(|all| {
            let is_given_up =
                |kept: &mut ThreadTransaction| kept.wanted.load(Ordering::Relaxed) != kept.number;
            all.borrow_mut().extract_if(.., is_given_up).collect()
        })
        .ok();
    drop(given_up);
}

/// Forgets what this process has from the one that it was forked from.
pub(crate) fn forget_all() {
    KEPT.with_borrow_mut(|all| std::mem::forget(std::mem::take(all)));
}
