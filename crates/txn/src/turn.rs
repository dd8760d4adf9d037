//! What a node's owner knows of transactions, and what it does in one request's turn.

#[cfg(test)]
use crate::broken::Breach;
use crate::identity::{Names, home_of};
use crate::kept::{Found, Structure};
use crate::wire::{Seen, Status, UNFINISHED_BYTES, Write, Writer, writes_of};
use farslot_fabric::{Nanos, OwnerMemory};
use farslot_remote::chained::Table;
use farslot_remote::{Lock, ObjectId};
use farslot_rpc::Fault;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a request of a transaction is refused.
pub(crate) const MALFORMED: u32 = 100;
/// Why a client is refused that wants names where all are handed out.
const NO_NAMES: u32 = 103;

/// How a node takes part in transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerOptions {
    /// The node's place in the list of nodes that all clients have in common, see
    /// [`Database`](crate::Database).
    pub node: u8,
    /// Nanoseconds for which a transaction may keep its locks against others, from its first lock
    /// here on.
    pub lease: Nanos,
    /// Decisions kept at a time: of transactions that have committed here and are unfinished at
    /// other nodes. As many transactions that were given up are remembered one by one; beyond that,
    /// the older ones that have locked nothing here yet are given up with them, to be run again.
    pub decisions: usize,
}

impl Default for OwnerOptions {
    /// Node 0; 100 ms; 65,536 decisions.
    fn default() -> Self {
        Self {
            node: 0,
            lease: 100_000_000,
            decisions: 1 << 16,
        }
    }
}

/// A node's part in transactions. What it knows of them lives as long as its process, as the node's
/// memory does.
pub(crate) struct Owner {
    pub(crate) tables: BTreeMap<u16, Structure>,
    options: OwnerOptions,
    books: Mutex<Books>,
    #[cfg(test)]
    pub(crate) breach: Option<Breach>,
}

#[derive(Default)]
pub(crate) struct Books {
    /// What each transaction has locked here.
    pub(crate) held: BTreeMap<u64, Held>,
    /// Transactions that have this node as home, have committed, and may be unfinished elsewhere.
    pub(crate) decided: BTreeMap<u64, Decided>,
    /// Names of the transactions that have this node as home, once there is a client.
    names: Option<Names>,
}

pub(crate) struct Held {
    until: Nanos,
    /// What its locks are named by, and the nodes of maps that were promised with them.
    keys: BTreeMap<(u16, Box<[u8]>), u64>,
}

pub(crate) struct Decided {
    since: Nanos,
    parts: Vec<(u8, Box<[u8]>)>,
}

impl Owner {
    pub(crate) fn new(tables: &[(ObjectId, Structure)], options: OwnerOptions) -> Self {
        Self {
            tables: tables.iter().map(|(id, table)| (id.0, *table)).collect(),
            options,
            books: Mutex::default(),
            #[cfg(test)]
            breach: None,
        }
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn is_blind(&self) -> bool {
        self.breach == Some(Breach::BlindRelease)
    }

    pub(crate) fn table(&self, object: u16) -> Result<&Structure, Fault> {
        self.tables.get(&object).ok_or(Fault::Refused(MALFORMED))
    }
}

/// One request's turn: none other changes the tables or the books meanwhile.
pub(crate) struct Turn<'t> {
    pub(crate) owner: &'t Owner,
    pub(crate) books: MutexGuard<'t, Books>,
    pub(crate) memory: &'t mut dyn OwnerMemory,
    pub(crate) now: Nanos,
}

impl Turn<'_> {
    pub(crate) fn open(&mut self) -> Result<Vec<u8>, Fault> {
        let OwnerOptions {
            node, decisions, ..
        } = self.owner.options;
        let names = &mut self.books.names;
        let names = names.get_or_insert_with(|| Names::new(node, self.now, decisions));
        let first = names.block().ok_or(Fault::Refused(NO_NAMES))?;
        let mut reply = Writer::default();
        reply.byte(Status::Done as u8).word(first.word());
        Ok(reply.0)
    }

    pub(crate) fn lock(
        &mut self,
        lock: Lock,
        opens: bool,
        object: u16,
        key: &[u8],
        room: usize,
    ) -> Result<Vec<u8>, Fault> {
        let table = *self.owner.table(object)?;
        // Status, presence, version, and the longest value; before anything is changed.
        let most = 10 + usize::from(table.value_bytes());
        if room < most {
            return Err(Fault::NoRoom(most));
        }
        let is_known = self.books.held.contains_key(&lock.word());
        if !is_known && (!opens || !self.may_begin(lock)) {
            return Ok(vec![Status::Aborted as u8]);
        }
        let mut reply = Writer::default();
        match self.take(lock, object, key)? {
            Ok(found) => {
                let is_there = found.value.is_some();
                reply.byte(Status::Done as u8).byte(is_there.into());
                reply.word(found.version.unwrap_or(0));
                reply.bytes(&found.value.unwrap_or_default());
                Ok(reply.0)
            }
            Err(by) => {
                reply.byte(Status::Locked as u8);
                Ok(self.held_by(by, reply))
            }
        }
    }

    /// Whether a transaction that holds nothing here may lock something. Its home alone keeps it
    /// from that.
    fn may_begin(&self, lock: Lock) -> bool {
        #[cfg(test)]
        if self.owner.breach == Some(Breach::NoNote) {
            return true;
        }
        let names = self.books.names.as_ref();
        !self.is_home_of(lock) || names.is_some_and(|names| names.may_begin(lock))
    }

    fn is_home_of(&self, lock: Lock) -> bool {
        home_of(lock) == Some(self.owner.options.node)
    }

    /// Locks a key for a transaction, or tells who holds it: nobody whose lease is over and whose
    /// home is here.
    fn take(&mut self, lock: Lock, object: u16, key: &[u8]) -> Result<Result<Found, Lock>, Fault> {
        let table = *self.owner.table(object)?;
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
        reads: &[Seen<'_>],
        writes: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let writes = writes_of(writes).ok_or(Fault::Refused(MALFORMED))?;
        let about = |status: Status, at: usize| {
            let mut reply = Writer::default();
            reply.byte(status as u8).half(at as u16);
            reply
        };
        #[cfg(test)]
        let reads = if self.owner.is_blind() { &[] } else { reads };
        for (at, seen) in reads.iter().enumerate() {
            let now = self.look(seen.object, seen.key)?;
            if let Some(by) = now.lock {
                return Ok(self.held_by(by, about(Status::Locked, at)));
            }
            if now.version != seen.version {
                return Ok(about(Status::Changed, at).0);
            }
        }
        Ok(match self.change_all(lock, &writes)? {
            None => vec![Status::Done as u8],
            Some((at, by)) => self.held_by(by, about(Status::Locked, reads.len() + at)),
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
            match self.owner.table(write.object)? {
                Structure::Chained(table) => tables.push(*table),
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
            let table = self.owner.table(write.object)?;
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
        object: u16,
        key: &[u8],
    ) -> Result<(Option<Lock>, Option<Vec<u8>>), Fault> {
        if let Structure::Chained(table) = self.owner.table(object)? {
            let (lock, value) = table.peek(self.memory, key)?;
            if lock.is_none() {
                return Ok((lock, value));
            }
        }
        let found = self.look(object, key)?;
        Ok((found.lock, found.value))
    }

    /// What a key has, and who holds it: nobody whose lease is over and whose home is here.
    pub(crate) fn look(&mut self, object: u16, key: &[u8]) -> Result<Found, Fault> {
        let table = *self.owner.table(object)?;
        let seen = table.look(self.memory, key)?;
        match seen.lock {
            Some(by) if self.inquire(by, object, key)? == Status::Done => {
                table.look(self.memory, key)
            }
            _ => Ok(seen),
        }
    }

    /// A reply that tells who holds a key, and whether that lock's lease is over.
    pub(crate) fn held_by(&self, by: Lock, mut reply: Writer) -> Vec<u8> {
        reply.word(by.word()).byte(self.is_over(by).into());
        reply.0
    }

    /// Notes that a transaction has something locked here; its lease runs from the first on.
    fn hold(&mut self, lock: Lock, object: u16, held: &[u8], promised: u64) {
        let until = self.now.saturating_add(self.owner.options.lease);
        let own = self.books.held.entry(lock.word()).or_insert_with(|| Held {
            until,
            keys: BTreeMap::new(),
        });
        *own.keys.entry((object, held.into())).or_default() += promised;
    }

    fn is_over(&self, lock: Lock) -> bool {
        let held = self.books.held.get(&lock.word());
        held.is_none_or(|held| held.until < self.now)
    }

    pub(crate) fn inquire(&mut self, lock: Lock, object: u16, key: &[u8]) -> Result<Status, Fault> {
        let found = self.owner.table(object)?.look(self.memory, key)?;
        if found.lock != Some(lock) {
            return Ok(Status::Done);
        }
        // A lock that is not in the books: its lease runs from now on.
        if !self.books.held.contains_key(&lock.word()) {
            self.hold(lock, object, &found.held, 0);
        }
        if !self.is_over(lock) {
            return Ok(Status::Running);
        }
        // One that no transaction took has no home, and nobody else is to be asked.
        if home_of(lock).is_none() || self.is_home_of(lock) {
            self.give_up(lock)?;
            return Ok(Status::Done);
        }
        Ok(Status::Locked)
    }

    /// Breaks the locks of a transaction that is not decided, at its home. It can never commit from
    /// here on, however late its calls come: its locks are gone, and it may take none again.
    fn give_up(&mut self, lock: Lock) -> Result<(), Fault> {
        if let Some(names) = &mut self.books.names {
            names.give_up(lock);
        }
        self.release(lock)
    }

    /// Commits, if no lock was lost: the one moment at which a transaction comes into effect.
    pub(crate) fn decide(
        &mut self,
        lock: Lock,
        own: &[u8],
        others: &[(u8, &[u8])],
    ) -> Result<Status, Fault> {
        let writes = writes_of(own).ok_or(Fault::Refused(MALFORMED))?;
        #[cfg(test)]
        if self.owner.is_blind() {
            return self.decide_blindly(&writes);
        }
        if !self.books.held.contains_key(&lock.word()) {
            return Ok(Status::Aborted);
        }
        for write in &writes {
            let table = self.owner.table(write.object)?;
            let value = write.value.unwrap_or(&[]);
            if value.len() > table.value_bytes().into() {
                return Err(Fault::Refused(MALFORMED));
            }
            if table.look(self.memory, write.key)?.lock != Some(lock) {
                return Ok(Status::Aborted);
            }
        }
        if !others.is_empty() {
            if self.books.decided.len() >= self.owner.options.decisions {
                return Ok(Status::Full);
            }
            let parts = others.iter().map(|(node, part)| (*node, (*part).into()));
            let decided = Decided {
                since: self.now,
                parts: parts.collect(),
            };
            self.books.decided.insert(lock.word(), decided);
        }
        self.apply(lock, &writes)?;
        Ok(Status::Done)
    }

    /// As FORD does: writes and releases whatever lock there is.
    #[cfg(test)]
    fn decide_blindly(&mut self, writes: &[Write<'_>]) -> Result<Status, Fault> {
        for write in writes {
            let table = self.owner.table(write.object)?;
            let by = table.look(self.memory, write.key)?.lock;
            let by = by.unwrap_or(Lock { owner: 1, epoch: 1 });
            table.try_lock(self.memory, write.key, by)?;
            table.change(self.memory, write.key, by, write.value)?;
        }
        Ok(Status::Done)
    }

    /// Makes a part's changes, and unlocks what the transaction holds here.
    pub(crate) fn apply(&mut self, lock: Lock, writes: &[Write<'_>]) -> Result<(), Fault> {
        for write in writes {
            let table = self.owner.table(write.object)?;
            table.change(self.memory, write.key, lock, write.value)?;
        }
        self.release(lock)
    }

    /// Unlocks what a transaction still holds here.
    pub(crate) fn release(&mut self, lock: Lock) -> Result<(), Fault> {
        let held = self.books.held.remove(&lock.word());
        for ((object, key), promised) in held.into_iter().flat_map(|held| held.keys) {
            let table = self.owner.table(object)?;
            table.unlock(self.memory, &key, lock, promised)?;
        }
        Ok(())
    }

    pub(crate) fn resolve(&mut self, lock: Lock, node: u8, room: usize) -> Result<Vec<u8>, Fault> {
        if !self.is_home_of(lock) {
            return Err(Fault::Refused(MALFORMED));
        }
        if let Some(decided) = self.books.decided.get(&lock.word()) {
            let part = decided.parts.iter().find(|(of, _)| *of == node);
            let part = part.map_or(&[][..], |(_, part)| part);
            if room <= part.len() {
                return Err(Fault::NoRoom(part.len() + 1));
            }
            let mut reply = Writer::default();
            reply.byte(Status::Done as u8).bytes(part);
            return Ok(reply.0);
        }
        if !self.is_over(lock) {
            return Ok(vec![Status::Running as u8]);
        }
        self.give_up(lock)?;
        Ok(vec![Status::Aborted as u8])
    }

    pub(crate) fn forget(&mut self, lock: Lock, node: u8) {
        if let Some(decided) = self.books.decided.get_mut(&lock.word()) {
            decided.parts.retain(|(of, _)| *of != node);
            if decided.parts.is_empty() {
                self.books.decided.remove(&lock.word());
            }
        }
    }

    /// As many as there is room for.
    pub(crate) fn unfinished(&self, room: usize) -> Vec<u8> {
        let lease = self.owner.options.lease;
        let old = self.books.decided.iter();
        let old = old.filter(|(_, decided)| decided.since.saturating_add(lease) < self.now);
        let parts = old.flat_map(|(lock, decided)| {
            let nodes = decided.parts.iter();
            nodes.map(move |(node, _)| (*lock, *node))
        });
        let mut reply = Writer::default();
        reply.byte(Status::Done as u8);
        for (lock, node) in parts.take(room.saturating_sub(1) / UNFINISHED_BYTES) {
            reply.word(lock).byte(node);
        }
        reply.0
    }
}
