//! Transactions that a node's owner runs itself: one call each, reads and decision included.
//!
//! A procedure's keys all lie at its node. It runs in one turn, in which the owner answers no other
//! request; so all it reads was true at one moment, and nothing has to be validated. A key that
//! another transaction holds stops it, as it stops a client's. What it changes is kept until it
//! returns, then locked, changed and unlocked like the changes of a client's commit, for those who
//! READ one key and then another.

use crate::error::{ConflictCause, TxnError};
use crate::identity::TableId;
use crate::steps::Steps;
use crate::turn::{MALFORMED, RequestTurn};
use crate::wire::{OwnerStatus, Write, Writer};
use farslot_remote::{Lock, RemoteError};
use farslot_rpc::{Fault, RpcError};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Why a procedure is refused that waits for something.
const WAITS: u32 = 101;
/// Why one is refused that ended with an error of its own.
const FAILED: u32 = 102;

type Run = dyn Fn(&mut Local<'_>, &[u8]) -> Option<Result<Vec<u8>, TxnError>> + Send + Sync;

/// What a node's owner can run as a transaction, by number.
#[derive(Default)]
pub struct Procedures(BTreeMap<u16, Box<Run>>);

impl fmt::Debug for Procedures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Procedures {
    /// Has a procedure run for requests of this number, in place of the one before. It is given the
    /// request's bytes, and returns the reply's. It may wait for nothing but its own steps; and all
    /// that it does for one request, the whole node waits for.
    ///
    /// A procedure that returns an error has changed nothing.
    pub fn register(
        &mut self,
        number: u16,
        run: impl AsyncFn(&mut Local<'_>, &[u8]) -> Result<Vec<u8>, TxnError> + Send + Sync + 'static,
    ) {
        let once = move |local: &mut Local<'_>, input: &[u8]| {
            let mut cx = Context::from_waker(Waker::noop());
            match pin!(run(local, input)).poll(&mut cx) {
                Poll::Ready(end) => Some(end),
                Poll::Pending => None,
            }
        };
        self.0.insert(number, Box::new(once));
    }

    /// Runs a procedure as a transaction; returns its status and reply.
    pub(crate) fn execute(
        &self,
        turn: RequestTurn<'_>,
        (number, input): (u16, &[u8]),
        lock: Lock,
        room: usize,
    ) -> Result<Vec<u8>, Fault> {
        let run = self.0.get(&number).ok_or(Fault::Refused(MALFORMED))?;
        let mut local = Local {
            turn,
            changes: Vec::new(),
            stopped: None,
        };
        let end = run(&mut local, input).ok_or(Fault::Refused(WAITS))?;
        let end = match local.stopped.take() {
            // Whatever it made of that.
            Some(ProcedureStop::Fault(fault)) => return Err(fault),
            Some(ProcedureStop::ByOther(stopped)) => return Ok(stopped),
            None => end.map_err(|_| Fault::Refused(FAILED))?,
        };
        if room <= end.len() {
            return Err(Fault::NoRoom(end.len() + 1));
        }
        if let Some(stopped) = local.commit(lock)? {
            return Ok(stopped);
        }
        let mut reply = Writer(Vec::with_capacity(1 + end.len()));
        reply.byte(OwnerStatus::Done as u8).bytes(&end);
        Ok(reply.0)
    }
}

/// A transaction that a node's owner runs. Tables go by the numbers under which the node serves
/// them.
pub struct Local<'t> {
    turn: RequestTurn<'t>,
    changes: Vec<Change>,
    /// Why it cannot commit any more.
    stopped: Option<ProcedureStop>,
}

impl fmt::Debug for Local<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("changes", &self.changes.len())
            .finish_non_exhaustive()
    }
}

enum ProcedureStop {
    Fault(Fault),
    /// The reply that says who holds a key.
    ByOther(Vec<u8>),
}

/// What is to become of a key.
struct Change {
    object: u64,
    key: Vec<u8>,
    /// Its new value; nothing if it is removed.
    value: Option<Vec<u8>>,
}

impl Local<'_> {
    /// What a key has, by what this transaction has made of it.
    fn value(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        if self.stopped.is_some() {
            return Err(TxnError::Failed);
        }
        if let Some(at) = self.find(table.0, key) {
            return Ok(self.changes[at].value.clone());
        }
        let found = self.turn.peek(table.0, key);
        match found.map_err(|fault| self.stop(fault))? {
            (None, value) => Ok(value),
            (Some(by), _) => {
                self.stopped = Some(ProcedureStop::ByOther(stopped_by(
                    &self.turn, table.0, by, key,
                )));
                Err(TxnError::Conflict {
                    table,
                    key: key.to_vec(),
                    cause: ConflictCause::Locked { by },
                })
            }
        }
    }

    fn stop(&mut self, fault: Fault) -> TxnError {
        let reason = match fault {
            Fault::Refused(reason) => reason,
            Fault::NoRoom(_) | Fault::Damaged => MALFORMED,
        };
        self.stopped = Some(ProcedureStop::Fault(fault));
        TxnError::from(RpcError::Refused { method: 0, reason })
    }

    fn find(&self, object: u64, key: &[u8]) -> Option<usize> {
        let mut changes = self.changes.iter();
        changes.position(|change| change.object == object && change.key == key)
    }

    fn change(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<(), TxnError> {
        if self.stopped.is_some() {
            return Err(TxnError::Failed);
        }
        let structure = self.turn.table(table.0);
        let structure = structure.map_err(|fault| self.stop(fault))?;
        let lengths = [
            ("a key", key.len(), structure.key_bytes()),
            (
                "a value",
                value.map_or(0, <[u8]>::len),
                structure.value_bytes(),
            ),
        ];
        for (subject, bytes, limit) in lengths {
            let limit = limit.into();
            if bytes > limit {
                self.stop(Fault::Refused(MALFORMED));
                return Err(RemoteError::TooLong {
                    subject,
                    bytes,
                    limit,
                }
                .into());
            }
        }
        let value = value.map(<[u8]>::to_vec);
        match self.find(table.0, key) {
            Some(at) => self.changes[at].value = value,
            None => self.changes.push(Change {
                object: table.0,
                key: key.to_vec(),
                value,
            }),
        }
        Ok(())
    }

    /// Makes the changes; returns who is in the way, if somebody is.
    fn commit(mut self, lock: Lock) -> Result<Option<Vec<u8>>, Fault> {
        if self.changes.is_empty() {
            return Ok(None);
        }
        let writes = self.changes.iter().map(|change| Write {
            object: change.object,
            key: &change.key,
            value: change.value.as_deref(),
        });
        let writes: Vec<_> = writes.collect();
        let stopped = self.turn.change_all(lock, &writes)?.map(|(at, by)| {
            let Write { object, key, .. } = writes[at];
            stopped_by(&self.turn, object, by, key)
        });
        Ok(stopped)
    }
}

/// The reply that says who holds a key.
fn stopped_by(turn: &RequestTurn<'_>, object: u64, by: Lock, key: &[u8]) -> Vec<u8> {
    let mut reply = Writer::default();
    reply.byte(OwnerStatus::Locked as u8).word(object);
    let mut reply = Writer(turn.held_by(by, reply));
    reply.bytes(key);
    reply.0
}

impl Steps for Local<'_> {
    async fn read_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        keys.iter()
            .map(|(table, key)| self.value(*table, key))
            .collect()
    }

    async fn read_for_update(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        self.read_many(keys).await
    }

    async fn read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        self.value(table, key)
    }

    async fn write(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        self.change(table, key, Some(value))
    }

    async fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, TxnError> {
        let is_new = self.value(table, key)?.is_none();
        if is_new {
            self.change(table, key, Some(value))?;
        }
        Ok(is_new)
    }

    async fn remove(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxnError> {
        let was_there = self.value(table, key)?.is_some();
        if was_there {
            self.change(table, key, None)?;
        }
        Ok(was_there)
    }
}
