//! What a node's owner does for a transaction in one request's turn.

use crate::books::{Books, Decided, MOST_NOTED, Owner, TransactionLocks};
#[cfg(test)]
use crate::broken::ProtocolBreach;
use crate::identity::{Names, home_of};
use crate::kept::{Asked, CHANGES, Kept, KeyState, Structure};
use crate::notes::BookChange;
use crate::wire::{
    HOLDER_BYTES, KeyVersion, LockHolder, OwnerStatus, TransactionHome, Write, Writer, put_limit,
    writes_of,
};
use farslot_fabric::{Caller, Nanos, OwnerMemory, Rights};
use farslot_remote::chained::Table;
use farslot_remote::{DENIED, Lock, NO_OBJECT, ObjectId};
use farslot_rpc::{Fault, Request};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::MutexGuard;

/// Why a request of a transaction is refused.
pub(crate) const MALFORMED: u32 = 100;
/// Why a client is refused that wants names where all are handed out.
const NO_NAMES: u32 = 103;
/// Why one is refused that has the node at another place of its list than others whose transactions
/// are not over.
pub(crate) const OTHER_PLACE: u32 = 104;

/// One request's turn: none other changes the tables or the books meanwhile.
pub(crate) struct RequestTurn<'t> {
    pub(crate) owner: &'t Owner,
    pub(crate) books: MutexGuard<'t, Books>,
    pub(crate) memory: &'t mut dyn OwnerMemory,
    pub(crate) now: Nanos,
    caller: &'t dyn Caller,
    /// The rights that the caller needs to each table.
    pub(crate) needed: Rights,
    /// Tables that were found in this turn, for these rights.
    found: SmallVec<[(u64, Rights, Structure); 2]>,
}

impl<'t> RequestTurn<'t> {
    pub(crate) fn new(owner: &'t Owner, request: &'t mut Request<'_>, needed: Rights) -> Self {
        Self {
            owner,
            books: owner.books(&mut *request.memory, request.now),
            memory: &mut *request.memory,
            now: request.now,
            caller: request.caller,
            needed,
            found: SmallVec::new(),
        }
    }

    /// A table for the caller.
    pub(crate) fn table(&mut self, object: u64) -> Result<Structure, Fault> {
        self.table_for(object, self.needed)
    }

    fn table_for(&mut self, object: u64, needed: Rights) -> Result<Structure, Fault> {
        let mut known = self.found.iter();
        let known = known.find(|(id, rights, _)| *id == object && rights.allow(needed));
        if let Some((.., table)) = known {
            return Ok(*table);
        }
        let table = self.find(object, needed, false)?;
        let table = table.ok_or(Fault::Refused(NO_OBJECT))?;
        self.found.push((object, needed, table));
        Ok(table)
    }

    /// A table for the caller; for what ends a transaction also one that was renamed or closed
    /// meanwhile.
    pub(crate) fn find(
        &self,
        object: u64,
        needed: Rights,
        ends: bool,
    ) -> Result<Option<Structure>, Fault> {
        let asked = Asked {
            memory: self.memory,
            caller: self.caller,
            needed,
            ends,
        };
        let found = self.owner.tables.find(ObjectId(object), asked)?;
        Ok(found.and_then(Kept::keyed))
    }

    /// Whether the caller is of this grant, or may do anything here.
    pub(crate) fn speaks_for(&self, grant: Option<&str>) -> bool {
        let all = || self.caller.check(0..self.memory.bytes(), CHANGES).is_ok();
        self.caller.grant() == grant || all()
    }

    /// Names a client's next transactions. A client that has the node at another place of its list
    /// than those before it is given names while no transaction of theirs is under way here: their
    /// names are none any more.
    pub(crate) fn open(&mut self, node: u8) -> Result<Vec<u8>, Fault> {
        if matches!(&self.books.names, Some((place, _)) if *place != node) {
            self.forget_dropped()?;
            if !(self.books.held.is_empty() && self.books.decided.is_empty()) {
                return Err(Fault::Refused(OTHER_PLACE));
            }
            self.books.names = None;
            self.books.moves += 1;
        }
        let books = &mut *self.books;
        // No two lives of a place begin alike.
        let since = self.now ^ books.moves << 48;
        let names = || (node, Names::new(node, since, self.owner.options.decisions));
        let (place, names) = books.names.get_or_insert_with(names);
        let first = names.block().ok_or(Fault::Refused(NO_NAMES))?;
        let noted = BookChange::Names {
            place: *place,
            moves: books.moves,
            names: names.words(),
        };
        noted.put(self.memory);
        let mut reply = Writer::default();
        reply.byte(OwnerStatus::Done as u8).word(first.word());
        Ok(reply.0)
    }

    /// Forgets transactions that hold nothing but keys of tables that are gone: nobody meets them.
    fn forget_dropped(&mut self) -> Result<(), Fault> {
        let held = self.books.held.iter();
        let held = held.map(|(lock, held)| {
            let tables = held.keys.keys().map(|(object, _)| *object);
            (*lock, tables.collect::<Vec<_>>())
        });
        for (lock, tables) in held.collect::<Vec<_>>() {
            let mut is_gone = true;
            for object in tables {
                is_gone &= self.find(object, Rights::NONE, true)?.is_none();
            }
            if is_gone {
                self.books.release(lock);
                BookChange::Released { lock }.put(self.memory);
            }
        }
        Ok(())
    }

    pub(crate) fn lock(
        &mut self,
        (lock, home): (Lock, TransactionHome),
        may_open: bool,
        (object, key): (u64, &[u8]),
        room: usize,
    ) -> Result<Vec<u8>, Fault> {
        let table = self.table(object)?;
        // Status, presence, version, and the longest value; before anything is changed.
        let most = HOLDER_BYTES.max(10 + usize::from(table.value_bytes()));
        if room < most {
            return Err(Fault::NoRoom(most));
        }
        if self.crowd().is_some() {
            self.give_up_late(lock)?;
        }
        let held = self.books.held.get(&lock.word());
        match held {
            Some(held) if !self.speaks_for(held.grant.as_deref()) => {
                return Err(Fault::Refused(DENIED));
            }
            None if !may_open => return Ok(vec![OwnerStatus::Aborted as u8]),
            _ => {}
        }
        if let Some((bytes, limit)) = self.crowd() {
            let own = held.map_or(0, TransactionLocks::bytes);
            return Ok(match own > MOST_NOTED / 2 {
                true => put_limit(OwnerStatus::TooLarge, own, MOST_NOTED / 2),
                false => put_limit(OwnerStatus::Crowded, bytes, limit),
            });
        }
        let mut reply = Writer::default();
        let taken = self.take(lock, object, key)?;
        if let Some(held) = self.books.held.get_mut(&lock.word())
            && held.home != home
        {
            held.home = home;
            let lock = lock.word();
            BookChange::IsAtHome { lock, home }.put(self.memory);
        }
        match taken {
            Ok(found) => {
                let is_there = found.value.is_some();
                reply.byte(OwnerStatus::Done as u8).byte(is_there.into());
                reply.word(found.version.unwrap_or(0));
                reply.bytes(&found.value.unwrap_or_default());
                Ok(reply.0)
            }
            Err(by) => {
                reply.byte(OwnerStatus::Locked as u8);
                Ok(self.held_by(by, reply))
            }
        }
    }

    /// Whether a transaction that holds nothing here may lock something. Its home alone keeps it
    /// from that.
    pub(crate) fn may_begin(&self, lock: Lock, at_home: bool) -> bool {
        #[cfg(test)]
        if self.owner.breach == Some(ProtocolBreach::NoNote) {
            return true;
        }
        let names = self.books.names.as_ref();
        !(at_home || self.is_home_of(lock)) || names.is_some_and(|(_, names)| names.may_begin(lock))
    }

    pub(crate) fn is_home_of(&self, lock: Lock) -> bool {
        let names = self.books.names.as_ref();
        names.is_some_and(|(place, _)| home_of(lock) == Some(*place))
    }

    /// Locks a key for a transaction, or tells who holds it: nobody whose lease is over and whose
    /// home is here.
    fn take(
        &mut self,
        lock: Lock,
        object: u64,
        key: &[u8],
    ) -> Result<Result<KeyState, Lock>, Fault> {
        let table = self.table(object)?;
        if let Some(by) = table.look(self.memory, key)?.lock
            && by != lock
        {
            self.inquire(by, object, key)?;
        }
        let found = table.try_lock(self.memory, key, lock)?;
        match found.lock {
            Some(by) if by == lock => {
                self.hold(lock, object, &found.held, found.promised);
                Ok(Ok(found))
            }
            Some(by) => Ok(Err(by)),
            None => Err(Fault::Damaged),
        }
    }

    /// Commits a transaction that has nothing to do elsewhere, and holds no lock: nothing else
    /// happens here meanwhile. What it changes is locked before the first change is made, for those
    /// who READ one key and then another.
    pub(crate) fn commit(
        &mut self,
        lock: Lock,
        reads: &[KeyVersion<'_>],
        writes: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let writes = writes_of(writes).ok_or(Fault::Refused(MALFORMED))?;
        let about = |status: OwnerStatus, at: usize| {
            let mut reply = Writer::default();
            reply.byte(status as u8).half(at as u16);
            reply
        };
        self.check_unheld(lock)?;
        #[cfg(test)]
        let reads = if self.owner.is_blind() { &[] } else { reads };
        for (at, seen) in reads.iter().enumerate() {
            let now = self.look_for(Rights::READ, seen.object, seen.key)?;
            if let Some(by) = now.lock {
                return Ok(self.held_by(by, about(OwnerStatus::Locked, at)));
            }
            if now.version != seen.version {
                return Ok(about(OwnerStatus::Changed, at).0);
            }
        }
        Ok(match self.change_all(lock, &writes)? {
            None => vec![OwnerStatus::Done as u8],
            Some((at, by)) => self.held_by(by, about(OwnerStatus::Locked, reads.len() + at)),
        })
    }

    /// Makes changes in this turn, of a transaction that holds no lock, if nobody holds a key of
    /// theirs; else returns which, and who.
    pub(crate) fn change_all(
        &mut self,
        lock: Lock,
        writes: &[Write<'_>],
    ) -> Result<Option<(usize, Lock)>, Fault> {
        #[cfg(test)]
        let at_once = !self.owner.is_blind() && self.change_at_once(lock, writes)?;
        #[cfg(not(test))]
        let at_once = self.change_at_once(lock, writes)?;
        if at_once {
            return Ok(None);
        }
        let end = self.take_all(lock, writes);
        if matches!(end, Ok(None)) {
            self.apply(lock, writes)?;
            return Ok(None);
        }
        self.release(lock)?;
        Ok(Some(end?.ok_or(Fault::Damaged)?))
    }

    /// As [`Self::change_all`], without a note in the books, which nobody reads within a turn.
    /// Returns `false`, and has changed nothing, where it cannot: of keys of maps, and of those
    /// that another holds.
    fn change_at_once(&mut self, lock: Lock, writes: &[Write<'_>]) -> Result<bool, Fault> {
        let mut tables = SmallVec::<[Table; 4]>::new();
        for write in writes {
            match self.table(write.object)? {
                Structure::Chained(table) => tables.push(table),
                Structure::Ordered(_) => return Ok(false),
            }
        }
        // Who READs sees one change or none.
        if let ([write], [table]) = (writes, &tables[..]) {
            return table.change_unlocked(self.memory, write.key, write.value);
        }
        let mut end = Ok(true);
        let mut locked = 0;
        while let (Ok(true), Some(write)) = (&end, writes.get(locked)) {
            let table = &tables[locked];
            end = match table.try_lock(self.memory, write.key, lock) {
                _ if write.value.unwrap_or(&[]).len() > table.shape().value_bytes.into() => {
                    Err(Fault::Refused(MALFORMED))
                }
                Ok(seen) => Ok(seen.lock == Some(lock)),
                Err(fault) => Err(fault),
            };
            locked += 1;
        }
        for (write, table) in writes.iter().zip(&tables).take(locked) {
            match end {
                Ok(true) => drop(table.commit(self.memory, write.key, lock, write.value)?),
                // Of the last, which another holds, this unlocks nothing.
                _ => drop(table.unlock(self.memory, write.key, lock)?),
            }
        }
        end
    }

    /// Locks keys until one cannot be; returns which, and who holds it.
    pub(crate) fn take_all(
        &mut self,
        lock: Lock,
        writes: &[Write<'_>],
    ) -> Result<Option<(usize, Lock)>, Fault> {
        for (at, write) in writes.iter().enumerate() {
            let table = self.table(write.object)?;
            if write.value.unwrap_or(&[]).len() > table.value_bytes().into() {
                return Err(Fault::Refused(MALFORMED));
            }
            if let Err(by) = self.take(lock, write.object, write.key)? {
                return Ok(Some((at, by)));
            }
        }
        Ok(None)
    }

    /// What a key has, and who holds it, as [`Self::look`] tells.
    pub(crate) fn peek(
        &mut self,
        object: u64,
        key: &[u8],
    ) -> Result<(Option<Lock>, Option<Vec<u8>>), Fault> {
        if let Structure::Chained(table) = self.table(object)? {
            let (lock, value) = table.peek(self.memory, key)?;
            if lock.is_none() {
                return Ok((lock, value));
            }
        }
        let found = self.look(object, key)?;
        Ok((found.lock, found.value))
    }

    /// Refuses a name of a transaction that holds something here: of one that commits by one call
    /// it is none.
    pub(crate) fn check_unheld(&self, lock: Lock) -> Result<(), Fault> {
        match self.books.held.contains_key(&lock.word()) {
            true => Err(Fault::Refused(MALFORMED)),
            false => Ok(()),
        }
    }

    /// What a key has, and who holds it: nobody whose lease is over and whose home is here.
    pub(crate) fn look(&mut self, object: u64, key: &[u8]) -> Result<KeyState, Fault> {
        self.look_for(self.needed, object, key)
    }

    fn look_for(&mut self, needed: Rights, object: u64, key: &[u8]) -> Result<KeyState, Fault> {
        let table = self.table_for(object, needed)?;
        let seen = table.look(self.memory, key)?;
        match seen.lock {
            Some(by) if self.inquire_in(table, by, object, key)? == OwnerStatus::Done => {
                table.look(self.memory, key)
            }
            _ => Ok(seen),
        }
    }

    /// A reply that tells who holds a key, and whether that lock's lease is over.
    pub(crate) fn held_by(&self, by: Lock, mut reply: Writer) -> Vec<u8> {
        let held = self.books.held.get(&by.word());
        reply.holder(LockHolder {
            lock: by,
            is_over: self.is_over(by),
            home: held.map_or(TransactionHome::default(), |held| held.home),
        });
        reply.0
    }

    /// Notes that a transaction has something locked here; its lease runs from the first on.
    fn hold(&mut self, lock: Lock, object: u64, held: &[u8], promised: u64) {
        let until = self.now.saturating_add(self.owner.options.lease);
        let caller = self.caller;
        let begin = || TransactionLocks {
            until,
            home: TransactionHome::default(),
            grant: caller.grant().map(Box::from),
            keys: BTreeMap::new(),
        };
        let is_new = self
            .books
            .hold(lock.word(), (object, held), promised, begin);
        if let Some(held_by) = self.books.held.get(&lock.word())
            && (is_new || promised > 0)
        {
            let noted = BookChange::Holds {
                lock: lock.word(),
                home: held_by.home,
                grant: held_by.grant.as_deref(),
                object,
                held,
                promised,
            };
            noted.put(self.memory);
        }
    }

    pub(crate) fn is_over(&self, lock: Lock) -> bool {
        let held = self.books.held.get(&lock.word());
        held.is_none_or(|held| held.until < self.now)
    }

    pub(crate) fn inquire(
        &mut self,
        lock: Lock,
        object: u64,
        key: &[u8],
    ) -> Result<OwnerStatus, Fault> {
        let table = self.table(object)?;
        self.inquire_in(table, lock, object, key)
    }

    fn inquire_in(
        &mut self,
        table: Structure,
        lock: Lock,
        object: u64,
        key: &[u8],
    ) -> Result<OwnerStatus, Fault> {
        let found = table.look(self.memory, key)?;
        if found.lock != Some(lock) {
            return Ok(OwnerStatus::Done);
        }
        // A lock that is not in the books: its lease runs from now on.
        if !self.books.held.contains_key(&lock.word()) {
            self.hold(lock, object, &found.held, 0);
        }
        if !self.is_over(lock) {
            return Ok(OwnerStatus::Running);
        }
        // One that no transaction took has no home, and nobody else is to be asked.
        if home_of(lock).is_none() || self.is_home_of(lock) {
            self.give_up(lock)?;
            return Ok(OwnerStatus::Done);
        }
        Ok(OwnerStatus::Locked)
    }

    /// Breaks the locks of a transaction that is not decided, at its home. It can never commit from
    /// here on, however late its calls come: its locks are gone, and it may take none again.
    pub(crate) fn give_up(&mut self, lock: Lock) -> Result<(), Fault> {
        if let Some((_, names)) = &mut self.books.names
            && let Some(place) = names.give_up(lock)
        {
            BookChange::GivenUp { place }.put(self.memory);
        }
        self.release_in_turns(lock)
    }

    /// Breaks the locks of all transactions but one that have this node as home and whose lease is
    /// over: of keys that nobody wants, perhaps for ever.
    fn give_up_late(&mut self, but: Lock) -> Result<(), Fault> {
        let held = self.books.held.keys();
        let held: Vec<_> = held.filter_map(|word| Lock::of_word(*word)).collect();
        for lock in held.into_iter().filter(|lock| *lock != but) {
            if self.is_over(lock) && self.is_home_of(lock) {
                self.give_up(lock)?;
            }
        }
        Ok(())
    }

    /// Commits, if no lock was lost: the one moment at which a transaction comes into effect.
    pub(crate) fn decide(
        &mut self,
        lock: Lock,
        home_part: &[u8],
        other_parts: &[(u8, &[u8])],
    ) -> Result<OwnerStatus, Fault> {
        let writes = writes_of(home_part).ok_or(Fault::Refused(MALFORMED))?;
        #[cfg(test)]
        if self.owner.is_blind() {
            return self.decide_blindly(&writes);
        }
        // Those who meet its locks ask at the place that its name says.
        let held = self.books.held.get(&lock.word());
        let Some(held) = held.filter(|_| self.is_home_of(lock)) else {
            return Ok(OwnerStatus::Aborted);
        };
        if !self.speaks_for(held.grant.as_deref()) {
            return Err(Fault::Refused(DENIED));
        }
        for write in &writes {
            let table = self.table(write.object)?;
            let value = write.value.unwrap_or(&[]);
            if value.len() > table.value_bytes().into() {
                return Err(Fault::Refused(MALFORMED));
            }
            if table.look(self.memory, write.key)?.lock != Some(lock) {
                return Ok(OwnerStatus::Aborted);
            }
        }
        if !other_parts.is_empty() {
            let parts = other_parts
                .iter()
                .map(|(node, part)| (*node, (*part).into()));
            let decided = Decided {
                since: self.now,
                grant: self.caller.grant().map(Box::from),
                parts: parts.collect(),
            };
            if self.crowd().is_some() || !self.has_room_for(&decided) {
                return Ok(OwnerStatus::Full);
            }
            let noted = BookChange::Decided {
                lock: lock.word(),
                grant: decided.grant.as_deref(),
                parts: &decided.parts,
            };
            noted.put(self.memory);
            self.books.decide(lock.word(), decided);
        }
        // It is committed: whatever of it cannot be done, its client is not told that it is not.
        self.apply(lock, &writes).map_err(|_| Fault::Damaged)?;
        Ok(OwnerStatus::Done)
    }

    /// Whether a decision of the caller may be kept.
    fn has_room_for(&self, decided: &Decided) -> bool {
        let (books, options) = (&*self.books, &self.owner.options);
        let (grant, bytes) = (decided.grant.as_deref(), decided.bytes());
        let excess = books.decisions.excess(grant, bytes, options.decision_bytes);
        excess.is_none() && books.decided.len() < options.decisions
    }

    /// The bytes to be noted that keep the caller's transactions from locking more, and their
    /// limit.
    fn crowd(&self) -> Option<(usize, usize)> {
        let is_noted = self.memory.room_for_notes().is_some();
        let crowd = || self.books.crowd(self.caller.grant());
        is_noted.then(crowd).flatten()
    }

    /// As FORD does: writes and releases whatever lock there is.
    #[cfg(test)]
    fn decide_blindly(&mut self, writes: &[Write<'_>]) -> Result<OwnerStatus, Fault> {
        for write in writes {
            let table = self.table(write.object)?;
            let by = table.look(self.memory, write.key)?.lock;
            let by = by.unwrap_or(Lock { owner: 1, epoch: 1 });
            table.try_lock(self.memory, write.key, by)?;
            table.change(self.memory, write.key, by, write.value)?;
        }
        Ok(OwnerStatus::Done)
    }
}
