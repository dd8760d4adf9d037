//! The owner's side of calls: it opens the tables of its own memory, and runs the operations of its
//! callers in them.
//!
//! Each of the threads that calls come to is a client of each table that it was called for, of the
//! table's scheme, in its own memory: what it does there and what others do by verbs meets as the
//! operations of any two clients do. It reaches no byte but the table's, whatever the table's words
//! lead it to: of a table that is made of segments those that its list names, which no caller of a
//! grant changes.
//!
//! A caller may do by calls what it may do by verbs: all of the table's bytes must be open to it,
//! for reading, and for writing and atomics where the call has a write. What a caller may not do is
//! not begun, nor what makes no sense.
//!
//! The threads serve others too, so nothing here waits, and a call has a turn of [`CALL_TURN`].
//! What it has not come to by then is [kept](super::kept), has further turns, and is answered
//! later. What would have to wait is left to clients that can do it by themselves.
//!
//! A grant may open none of the table's bytes and yet the keys with a prefix. Every operation of
//! its clients is held to that here, and to the grant's rights. They cannot do by verbs what the
//! owner leaves undone, so they are told why.

use super::kept::{KeptCall, KeptCalls, LONGEST_TURN, RestOfCall};
use super::later::LaterCalls;
use super::opened::{OpenedTo, OwnerTable, WRITES, needed_by, opened_to};
use super::telling;
use crate::calls::CALL_TURN;
use crate::calls::reply::{Answered, ReplyWriter, Status};
use crate::calls::request::{MOST_OPERATIONS, Question, Request};
use crate::catalog::pool::own_bytes;
use crate::catalog::record::pooled;
use crate::catalog::{TableRecord, id_at, is_restoring, record_of};
use crate::clients::{executes, has_one_writer};
use crate::expiry::ExpiryClock;
use crate::lease::Leased;
use crate::nodes::StoreNodes;
use crate::sessions::SessionContext;
use crate::{Access, OpenOptions, Outcome, StoreError, WriterChange};
use farslot_fabric::shm::{ShmEndpoint, WeakNode};
use farslot_fabric::{
    AnyEndpoint, Call, CallAnswer, Executor, Handler, Limits, Nanos, NodeId, OwnerEndpoint,
    OwnerMemory, RegionId, RegionInfo, Rights,
};
use farslot_index::linear::ReadPolicy;
use farslot_index::{Admin, IndexError, Operation};
use farslot_model::NicModel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

/// Slots that a lookup in the owner's memory looks at first: the best number takes longer to find
/// than it saves here.
const READ_SIZE: u32 = 8;
/// The first byte of the region, of which all of a store is in.
const REGION: RegionId = RegionId(0);
const NODE: NodeId = NodeId(0);

/// The most tables that a thread has open for callers: another is opened in place of the one that
/// was called for the longest ago.
const MOST_OPEN: usize = 128;
/// How long room is made for who needs none yet, in nanoseconds, before others have a turn.
const CLEANING_TURN: Nanos = 4 * CALL_TURN;
/// The most operations of a turn where handlers take no time.
const MOST_WITHOUT_TIME: usize = 64;

/// Answers the calls for the tables of one node.
pub(crate) struct CallService {
    memory: Memory,
    /// The most that it does to tables. Where a NIC executes the atomics of clients it only reads:
    /// its own would not be atomic against those.
    rights: Rights,
    sessions: SessionContext,
    /// Held by the thread that writes to a table of one writer.
    writing: Mutex<()>,
    /// Held by the service alone: threads know by it that it is there.
    alive: Arc<()>,
    later: LaterCalls,
    kept: Arc<KeptCalls>,
    /// For the thread that goes on with what is kept.
    this: Weak<Self>,
}

/// A service for as long as its node is served: it keeps no calls afterwards, and no thread.
pub(crate) struct ServedCalls(Arc<CallService>);

impl ServedCalls {
    pub(crate) const fn new(service: Arc<CallService>) -> Self {
        Self(service)
    }

    /// What is counted of calls that did not end in their turn.
    pub(crate) fn later(&self) -> &LaterCalls {
        &self.0.later
    }
}

impl Drop for ServedCalls {
    fn drop(&mut self) {
        if let Some(worker) = self.0.kept.end() {
            // One that has panicked has said so.
            let _ = worker.join();
        }
    }
}

impl Drop for CallService {
    fn drop(&mut self) {
        // The thread may be the one that drops it.
        self.kept.end();
    }
}

/// What a turn has made of a call.
enum TurnEnd {
    /// It is answered, by so many bytes.
    Answered(usize),
    Rest(Box<RestOfCall>),
}

/// How the owner's memory is reached.
pub(super) enum Memory {
    /// It is mapped, and not kept by the service, which it keeps.
    Mapped(WeakNode),
    /// It is mapped as well, and reached through what each call lends: no endpoint of shared memory
    /// reaches what a NIC serves.
    BesideNic(WeakNode),
    /// It is lent with each call and each turn.
    Lent,
}

impl Memory {
    /// The node, where a thread of this process can go on with calls.
    const fn node(&self) -> Option<&WeakNode> {
        match self {
            Self::Mapped(node) | Self::BesideNic(node) => Some(node),
            Self::Lent => None,
        }
    }
}

thread_local! {
    /// The tables that this thread has open, of each service that it works for.
    static OPEN: RefCell<Vec<OfService>> = const { RefCell::new(Vec::new()) };
}

struct OfService {
    service: Weak<()>,
    tables: HashMap<u64, OwnerTable>,
    /// Calls so far.
    calls: u64,
}

impl CallService {
    /// Answers calls for the tables in a node's mapped memory.
    pub(crate) fn of_node(node: WeakNode) -> Arc<Self> {
        Self::new(Memory::Mapped(node), Rights::ALL)
    }

    /// Answers the lookups of calls in a node's memory that a NIC serves. What its clients write
    /// meanwhile is seen as their own READs see it.
    pub(crate) fn beside_nic(node: WeakNode) -> Arc<Self> {
        Self::new(Memory::BesideNic(node), Rights::READ)
    }

    pub(super) fn new(memory: Memory, rights: Rights) -> Arc<Self> {
        let nodes = StoreNodes::new(vec!["the owner's memory".into()]);
        let options = OpenOptions {
            access: Access::Reads,
            read_policy: Some(ReadPolicy::Fixed(READ_SIZE)),
            ..OpenOptions::default()
        };
        let nic = NicModel::shared_memory();
        let sessions = SessionContext::new(nodes, nic, options, false, None, ExpiryClock::Wall);
        Arc::new_cyclic(|this| Self {
            memory,
            rights,
            sessions,
            writing: Mutex::default(),
            alive: Arc::new(()),
            later: LaterCalls::default(),
            kept: Arc::default(),
            this: Weak::clone(this),
        })
    }

    /// Works on a call for a turn of so many nanoseconds, its first or, with what the last has left
    /// of it, another. Returns what became of it, or what there is to say instead.
    fn work(
        &self,
        call: Call<'_>,
        (before, turn): (Option<&RestOfCall>, Nanos),
    ) -> Result<TurnEnd, Status> {
        let Call {
            region,
            now,
            request,
            memory,
            reply,
            caller,
        } = call;
        if region != REGION {
            return Err(Status::NoTable);
        }
        let request = Request::decode(request).map_err(|_| Status::Malformed)?;
        let operations = &request.operations[..];
        let (needed, outcomes) = match request.question {
            Question::Run => (needed_by(operations), operations.len()),
            Question::Flush => (WRITES, 0),
            Question::Opened => (Rights::READ, 1),
            Question::Provide => (WRITES, 1),
            Question::Tables => {
                let bytes = telling::tables(request.table, memory, now, caller, reply)?;
                return Ok(TurnEnd::Answered(bytes));
            }
            Question::Map => {
                let bytes = telling::map(request.table, memory, caller, reply)?;
                return Ok(TurnEnd::Answered(bytes));
            }
        };
        let left = before.map(|rest| &rest.left[..]);
        let mut writer = match before {
            None => ReplyWriter::new(reply, outcomes).ok_or(Status::Malformed)?,
            Some(rest) => ReplyWriter::resume(reply, rest.written),
        };
        OPEN.with_borrow_mut(|open| {
            let OfService { tables, calls, .. } = self.tables_of(open);
            *calls += 1;
            // One that was dropped meanwhile is none: another may lie where it did.
            if !tables
                .get(&request.table)
                .is_some_and(|open| open.is_in(memory))
            {
                tables.retain(|_, open| open.is_in(memory));
            }
            if !tables.contains_key(&request.table) {
                let record = find(request.table, memory)?;
                // Only for those who may use it another table is closed.
                let table_bytes = own_bytes(&record, memory).map_err(|_| Status::NotServed)?;
                opened_to(caller, (table_bytes, record.scheme_bytes()), needed)?;
                make_room_in(tables, memory, now);
                tables.insert(request.table, self.open(&record, memory, now)?);
            }
            let table = tables.get_mut(&request.table).ok_or(Status::NoTable)?;
            table.called = *calls;
            table.is_closed = table.is_closed_in(memory);
            let bytes = (table.extent.clone(), table.table_bytes.clone());
            let opened = opened_to(caller, bytes, needed)?;
            let is_write = |operation: &Operation<'_>| {
                !operation.is_lookup() && table.not_executed(operation, &opened).is_none()
            };
            let has_writes = match left {
                None => operations.iter().any(is_write),
                Some(left) => left.iter().any(|at| is_write(&operations[*at as usize])),
            };
            let run_in_turn = |mut writer: ReplyWriter<'_>, turn| {
                if let OpenedTo::Keys { .. } = opened {
                    writer = writer.of_keys();
                }
                #[cfg(feature = "tracing")]
                let span = crate::traced::turn(&table.name, operations, caller.grant());
                let (left, ended) = table.run((operations, left), &mut writer, &opened, turn);
                #[cfg(feature = "tracing")]
                span.record("farslot.later", ended.later as i64);
                match before {
                    None => self.later.note(&ended, &table.name, caller.grant()),
                    // A client has its counts reported by the thread that it calls.
                    Some(_) if has_writes => _ = table.flush(),
                    Some(_) => {}
                }
                if left.is_empty() {
                    return TurnEnd::Answered(writer.finish());
                }
                TurnEnd::Rest(Box::new(RestOfCall {
                    written: writer.written(),
                    left,
                    ended,
                    caller: opened.kept(caller),
                    patience: request.patience,
                    written_to: (has_writes && !table.has_one_writer).then_some(request.table),
                }))
            };
            let run = || match request.question {
                Question::Run if table.has_one_writer && has_writes => {
                    // Another thread writes, within its turn: whatever is asked for can wait so
                    // long.
                    let writing = match self.writing.try_lock() {
                        Ok(writing) => Some(writing),
                        Err(TryLockError::Poisoned(writing)) => Some(writing.into_inner()),
                        Err(TryLockError::WouldBlock) => None,
                    };
                    let end = run_in_turn(writer, if writing.is_some() { turn } else { 0 });
                    // For the next thread, and for clients who write by verbs. If it is the writer
                    // on, these are told so.
                    if writing.is_some() {
                        let resigning = Admin::ChangeWriter(WriterChange::Resign);
                        let _ = table.session.client().admin(resigning);
                    }
                    Ok(end)
                }
                Question::Run => Ok(run_in_turn(writer, turn)),
                Question::Flush => match table.flush() {
                    // What is left to do is done beside the next writes.
                    Ok(()) | Err(StoreError::Index(IndexError::TurnOver { .. })) => {
                        Ok(TurnEnd::Answered(writer.finish()))
                    }
                    Err(_) => Err(Status::NotServed),
                },
                Question::Opened => {
                    let single_keys = matches!(opened, OpenedTo::Keys { .. });
                    writer.put(0, &Answered::Done(Outcome::Changed(single_keys)));
                    Ok(TurnEnd::Answered(writer.finish()))
                }
                Question::Provide => {
                    let number = operations.first().map(|operation| operation.key());
                    let number =
                        number.and_then(|key| Some(u64::from_le_bytes(*key.first_chunk()?)));
                    let is_all = matches!(opened, OpenedTo::All) && !table.is_closed;
                    let number = number.filter(|_| is_all).ok_or(Status::Denied)?;
                    let is_provided = table.provide(number);
                    writer.put(0, &Answered::Done(Outcome::Changed(is_provided)));
                    Ok(TurnEnd::Answered(writer.finish()))
                }
                // They are answered above.
                Question::Tables | Question::Map => Err(Status::Malformed),
            };
            lending(table.lent.as_deref(), memory, now, run)
        })
    }

    /// Keeps what a call's first turn has left of it, and answers later; at once, where its client
    /// does not wait or there is no room for more.
    fn keep(&self, call: Call<'_>, rest: Box<RestOfCall>) -> CallAnswer {
        let by_thread = self.memory.node().map(|_| {
            let service = Weak::clone(&self.this);
            move || Some(service.upgrade()?.go_on_here())
        });
        match self.kept.keep(&call, rest, by_thread) {
            Ok(later) => CallAnswer::Later(later),
            Err(rest) => CallAnswer::Now(rest.finish(call.reply, &Answered::Unfinished)),
        }
    }

    /// Makes room in a table to which a kept call has written, when that is answered: so that the
    /// turns of the next calls are enough. Ends once another kept call waits.
    fn clean_ahead(&self, table: u64, memory: &mut dyn OwnerMemory, now: Nanos) {
        OPEN.with_borrow_mut(|open| {
            let Some(open) = self.tables_of(open).tables.get(&table) else {
                return;
            };
            lending(open.lent.as_deref(), memory, now, || {
                let mut turns = LONGEST_TURN / CLEANING_TURN;
                while turns > 0 && open.clean_ahead(CLEANING_TURN) && !self.kept.is_any_waiting() {
                    turns -= 1;
                }
            });
        });
    }

    /// Goes on with a kept call in mapped memory. Returns how long to wait then; nothing if there
    /// is no call.
    fn go_on_here(&self) -> Option<Duration> {
        let node = self.memory.node()?.upgrade()?;
        let going_on = |memory: &mut dyn OwnerMemory, now| {
            let next = self.go_on(memory, now)?;
            Some(Duration::from_nanos(next.saturating_sub(now)))
        };
        node.use_memory(REGION, going_on).ok()?
    }

    /// This thread's open tables of the service. Those of services that are gone are closed.
    fn tables_of<'o>(&self, open: &'o mut Vec<OfService>) -> &'o mut OfService {
        let is_own = |of: &OfService| std::ptr::eq(of.service.as_ptr(), Arc::as_ptr(&self.alive));
        let known = open.iter().position(is_own);
        let at = known.unwrap_or_else(|| {
            open.retain(|of| of.service.strong_count() > 0);
            open.push(OfService {
                service: Arc::downgrade(&self.alive),
                tables: HashMap::new(),
                calls: 0,
            });
            open.len() - 1
        });
        &mut open[at]
    }

    /// An endpoint for memory that is lent, which reaches these bytes.
    fn lent_endpoint(&self, memory: &dyn OwnerMemory, area: Range<u64>) -> Rc<OwnerEndpoint> {
        let region = RegionInfo {
            len: memory.bytes(),
            rights: self.rights,
        };
        Rc::new(OwnerEndpoint::new(region, area, Limits::default()))
    }

    fn open(
        &self,
        record: &TableRecord,
        memory: &mut dyn OwnerMemory,
        now: Nanos,
    ) -> Result<OwnerTable, Status> {
        let (true, writes) = executes(&record.scheme) else {
            return Err(Status::NotServed);
        };
        let extent = record.extent();
        // What is made of segments may have any of them: those that its list names.
        let area = match pooled(&record.scheme) {
            Some(_) => 0..u64::MAX,
            None => extent.clone(),
        };
        let limits = Limits::default();
        // They have no lease: whether the table is there is seen before every call.
        let (any, lent) = match &self.memory {
            Memory::Mapped(node) => {
                let node = node.upgrade().ok_or(Status::NotServed)?;
                let endpoint = ShmEndpoint::confined(vec![node], area, limits);
                (AnyEndpoint::Shm(endpoint), None)
            }
            Memory::BesideNic(_) | Memory::Lent => {
                let endpoint = self.lent_endpoint(memory, area);
                (AnyEndpoint::Owner(Rc::clone(&endpoint)), Some(endpoint))
            }
        };
        let endpoint = Leased::new(any);
        endpoint.reach(NODE, record, None);
        let executor = Executor::new(Rc::clone(&endpoint));
        let open = || self.sessions.session(executor, NODE, record);
        let session = lending(lent.as_deref(), memory, now, open);
        Ok(OwnerTable {
            endpoint,
            called: 0,
            name: record.name.clone(),
            session: session.map_err(|_| Status::NotServed)?,
            id: record.id,
            id_at: id_at(NODE, record).offset,
            extent: own_bytes(record, memory).map_err(|_| Status::NotServed)?,
            table_bytes: record.scheme_bytes(),
            writes: writes && self.rights.allow(WRITES),
            is_closed: false,
            has_one_writer: has_one_writer(&record.scheme),
            most_in_turn: memory.now().map_or(MOST_WITHOUT_TIME, |_| MOST_OPERATIONS),
            lent,
        })
    }
}

impl Handler for CallService {
    fn handle(&self, mut call: Call<'_>) -> CallAnswer {
        match self.work(call.reborrow(), (None, CALL_TURN)) {
            Ok(TurnEnd::Answered(bytes)) => CallAnswer::Now(bytes),
            Ok(TurnEnd::Rest(rest)) => self.keep(call, rest),
            Err(status) => CallAnswer::Now(status.put(call.reply)),
        }
    }

    fn go_on(&self, memory: &mut dyn OwnerMemory, now: Nanos) -> Option<Nanos> {
        let mut call = match self.kept.take_due(now) {
            Ok(call) => call,
            Err(next) => return next,
        };
        let bytes = KeptCall::bytes_of(&call.request, &call.reply);
        let grant = call.rest.caller.grant.clone();
        if !call.is_awaited() {
            drop(call);
        } else if call.is_overdue(now) {
            call.finish(&Answered::Unfinished);
        } else {
            let turn = Call {
                region: REGION,
                now,
                request: &call.request,
                memory: &mut *memory,
                reply: &mut call.reply,
                caller: &call.rest.caller,
            };
            match self.work(turn, (Some(&call.rest), call.turn)) {
                Ok(TurnEnd::Answered(bytes)) => {
                    let table = call.rest.written_to;
                    call.answer(bytes);
                    if let Some(table) = table {
                        self.clean_ahead(table, memory, now);
                    }
                }
                Ok(TurnEnd::Rest(rest)) => {
                    call.rest = rest;
                    call.plan(memory.now().unwrap_or(now));
                    self.kept.put_back(call);
                    return Some(now);
                }
                Err(status) => call.refuse(status),
            }
        }
        self.kept.forget(bytes, grant);
        Some(now)
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

/// Closes the table that was called for the longest ago, if there are as many as may be.
fn make_room_in(tables: &mut HashMap<u64, OwnerTable>, memory: &mut dyn OwnerMemory, now: Nanos) {
    if tables.len() < MOST_OPEN {
        return;
    }
    let longest_ago = tables.values().min_by_key(|open| open.called);
    let longest_ago = longest_ago.map(|open| open.id);
    if let Some(open) = longest_ago.and_then(|id| tables.remove(&id)) {
        // A count that cannot be reported is behind, as counts may be.
        let _ = lending(open.lent.as_deref(), memory, now, || open.flush());
    }
}

/// Does something while an endpoint has the memory, if it has to be lent.
fn lending<T>(
    to: Option<&OwnerEndpoint>,
    memory: &mut dyn OwnerMemory,
    now: Nanos,
    run: impl FnOnce() -> T,
) -> T {
    match to {
        None => run(),
        Some(to) => to.lend(memory, now, run),
    }
}

/// The table that has this id.
fn find(id: u64, memory: &dyn OwnerMemory) -> Result<TableRecord, Status> {
    let not_served = |_| Status::NotServed;
    if is_restoring(memory).map_err(not_served)? {
        return Err(Status::NotServed);
    }
    let found = record_of(memory, id).map_err(not_served)?;
    found.ok_or(Status::NoTable)
}

#[cfg(test)]
mod tests {
    //! What a thread keeps of the tables that it was called for. The owner of a simulated node
    //! answers on the thread of the test.

    use super::{MOST_OPEN, OPEN};
    use crate::{Access, FieldSize, OpenOptions, Store, TableOptions};

    const KEY: &[u8] = b"some key";

    fn open_here() -> usize {
        OPEN.with_borrow(|open| open.iter().map(|of| of.tables.len()).sum())
    }

    #[test]
    fn a_thread_keeps_no_table_that_is_gone_and_no_more_than_a_limit() {
        let options = OpenOptions {
            access: Access::Calls,
            ..OpenOptions::default()
        };
        let store = Store::open_with("sim://tcp-loopback?seed=4&memory=64MiB", options).unwrap();
        let size = FieldSize::Fixed(8);
        let small = TableOptions::new(64).keys(size).values(size);
        let names: Vec<_> = (0..MOST_OPEN + 20)
            .map(|number| format!("t{number}"))
            .collect();
        let mut tables = Vec::new();
        for (number, name) in names.iter().enumerate() {
            store.create(name, &small).unwrap();
            let table = store.table(name).unwrap();
            assert!(table.put(KEY, &number.to_le_bytes()).unwrap());
            assert_eq!(open_here(), MOST_OPEN.min(number + 1));
            tables.push(table);
        }
        // One that was closed is opened again, with what was counted before.
        assert_eq!(tables[0].get(KEY), Ok(Some(vec![0; 8])));
        tables[0].flush().unwrap();
        assert_eq!(tables[0].occupancy().unwrap().entries, 1);
        assert_eq!(open_here(), MOST_OPEN);
        drop(tables);
        // Those of tables that are gone are closed when the next is opened.
        for name in &names {
            store.drop_table(name).unwrap();
        }
        store.create("another", &small).unwrap();
        let another = store.table("another").unwrap();
        assert!(another.put(KEY, KEY).unwrap());
        assert_eq!(open_here(), 1);
        // An id that no table has leaves nothing.
        store.drop_table("another").unwrap();
        assert!(another.get(KEY).is_err());
        assert_eq!(open_here(), 0);
    }
}
