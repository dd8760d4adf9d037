//! The specification of a table with unique keys.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

use crate::SequentialModel;

/// An operation on one key of a table with unique keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TableOp<V> {
    /// Reads the key's value.
    Get,
    /// Sets the key's value, whether or not the key is present.
    Put(V),
    /// Sets the value if the key is absent, and otherwise returns the one it has.
    FindOrPut(V),
    /// Sets the value if the key is present.
    Update(V),
    /// Sets the second value if the key has the first.
    Replace(V, V),
    /// Removes the key.
    Remove,
    /// Removes the key if it has this value.
    RemoveIf(V),
}

/// What a [`TableOp`] returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TableRet<V> {
    /// [`TableOp::Get`]: the value, or `None` if the key was absent.
    Got(Option<V>),
    /// [`TableOp::Put`]: the value is set.
    Put {
        /// Whether the key was absent before; `None` if the table does not tell.
        inserted: Option<bool>,
    },
    /// [`TableOp::FindOrPut`]: the key was present, with this value.
    Found(V),
    /// [`TableOp::FindOrPut`]: the key was absent and has the new value now.
    Inserted,
    /// [`TableOp::Update`]: whether the key was present. [`TableOp::Replace`]: whether it had the
    /// value.
    Updated(bool),
    /// [`TableOp::Remove`]: whether the key was present. [`TableOp::RemoveIf`]: whether it had the
    /// value.
    Removed(bool),
}

/// The specification of a table with unique keys: each key is a register that may be empty.
///
/// A result of another operation's kind (a `Get` that returns `Removed`) is never accepted. An
/// operation that failed has no result here: see [`History::in_doubt`](crate::History::in_doubt)
/// and [`History::no_effect`](crate::History::no_effect).
#[derive(Clone, Debug)]
pub struct RegisterMap<K, V> {
    initial: BTreeMap<K, V>,
    forgets: bool,
}

impl<K, V> RegisterMap<K, V> {
    /// A table that starts empty.
    pub fn new() -> Self {
        RegisterMap {
            initial: BTreeMap::new(),
            forgets: false,
        }
    }

    /// The same of a table that evicts: any key may become absent at any time.
    #[must_use]
    pub fn that_forgets(self) -> Self {
        RegisterMap {
            forgets: true,
            ..self
        }
    }
}

impl<K, V> Default for RegisterMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for RegisterMap<K, V> {
    /// A table that starts with these entries.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        RegisterMap {
            initial: entries.into_iter().collect(),
            forgets: false,
        }
    }
}

impl<K, V: PartialEq> RegisterMap<K, V> {
    /// Whether an operation may have this result where the key has this value, if any.
    fn fits(state: &Option<V>, op: &TableOp<V>, ret: Option<&TableRet<V>>) -> bool {
        use TableRet::{Found, Got, Inserted, Put, Removed, Updated};
        let present = state.is_some();
        match (op, ret) {
            (_, None) => true,
            (TableOp::Get, Some(Got(value))) => value == state,
            (TableOp::Put(_), Some(Put { inserted })) => inserted.is_none_or(|new| new != present),
            (TableOp::FindOrPut(_), Some(Found(value))) => state.as_ref() == Some(value),
            (TableOp::FindOrPut(_), Some(Inserted)) => !present,
            (TableOp::Update(_), Some(Updated(was))) => *was == present,
            (TableOp::Replace(expected, _), Some(Updated(was))) => {
                *was == (state.as_ref() == Some(expected))
            }
            (TableOp::Remove, Some(Removed(was))) => *was == present,
            (TableOp::RemoveIf(expected), Some(Removed(was))) => {
                *was == (state.as_ref() == Some(expected))
            }
            (_, Some(_)) => false,
        }
    }
}

impl<K, V> SequentialModel for RegisterMap<K, V>
where
    K: Clone + Ord + Debug,
    V: Clone + Eq + Hash + Debug,
{
    type Key = K;
    type State = Option<V>;
    type Op = TableOp<V>;
    type Ret = TableRet<V>;

    fn init(&self, key: &K) -> Option<V> {
        self.initial.get(key).cloned()
    }

    fn step(
        &self,
        state: &Option<V>,
        op: &TableOp<V>,
        ret: Option<&TableRet<V>>,
    ) -> Option<Option<V>> {
        // What a result does not tell is left as it is: it may be forgotten later as well.
        let forgotten = || self.forgets.then_some(&None);
        let state = [Some(state), forgotten()].into_iter().flatten();
        let state = state.into_iter().find(|state| Self::fits(state, op, ret))?;
        let present = state.is_some();
        Some(match op {
            TableOp::Get => state.clone(),
            TableOp::Put(value) => Some(value.clone()),
            TableOp::FindOrPut(value) => Some(state.as_ref().unwrap_or(value).clone()),
            TableOp::Update(value) => present.then(|| value.clone()),
            TableOp::Replace(expected, value) if state.as_ref() == Some(expected) => {
                Some(value.clone())
            }
            TableOp::RemoveIf(expected) if state.as_ref() != Some(expected) => state.clone(),
            TableOp::Replace(..) => state.clone(),
            TableOp::Remove | TableOp::RemoveIf(_) => None,
        })
    }

    fn only_reads(&self, _: &TableOp<V>, ret: &TableRet<V>) -> bool {
        use TableRet::{Found, Got, Removed, Updated};
        match ret {
            Got(Some(_)) | Found(_) => true,
            // What forgets may have forgotten by then.
            Got(None) | Updated(false) | Removed(false) => !self.forgets,
            _ => false,
        }
    }

    fn describe(&self, op: &TableOp<V>, ret: Option<&TableRet<V>>) -> String {
        let call = match op {
            TableOp::Get => "get".to_owned(),
            TableOp::Put(value) => format!("put {value:?}"),
            TableOp::FindOrPut(value) => format!("find_or_put {value:?}"),
            TableOp::Update(value) => format!("update {value:?}"),
            TableOp::Replace(expected, value) => format!("replace {expected:?} by {value:?}"),
            TableOp::Remove => "remove".to_owned(),
            TableOp::RemoveIf(expected) => format!("remove if {expected:?}"),
        };
        let result = match ret {
            None => return call,
            Some(TableRet::Got(None)) => "absent".to_owned(),
            Some(TableRet::Updated(false) | TableRet::Removed(false)) => "not done".to_owned(),
            Some(TableRet::Got(Some(value))) => format!("{value:?}"),
            Some(TableRet::Put { inserted: None }) => "ok".to_owned(),
            Some(
                TableRet::Put {
                    inserted: Some(true),
                }
                | TableRet::Inserted,
            ) => "inserted".to_owned(),
            Some(TableRet::Put {
                inserted: Some(false),
            }) => "replaced".to_owned(),
            Some(TableRet::Found(value)) => format!("found {value:?}"),
            Some(TableRet::Updated(true) | TableRet::Removed(true)) => "done".to_owned(),
        };
        format!("{call} -> {result}")
    }
}
