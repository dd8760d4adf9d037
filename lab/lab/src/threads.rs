//! Work for all cores, with the laboratory's errors.

use crate::Result;
pub(crate) use farslot_bench::threads::on_each;

/// Does `count` jobs on as many threads as the machine has cores; returns what they gave, in order.
pub(crate) fn in_order<T: Send>(
    count: usize,
    job: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    farslot_bench::threads::in_order(count, job)
}
