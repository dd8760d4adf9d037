//! How transactions end at a node's owner: finished or aborted there, and what became of them where
//! they are decided.

use crate::notes::BookChange;
use crate::turn::{OTHER_PLACE, RequestTurn};
use crate::wire::{OwnerStatus, UNFINISHED_BYTES, Write, Writer};
use farslot_fabric::Rights;
use farslot_remote::Lock;
use farslot_rpc::Fault;
use std::collections::BTreeSet;

/// What is done between two changes.
type GoOn<T> = fn(&mut T) -> Result<(), Fault>;

impl RequestTurn<'_> {
    /// Makes a part's changes, as far as they can be made, and unlocks what the transaction holds
    /// here. What was dropped meanwhile has no changes.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn apply(&mut self, lock: Lock, writes: &[Write<'_>]) -> Result<(), Fault> {
        self.apply_with(lock, writes, Self::stay_in_turn)
    }

    fn apply_with(
        &mut self,
        lock: Lock,
        writes: &[Write<'_>],
        go_on: GoOn<Self>,
    ) -> Result<(), Fault> {
        let held = self.books.held.get(&lock.word());
        let keys = held.into_iter().flat_map(|held| held.keys.keys());
        let tables: BTreeSet<_> = keys.map(|(object, _)| *object).collect();
        let mut first_fault = Ok(());
        // Of others nothing is locked.
        for write in writes.iter().filter(|write| tables.contains(&write.object)) {
            let done = match self.find(write.object, self.needed, true) {
                Ok(Some(table)) => {
                    let changed = table.change(self.memory, write.key, lock, write.value);
                    changed.map(drop)
                }
                Ok(None) => Ok(()),
                Err(fault) => Err(fault),
            };
            first_fault = first_fault.and(done);
            go_on(self)?;
        }
        first_fault.and(self.release_with(lock, go_on))
    }

    /// Makes the changes of a part of a transaction that its home has decided, for a client that
    /// may change all that the transaction holds here. What is decided need not be done in one
    /// turn: of what is left, another finds the locks.
    pub(crate) fn finish(&mut self, lock: Lock, writes: &[Write<'_>]) -> Result<(), Fault> {
        self.check_held(lock)?;
        self.apply_with(lock, writes, Self::begin_turn_if_long)
    }

    /// Unlocks what a client's transaction holds here: of tables that the client may change.
    pub(crate) fn abort(&mut self, lock: Lock) -> Result<(), Fault> {
        self.check_held(lock)?;
        self.release_in_turns(lock)
    }

    /// Refuses a client that may not change all that a transaction holds here.
    fn check_held(&self, lock: Lock) -> Result<(), Fault> {
        let held = self.books.held.get(&lock.word());
        let keys = held.into_iter().flat_map(|held| held.keys.keys());
        for (object, _) in keys {
            self.find(*object, self.needed, true)?;
        }
        Ok(())
    }

    /// Unlocks what a transaction still holds here, of tables that are still there.
    ///
    /// # Errors
    /// The first fault; what can be unlocked is.
    pub(crate) fn release(&mut self, lock: Lock) -> Result<(), Fault> {
        self.release_with(lock, Self::stay_in_turn)
    }

    /// The same of one that changes nothing here, in as many turns as that takes.
    ///
    /// # Errors
    /// As [`Self::release`].
    pub(crate) fn release_in_turns(&mut self, lock: Lock) -> Result<(), Fault> {
        self.release_with(lock, Self::begin_turn_if_long)
    }

    fn release_with(&mut self, lock: Lock, go_on: GoOn<Self>) -> Result<(), Fault> {
        let mut first_fault = Ok(());
        while let Some(((object, key), promised)) = self.books.take_held(lock.word()) {
            let unlocked = match self.find(object, Rights::NONE, true) {
                Ok(Some(table)) => table.unlock(self.memory, &key, lock, promised),
                Ok(None) => Ok(()),
                Err(fault) => Err(fault),
            };
            first_fault = first_fault.and(unlocked);
            go_on(self)?;
        }
        if self.books.release(lock.word()) {
            let lock = lock.word();
            BookChange::Released { lock }.put(self.memory);
        }
        first_fault
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is one of two ways to go on")]
    const fn stay_in_turn(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Goes on in another turn where this one may soon have no room for more. The books are noted
    /// as they are by then.
    fn begin_turn_if_long(&mut self) -> Result<(), Fault> {
        if !self.memory.is_turn_long() {
            return Ok(());
        }
        self.books.note_all(self.memory);
        let ended = self.memory.end_turn();
        self.memory.begin_turn();
        ended.map_err(|_| {
            self.books.is_known = false;
            Fault::Damaged
        })
    }

    pub(crate) fn resolve(&mut self, lock: Lock, node: u8, room: usize) -> Result<Vec<u8>, Fault> {
        // A home that has lost its memory does not know yet that it is one.
        if self.books.names.is_some() && !self.is_home_of(lock) {
            return Err(Fault::Refused(OTHER_PLACE));
        }
        if let Some(decided) = self.books.decided.get(&lock.word()) {
            if !self.speaks_for(decided.grant.as_deref()) {
                return Ok(vec![OwnerStatus::Running as u8]);
            }
            let part = decided.parts.iter().find(|(of, _)| *of == node);
            let part = part.map_or(&[][..], |(_, part)| part);
            if room <= part.len() {
                return Err(Fault::NoRoom(part.len() + 1));
            }
            let mut reply = Writer::default();
            reply.byte(OwnerStatus::Done as u8).bytes(part);
            return Ok(reply.0);
        }
        if !self.is_over(lock) {
            return Ok(vec![OwnerStatus::Running as u8]);
        }
        self.give_up(lock)?;
        Ok(vec![OwnerStatus::Aborted as u8])
    }

    pub(crate) fn forget(&mut self, lock: Lock, node: Option<u8>) {
        let decided = self.books.decided.get(&lock.word());
        let grant = decided.and_then(|decided| decided.grant.as_deref());
        if decided.is_none() || !self.speaks_for(grant) {
            return;
        }
        if let Some(mut decided) = self.books.take_decided(lock.word()) {
            decided
                .parts
                .retain(|(of, _)| node.is_some_and(|node| *of != node));
            let noted = BookChange::Decided {
                lock: lock.word(),
                grant: decided.grant.as_deref(),
                parts: &decided.parts,
            };
            noted.put(self.memory);
            if !decided.parts.is_empty() {
                self.books.decide(lock.word(), decided);
            }
        }
    }

    /// As many as there is room for.
    pub(crate) fn unfinished(&self, room: usize) -> Vec<u8> {
        let lease = self.owner.options.lease;
        let old = self.books.decided.iter();
        let old = old.filter(|(_, decided)| {
            let is_old = decided.since.saturating_add(lease) < self.now;
            is_old && self.speaks_for(decided.grant.as_deref())
        });
        let parts = old.flat_map(|(lock, decided)| {
            let nodes = decided.parts.iter();
            nodes.map(move |(node, _)| (*lock, *node))
        });
        let mut reply = Writer::default();
        reply.byte(OwnerStatus::Done as u8);
        for (lock, node) in parts.take(room.saturating_sub(1) / UNFINISHED_BYTES) {
            reply.word(lock).byte(node);
        }
        reply.0
    }
}
