//! What operations cost, as the endpoint counts it.

use farslot_fabric::{Endpoint, Executor, OperationClass, OperationCounters};

/// Runs something and says what its operations of a class have cost.
pub fn spent<E: Endpoint, R>(
    executor: &Executor<E>,
    class: OperationClass,
    run: impl Future<Output = R>,
) -> (OperationCounters, R) {
    let counters = || executor.endpoint().core().counters.snapshot();
    let before = counters();
    let result = executor.block_on(run);
    (counters().since(&before).operation(class), result)
}

/// Runs one operation of a class; its verbs and its round trips.
pub fn cost_of_one<E: Endpoint>(
    executor: &Executor<E>,
    class: OperationClass,
    run: impl Future<Output = ()>,
) -> (u64, u64) {
    let (spent, ()) = spent(executor, class, run);
    assert_eq!(spent.count, 1);
    (spent.verbs, spent.round_trips)
}

/// The most round trips that an operation of a class has taken so far.
pub fn most_round_trips<E: Endpoint>(executor: &Executor<E>, class: OperationClass) -> u32 {
    let counters = executor.endpoint().core().counters.snapshot();
    counters.operation(class).most_round_trips
}
