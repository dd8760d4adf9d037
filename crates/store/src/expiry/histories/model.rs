//! What a table does whose records end.

use farslot_check::{RegisterMap, SequentialModel, TableOp, TableRet};

/// The number of a time to live that a record was given: no other of a run has it.
pub(super) type Life = u32;

/// An operation on one key.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ExpiryOperation {
    /// A put of it stays; a replacement ends when what it replaces would have.
    Table(TableOp<u64>),
    PutFor(u64, Life),
    /// What is there lives as long as this, or for ever.
    Live(Option<Life>),
    /// The moment has come at which a life ends: that of the record that has it, if one has it
    /// still.
    End(Life),
}

/// What it has returned.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ret {
    Table(TableRet<u64>),
    /// Of a put, whether there was certainly no record; of a record that is to live, whether there
    /// was one.
    Is(bool),
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct State {
    record: Option<(u64, Option<Life>)>,
    /// The lives that have begun: none ends before.
    begun: u128,
}

/// A table that starts empty.
pub(super) struct EndingMap(pub(super) RegisterMap<u64, u64>);

impl SequentialModel for EndingMap {
    type Key = u64;
    type State = State;
    type Op = ExpiryOperation;
    type Ret = Ret;

    fn init(&self, _: &u64) -> State {
        State::default()
    }

    fn step(&self, state: &State, op: &ExpiryOperation, ret: Option<&Ret>) -> Option<State> {
        let State { record, begun } = *state;
        let is = match ret {
            Some(Ret::Is(is)) => Some(*is),
            _ => None,
        };
        match op {
            ExpiryOperation::Table(op) => {
                let ret = match ret {
                    Some(Ret::Table(ret)) => Some(ret),
                    _ => None,
                };
                let value = record.map(|(value, _)| value);
                let value = self.0.step(&value, op, ret)?;
                let keeps = !matches!(op, TableOp::Put(_));
                let life = record.filter(|_| keeps).and_then(|(_, life)| life);
                let record = value.map(|value| (value, life));
                Some(State { record, begun })
            }
            ExpiryOperation::PutFor(..) if is == Some(true) && record.is_some() => None,
            ExpiryOperation::PutFor(value, life) => Some(State {
                record: Some((*value, Some(*life))),
                begun: begun | 1 << life,
            }),
            ExpiryOperation::Live(_) if is.is_some_and(|is| is != record.is_some()) => None,
            ExpiryOperation::Live(life) => Some(match (record, life) {
                (None, _) => state.clone(),
                (Some((value, _)), life) => State {
                    record: Some((value, *life)),
                    begun: begun | life.map_or(0, |life| 1 << life),
                },
            }),
            ExpiryOperation::End(life) if begun & 1 << life == 0 => None,
            ExpiryOperation::End(life) => Some(State {
                record: record.filter(|(_, of)| *of != Some(*life)),
                begun,
            }),
        }
    }

    fn only_reads(&self, op: &ExpiryOperation, ret: &Ret) -> bool {
        match (op, ret) {
            (ExpiryOperation::Table(op), Ret::Table(ret)) => self.0.only_reads(op, ret),
            (ExpiryOperation::Live(_), Ret::Is(is)) => !is,
            _ => false,
        }
    }
}
