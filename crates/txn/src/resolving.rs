//! What a client does about locks of others: it asks their home what became of them.

use crate::database::{Database, read};
use crate::error::{ConflictCause, TxnError};
use crate::identity::{TableId, home_of};
use crate::turn::OTHER_PLACE;
use crate::wire::{
    HOLDER_BYTES, LockHolder, OwnerRequest, OwnerStatus, TransactionHome, read_unfinished,
};
use farslot_fabric::Endpoint;
use farslot_remote::{DENIED, Lock, RemoteError};
use farslot_rpc::RpcError;

/// Room for a part of a transaction, in bytes: what servers take in a request unless they are told
/// otherwise.
const PART_ROOM: usize = 64 << 10;

impl<E: Endpoint> Database<E> {
    /// Finishes transactions which had their home at a node, and whose clients stopped before they
    /// had applied all their parts. Whoever meets a lock of theirs does the same for that lock;
    /// this is for those that nobody meets. Returns the parts that were finished.
    ///
    /// # Errors
    /// The first that any node fails with. Parts of other nodes are finished all the same.
    pub async fn recover(&self, node: u8) -> Result<usize, TxnError> {
        let reply = self
            .call(node, &OwnerRequest::Unfinished, PART_ROOM)
            .await?;
        let (_, rest) = read(&reply)?;
        let parts = read_unfinished(rest).ok_or(RemoteError::BadReply)?;
        let mut first_error = Ok(());
        for (lock, part) in &parts {
            let limit = self.nodes.len();
            let nodes = usize::from(*part) + 1;
            if nodes > limit {
                first_error = first_error.and(Err(TxnError::BadNodes { nodes, limit }));
                continue;
            }
            let by = LockHolder {
                lock: *lock,
                is_over: true,
                home: self.home_at(node, *part),
            };
            let end = self.resolve(by, *part).await;
            first_error = first_error.and(end);
        }
        first_error.map(|()| parts.len())
    }

    /// The error for a key that another holds. If the lease of that lock is over, it is seen to
    /// first.
    pub(crate) async fn conflict(&self, table: TableId, key: &[u8], by: LockHolder) -> TxnError {
        let seen_to = async {
            match by.is_over {
                true => self.resolve(by, self.table(table)?.node).await,
                false => Ok(()),
            }
        };
        match seen_to.await {
            Err(error) => error,
            Ok(()) => TxnError::Conflict {
                table,
                key: key.to_vec(),
                cause: ConflictCause::Locked { by: by.lock },
            },
        }
    }

    /// As [`Self::conflict`], of a lock that was seen: its node is asked of it.
    pub(crate) async fn conflict_with(&self, table: TableId, key: &[u8], by: Lock) -> TxnError {
        match self.inquire(table, key, by).await {
            Ok(holder) => self.conflict(table, key, holder).await,
            Err(error) => error,
        }
    }

    async fn inquire(
        &self,
        table: TableId,
        key: &[u8],
        lock: Lock,
    ) -> Result<LockHolder, TxnError> {
        let served = self.table(table)?;
        let request = OwnerRequest::Inquire {
            lock,
            object: served.object.0,
            key,
        };
        let reply = self.call(served.node, &request, HOLDER_BYTES).await?;
        let (status, mut rest) = read(&reply)?;
        let holder = rest.holder().ok_or(RemoteError::BadReply)?;
        let is_over = status == OwnerStatus::Locked;
        Ok(LockHolder { is_over, ..holder })
    }

    /// Asks a transaction's home what became of it, and has a node finish or release its part.
    /// Nothing becomes of one whose home this client does not know, or for whose client it may not
    /// speak: then it stays a conflict.
    pub(crate) async fn resolve(&self, by: LockHolder, node: u8) -> Result<(), TxnError> {
        match self.try_resolve(by, node).await {
            Err(TxnError::Remote(RemoteError::Rpc(RpcError::Refused {
                reason: DENIED | OTHER_PLACE,
                ..
            }))) => Ok(()),
            end => end,
        }
    }

    async fn try_resolve(
        &self,
        LockHolder { lock, home, .. }: LockHolder,
        node: u8,
    ) -> Result<(), TxnError> {
        let Some(place) = home_of(lock) else {
            // No transaction took it.
            return self.release(node, lock).await;
        };
        let Some(at) = self.find_home(place, home, node) else {
            return Ok(());
        };
        let mut room = PART_ROOM;
        let reply = loop {
            match self
                .call(
                    at,
                    &OwnerRequest::Resolve {
                        lock,
                        node: home.at,
                    },
                    room,
                )
                .await
            {
                Err(RpcError::NoRoom { bytes, .. }) if bytes > room => room = bytes,
                end => break end?,
            }
        };
        let (status, part) = read(&reply)?;
        match status {
            // Which part is this node's nobody has told: it is finished by those who ask the home
            // for all that is left of it.
            OwnerStatus::Done if !home.is_told() => {}
            OwnerStatus::Done => {
                self.finish(node, lock, part.0).await?;
                self.call(
                    at,
                    &OwnerRequest::Forget {
                        lock,
                        node: home.at,
                    },
                    1,
                )
                .await?;
            }
            OwnerStatus::Aborted => self.release(node, lock).await?,
            _ => {}
        }
        Ok(())
    }

    /// Where the home of a transaction is that holds something at a node: the node that is what the
    /// home was when the transaction took its lock; else the one that is at the home's place now,
    /// if that has come back and lost its memory. A home that this client does not list is nowhere.
    fn find_home(&self, place: u8, home: TransactionHome, node: u8) -> Option<u8> {
        let nodes = 0..self.nodes.len() as u8;
        let is_it = |at: &u8| home.incarnation != 0 && self.incarnation(*at) == home.incarnation;
        if let Some(at) = nodes.clone().find(is_it) {
            return Some(at);
        }
        // The node that has the lock has not lost its memory.
        let is_same_list = !home.is_told() || usize::from(home.nodes) == self.nodes.len();
        (nodes.contains(&place) && is_same_list && place != node).then_some(place)
    }

    /// What is told of a transaction's home with its locks.
    pub(crate) fn home(&self, lock: Lock, at: u8) -> TransactionHome {
        home_of(lock).map_or(TransactionHome::default(), |home| self.home_at(home, at))
    }

    fn home_at(&self, node: u8, at: u8) -> TransactionHome {
        TransactionHome {
            incarnation: self.incarnation(node),
            nodes: self.nodes.len() as u8,
            at,
        }
    }

    fn incarnation(&self, node: u8) -> u64 {
        let member = self.nodes.get(usize::from(node));
        member.map_or(0, |member| {
            let (node, _) = member.client.to();
            let info = member.client.endpoint().node(node);
            info.map_or(0, |info| info.incarnation)
        })
    }
}
