//! The owner's side of calls: it opens the tables of its own memory, and runs the operations of its
//! callers in them.
//!
//! Each of the threads that calls come to is a client of each table that it was called for, of the
//! table's scheme, in its own memory: what it does there and what others do by verbs meets as the
//! operations of any two clients do. It reaches no byte but the table's, whatever the table's words
//! lead it to.
//!
//! A caller may do by calls what it may do by verbs: all of the table's bytes must be open to it,
//! for reading, and for writing and atomics where the call has a write. What a caller may not do is
//! not begun, nor what makes no sense.
//!
//! A grant may open none of the table's bytes and yet the keys with a prefix. Every operation of
//! its clients is held to that here, and to the grant's rights. They cannot do by verbs what the
//! owner leaves undone, so they are told why.

use crate::catalog::{CATALOG_BYTES, Catalog, TableRecord, closed, id_at};
use crate::clients::{executes, has_one_writer};
use crate::expiry::Clock;
use crate::lease::Leased;
use crate::nodes::Nodes;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::{Access, OpenOptions, Outcome, StoreError, WriterChange};
use farslot_fabric::shm::{ShmEndpoint, WeakNode};
use farslot_fabric::sim::World;
use farslot_fabric::{
    AnyEndpoint, Call, Caller, Endpoint, Executor, Handler, Limits, Nanos, NodeId, OwnerEndpoint,
    OwnerMemory, RegionId, RegionInfo, Rights,
};
use farslot_index::calls::{Answered, OWNER_PATIENCE, Question, ReplyWriter, Request, Status, Why};
use farslot_index::linear::ReadPolicy;
use farslot_index::{Operation, Outcomes};
use farslot_model::NicModel;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Slots that a lookup in the owner's memory looks at first: the best number takes longer to find
/// than it saves here.
const READ_SIZE: u32 = 8;
/// What a write needs.
const WRITES: Rights = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
/// The first byte of the region, of which all of a store is in.
const REGION: RegionId = RegionId(0);
const NODE: NodeId = NodeId(0);

/// Answers the calls for the tables of one node.
pub(crate) struct Service {
    memory: Memory,
    /// The most that it does to tables. Where a NIC executes the atomics of clients it only reads:
    /// its own would not be atomic against those.
    rights: Rights,
    sessions: Sessions,
    /// Held by the thread that writes to a table of one writer.
    writing: Mutex<()>,
    /// Held by the service alone: threads know by it that it is there.
    alive: Arc<()>,
}

/// How the owner's memory is reached.
enum Memory {
    /// It is mapped, and not kept by the service, which it keeps.
    Mapped(WeakNode),
    /// It is lent with each call.
    Lent,
}

thread_local! {
    /// The tables that this thread has open, of each service that it works for.
    static OPEN: RefCell<Vec<OfService>> = const { RefCell::new(Vec::new()) };
}

struct OfService {
    service: Weak<()>,
    tables: HashMap<u64, Opened>,
}

/// A table that a thread has open.
struct Opened {
    session: Box<dyn Session>,
    id: u64,
    /// Where the id stands in the catalog while the table is there.
    id_at: u64,
    extent: Range<u64>,
    /// What of the extent is the scheme's.
    own: Range<u64>,
    writes: bool,
    /// Whether it takes no writes any more, as was seen at the beginning of the call.
    is_closed: bool,
    has_one_writer: bool,
    /// What the session's memory is lent to.
    lent: Option<Rc<OwnerEndpoint>>,
}

/// Has the owners of simulated nodes answer calls, and again whenever they come back.
pub(crate) fn serve_simulated(world: &World, nodes: u16) {
    for node in (0..nodes).map(NodeId) {
        let node = world.node_handle(node);
        node.serve_calls(|| Arc::new(Service::new(Memory::Lent, Rights::ALL)));
    }
}

impl Service {
    /// Answers calls for the tables in a node's mapped memory.
    pub(crate) fn of_node(node: WeakNode) -> Self {
        Self::new(Memory::Mapped(node), Rights::ALL)
    }

    /// Answers the lookups of calls in a node's memory that a NIC serves. What its clients write
    /// meanwhile is seen as their own READs see it.
    pub(crate) fn beside_nic() -> Self {
        Self::new(Memory::Lent, Rights::READ)
    }

    fn new(memory: Memory, rights: Rights) -> Self {
        let nodes = Nodes::new(vec!["the owner's memory".into()]);
        let options = OpenOptions {
            access: Access::Reads,
            read_policy: Some(ReadPolicy::Fixed(READ_SIZE)),
            ..OpenOptions::default()
        };
        let nic = NicModel::shared_memory();
        Self {
            memory,
            rights,
            sessions: Sessions::new(nodes, nic, options, false, None, Clock::Wall),
            writing: Mutex::default(),
            alive: Arc::new(()),
        }
    }

    /// Answers a call; returns the bytes of its reply, or what there is to say instead.
    fn answer(&self, call: Call<'_>) -> Result<usize, Status> {
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
        };
        let mut writer = ReplyWriter::new(reply, outcomes).ok_or(Status::Malformed)?;
        OPEN.with_borrow_mut(|open| {
            let tables = self.tables_of(open);
            // One that was dropped meanwhile is none: another may lie where it did.
            if tables
                .get(&request.table)
                .is_some_and(|open| !open.is_in(memory))
            {
                tables.remove(&request.table);
            }
            let table = match tables.entry(request.table) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(place) => {
                    let record = self.find(request.table, memory, now)?;
                    opened_to(caller, (record.extent(), record.scheme_bytes()), needed)?;
                    place.insert(self.open(&record, memory, now)?)
                }
            };
            table.is_closed = table.is_closed_in(memory);
            let bytes = (table.extent.clone(), table.own.clone());
            let opened = opened_to(caller, bytes, needed)?;
            let has_writes = operations.iter().any(|operation| {
                !operation.is_lookup() && table.not_executed(operation, &opened).is_none()
            });
            let run = || match request.question {
                Question::Run if table.has_one_writer && has_writes => {
                    let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                    let bytes = table.run(operations, writer, &opened);
                    // For the next thread, and for clients who write by verbs. If it is the writer on,
                    // these are told so.
                    let _ = table.session.change_writer(WriterChange::Resign);
                    Ok(bytes)
                }
                Question::Run => Ok(table.run(operations, writer, &opened)),
                Question::Flush => match table.session.flush() {
                    Ok(()) => Ok(writer.finish()),
                    Err(_) => Err(Status::NotServed),
                },
                Question::Opened => {
                    let single_keys = matches!(opened, OpenedTo::Keys { .. });
                    writer.put(0, &Answered::Done(Outcome::Changed(single_keys)));
                    Ok(writer.finish())
                }
            };
            match &table.lent {
                None => run(),
                Some(lent) => lent.lend(memory, now, run),
            }
        })
    }

    /// This thread's open tables of the service. Those of services that are gone are closed.
    fn tables_of<'o>(&self, open: &'o mut Vec<OfService>) -> &'o mut HashMap<u64, Opened> {
        let is_own = |of: &OfService| std::ptr::eq(of.service.as_ptr(), Arc::as_ptr(&self.alive));
        let known = open.iter().position(is_own);
        let at = known.unwrap_or_else(|| {
            open.retain(|of| of.service.strong_count() > 0);
            open.push(OfService {
                service: Arc::downgrade(&self.alive),
                tables: HashMap::new(),
            });
            open.len() - 1
        });
        &mut open[at].tables
    }

    /// The table that has this id.
    fn find(
        &self,
        id: u64,
        memory: &mut dyn OwnerMemory,
        now: Nanos,
    ) -> Result<TableRecord, Status> {
        let limits = Limits::default();
        let tables = match &self.memory {
            Memory::Mapped(node) => {
                let node = node.upgrade().ok_or(Status::NotServed)?;
                let endpoint = ShmEndpoint::confined(vec![node], 0..CATALOG_BYTES, limits);
                tables_in(AnyEndpoint::Shm(endpoint))
            }
            Memory::Lent => {
                let endpoint = self.lent_endpoint(memory, 0..CATALOG_BYTES);
                let any = AnyEndpoint::Owner(Rc::clone(&endpoint));
                endpoint.lend(memory, now, || tables_in(any))
            }
        };
        let tables = tables.map_err(|_| Status::NotServed)?;
        let found = tables.into_iter().find(|record| record.id == id);
        found.ok_or(Status::NoTable)
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
    ) -> Result<Opened, Status> {
        let (true, writes) = executes(&record.scheme) else {
            return Err(Status::NotServed);
        };
        let extent = record.extent();
        let limits = Limits::default();
        // They have no lease: whether the table is there is seen before every call.
        let (session, lent) = match &self.memory {
            Memory::Mapped(node) => {
                let node = node.upgrade().ok_or(Status::NotServed)?;
                let endpoint = ShmEndpoint::confined(vec![node], extent.clone(), limits);
                let any = AnyEndpoint::Shm(endpoint);
                let executor = Executor::new(Rc::new(Leased::new(any)));
                (self.sessions.session(executor, NODE, record), None)
            }
            Memory::Lent => {
                let endpoint = self.lent_endpoint(memory, extent.clone());
                let any = AnyEndpoint::Owner(Rc::clone(&endpoint));
                let executor = Executor::new(Rc::new(Leased::new(any)));
                let open = || self.sessions.session(executor, NODE, record);
                (endpoint.lend(memory, now, open), Some(endpoint))
            }
        };
        Ok(Opened {
            session: session.map_err(|_| Status::NotServed)?,
            id: record.id,
            id_at: id_at(NODE, record).offset,
            extent,
            own: record.scheme_bytes(),
            writes: writes && self.rights.allow(WRITES),
            is_closed: false,
            has_one_writer: has_one_writer(&record.scheme),
            lent,
        })
    }
}

impl Handler for Service {
    fn handle(&self, mut call: Call<'_>) -> usize {
        let answered = self.answer(call.reborrow());
        match answered {
            Ok(bytes) => bytes,
            Err(status) => status.put(call.reply),
        }
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

impl Opened {
    /// Whether the table is still there. Its memory is no other table's for some time after it was
    /// dropped: longer than a call takes.
    fn is_in(&self, memory: &dyn OwnerMemory) -> bool {
        memory.load(self.id_at) == Ok(self.id) || self.is_closed_in(memory)
    }

    /// Whether it takes no writes any more: the last snapshots begin after a longer time than a call
    /// takes.
    fn is_closed_in(&self, memory: &dyn OwnerMemory) -> bool {
        memory.load(self.id_at) == Ok(closed(self.id))
    }

    /// Runs operations of a caller to whom so much is opened; returns the bytes of the reply that
    /// says what became of each.
    fn run(
        &self,
        operations: &[Operation<'_>],
        mut writer: ReplyWriter<'_>,
        opened: &OpenedTo<'_>,
    ) -> usize {
        if let OpenedTo::Keys { .. } = opened {
            writer = writer.of_keys();
        }
        let undone = |operation| self.not_executed(operation, opened);
        if operations
            .iter()
            .any(|operation| undone(operation).is_some())
        {
            let mut own = Vec::new();
            for (number, operation) in operations.iter().enumerate() {
                match undone(operation) {
                    Some(answered) => writer.put(number, &answered),
                    None => own.push(number),
                }
            }
            let all: Vec<_> = own.iter().map(|number| operations[*number]).collect();
            self.run_all(&all, opened, &mut writer, |at| own[at]);
        } else {
            self.run_all(operations, opened, &mut writer, |number| number);
        }
        writer.finish()
    }

    /// What to say of an operation that is not executed for a caller; nothing of one that is.
    fn not_executed(&self, operation: &Operation<'_>, opened: &OpenedTo<'_>) -> Option<Answered> {
        let is_executed = self.writes && !self.is_closed || operation.is_lookup();
        match *opened {
            OpenedTo::All => (!is_executed).then_some(Answered::Left),
            OpenedTo::Keys {
                caller,
                prefix,
                rights,
            } => {
                let needed = needed_by(std::slice::from_ref(operation));
                if !operation.key().starts_with(prefix) || !rights.allow(needed) {
                    caller.refused();
                    return Some(Answered::Refused(Why::Key));
                }
                let why = "it executes no writes of such a table";
                (!is_executed).then(|| match self.is_closed {
                    true => Answered::Refused(Why::Ending),
                    false => Answered::Refused(Why::Said(why.into())),
                })
            }
        }
    }

    /// Runs operations that all are executed; each has the number in the reply that is given for its
    /// place here.
    fn run_all(
        &self,
        operations: &[Operation<'_>],
        opened: &OpenedTo<'_>,
        writer: &mut ReplyWriter<'_>,
        number_of: impl Fn(usize) -> usize,
    ) {
        let mut is_told = vec![false; operations.len()];
        let are_gets = operations.iter().all(|of| matches!(of, Operation::Get(_)));
        let left = Cell::new(OWNER_PATIENCE);
        self.session
            .run_many(Some(&left), operations, &mut |outcomes| match outcomes {
                Outcomes::Small(small) if are_gets => small.each(|at, value| {
                    is_told[at] = true;
                    writer.put_value(number_of(at), value);
                }),
                outcomes => outcomes.each_of(operations, |at, outcome| {
                    is_told[at] = true;
                    let answered = match outcome {
                        Ok(outcome) => Answered::Done(outcome),
                        Err(error) => answered_by(error, opened),
                    };
                    writer.put(number_of(at), &answered);
                }),
            });
        // What was given up may have been on its way.
        for (at, _) in is_told.iter().enumerate().filter(|(_, is_told)| !**is_told) {
            writer.put(number_of(at), &Answered::InDoubt);
        }
    }
}

/// What of a table is opened to a caller.
enum OpenedTo<'c> {
    /// All of its bytes.
    All,
    /// Keys with a prefix.
    Keys {
        caller: &'c dyn Caller,
        prefix: &'c [u8],
        rights: Rights,
    },
}

/// What is opened of a table of such an extent, of which `own` is the scheme's, to a caller who
/// needs these rights; to one with a prefix, whatever its rights.
fn opened_to<'c>(
    caller: &'c dyn Caller,
    (extent, own): (Range<u64>, Range<u64>),
    needed: Rights,
) -> Result<OpenedTo<'c>, Status> {
    if caller.check(extent, needed).is_ok() {
        return Ok(OpenedTo::All);
    }
    let (prefix, rights) = caller.keys(own).ok_or(Status::Denied)?;
    Ok(OpenedTo::Keys {
        caller,
        prefix,
        rights,
    })
}

/// The rights that operations need.
fn needed_by(operations: &[Operation<'_>]) -> Rights {
    match operations.iter().all(Operation::is_lookup) {
        true => Rights::READ,
        false => WRITES,
    }
}

/// What to say of an operation that failed, unless something was done: the client does it itself,
/// and so finds the same, or it is told.
fn answered_by(error: StoreError, opened: &OpenedTo<'_>) -> Answered {
    if error.may_have_taken_effect() {
        return Answered::InDoubt;
    }
    match (opened, error) {
        (OpenedTo::All, _) => Answered::Left,
        (OpenedTo::Keys { .. }, StoreError::Index(error)) => Answered::Refused(Why::Failed(error)),
        (OpenedTo::Keys { .. }, error) => Answered::Refused(Why::Said(error.to_string())),
    }
}

/// The tables in the catalog of the only node that an endpoint reaches.
fn tables_in<E: Endpoint>(endpoint: E) -> crate::Result<Vec<TableRecord>> {
    let executor = Executor::new(Rc::new(endpoint));
    let catalog = Catalog::new(&**executor.endpoint(), NODE)?;
    Ok(executor.block_on(catalog.listing())?.tables)
}
