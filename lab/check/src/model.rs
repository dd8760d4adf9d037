//! What a sequential specification is.

use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification: what each operation returns and does when nothing else runs.
///
/// The check partitions a history by [`Key`](SequentialModel::Key) and judges each part from its
/// own [`init`](SequentialModel::init). A specification whose operations touch several keys (a
/// transaction, say) takes `Key = ()` and keeps the keys in its state.
pub trait SequentialModel {
    /// What histories are partitioned by: no operation may touch another key's state.
    type Key: Clone + Ord + Debug;
    /// The state of one key.
    type State: Clone + Eq + Hash + Debug;
    /// An operation with its arguments.
    type Op: PartialEq + Debug;
    /// What an operation returns.
    type Ret: Debug;

    /// The state of `key` before the history's first operation.
    fn init(&self, key: &Self::Key) -> Self::State;

    /// The state after `op`, run alone in `state`, returned `ret`; `None` if it would not return
    /// that.
    ///
    /// Without a `ret` the operation's result is unknown and anything it could return is allowed:
    /// the state after it, had it taken effect, or `None` if it could not run in `state` at all.
    fn step(
        &self,
        state: &Self::State,
        op: &Self::Op,
        ret: Option<&Self::Ret>,
    ) -> Option<Self::State>;

    /// Whether `op`, wherever it returned `ret`, left the state as it was.
    ///
    /// Saying so for reads saves much of the search; `false` is always right.
    fn only_reads(&self, op: &Self::Op, ret: &Self::Ret) -> bool {
        let _ = (op, ret);
        false
    }

    /// The operation and, if known, its result, as a counterexample shows them.
    fn describe(&self, op: &Self::Op, ret: Option<&Self::Ret>) -> String {
        match ret {
            Some(ret) => format!("{op:?} -> {ret:?}"),
            None => format!("{op:?}"),
        }
    }
}
