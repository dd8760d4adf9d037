//! The transactions of a thread.

use crate::failure::Failure;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the transaction that began last. There is none of number 0.
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The transactions that are under way in this thread, by their numbers.
    static UNDER_WAY: RefCell<Vec<(u64, farslot::Transaction)>> =
        const { RefCell::new(Vec::new()) };
}

/// Keeps a transaction for this thread; its number.
pub(crate) fn keep(transaction: farslot::Transaction) -> u64 {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    UNDER_WAY.with_borrow_mut(|all| all.push((number, transaction)));
    number
}

/// Takes a transaction of this thread.
pub(crate) fn take(number: u64) -> Result<farslot::Transaction, Failure> {
    let taken = UNDER_WAY.try_with(|all| {
        let mut all = all.borrow_mut();
        let at = all.iter().position(|(other, _)| *other == number)?;
        Some(all.swap_remove(at).1)
    });
    // While the thread ends there is none.
    taken.ok().flatten().ok_or(Failure::NoTransaction)
}

/// Forgets what this process has from the one that it was forked from.
pub(crate) fn forget_all() {
    UNDER_WAY.with_borrow_mut(|all| std::mem::forget(std::mem::take(all)));
}

/// Does something with a transaction of this thread.
pub(crate) fn with<T>(
    number: u64,
    work: impl FnOnce(&mut farslot::Transaction) -> Result<T, Failure>,
) -> Result<T, Failure> {
    UNDER_WAY.with_borrow_mut(|all| {
        let own = all.iter_mut().find(|(other, _)| *other == number);
        let (_, transaction) = own.ok_or(Failure::NoTransaction)?;
        work(transaction)
    })
}
