//! What a node answers calls for, by number: one registry.
//!
//! Operations on tables are never repeated by their callers, and need no session. Transactions, and
//! changes of the tables that the owner writes itself, are executed at most once however often they
//! are asked for ([`farslot_rpc`]).

use super::service::{CallService, Memory};
use crate::calls::request::Question;
use crate::catalog::{ReplacedIds, closed, id_at, record_of};
use farslot_fabric::sim::World;
use farslot_fabric::{NodeId, OwnerMemory, Rights};
use farslot_remote::{DENIED, ENDING, ObjectId};
use farslot_rpc::{Fault, RpcServerOptions, Server};
use farslot_txn::{Asked, Kept, OwnerOptions, Tables};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The most tables that are remembered: another is found in the catalog, in place of all others.
const MOST_KNOWN: usize = 1024;
/// How often a table is renamed, at the most, while something of it is locked.
const MOST_NAMES: u32 = 8;
/// Bytes of a request, and of a reply: of one's changes at one node, of a few records.
const MOST_BYTES: u32 = 256 << 10;
/// Clients at a time that the node keeps replies for, and requests of each.
const SESSIONS: u16 = 4096;
const SLOTS: u16 = 32;

/// One registry has no number twice: the versions of requests differ.
const _: () = assert!(Question::Run.method() as u8 != farslot_remote::LOOKUP as u8);

/// What a node answers calls for: operations on its tables, and transactions over those that it
/// writes itself. Sessions are numbered from `first_session` on.
pub(crate) fn serve_all(service: Arc<CallService>, first_session: u64) -> Server {
    let mut server = Server::new(RpcServerOptions {
        sessions: SESSIONS,
        slots: SLOTS,
        largest_request: MOST_BYTES,
        largest_reply: MOST_BYTES,
        methods_check_callers: true,
        first_session,
        ..RpcServerOptions::default()
    });
    for question in Question::ALL {
        server.register_without_session(question.method(), service.clone());
    }
    farslot_txn::serve(
        &mut server,
        StoredTables::default(),
        OwnerOptions::default(),
    );
    server
}

/// Has the owners of simulated nodes answer calls, and again whenever they come back.
pub(crate) fn serve_simulated(world: &World, nodes: u16) {
    for node in (0..nodes).map(NodeId) {
        let node = world.node_handle(node);
        node.serve_calls(|| {
            let service = CallService::new(Memory::Lent, Rights::ALL);
            Arc::new(serve_all(service, 0))
        });
    }
}

/// The tables in the catalog of a node.
#[derive(Default)]
struct StoredTables {
    known: Mutex<HashMap<u64, RegisteredTable>>,
    replaced: Mutex<ReplacedIds>,
}

#[derive(Clone)]
struct RegisteredTable {
    kept: Kept,
    extent: Range<u64>,
    /// Where the table's id stands while it is there.
    id_at: u64,
}

impl StoredTables {
    fn known(&self, id: u64, memory: &dyn OwnerMemory) -> Result<Option<RegisteredTable>, Fault> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(record) = record_of(memory, id)? else {
            return Ok(None);
        };
        let Some(kept) = record.scheme.owned_at(record.offset) else {
            return Ok(None);
        };
        let known = RegisteredTable {
            kept,
            extent: record.extent(),
            id_at: id_at(NodeId(0), &record).offset,
        };
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(id, known.clone());
        Ok(Some(known))
    }
}

impl Tables for StoredTables {
    fn find(&self, object: ObjectId, asked: Asked<'_>) -> Result<Option<Kept>, Fault> {
        let (mut id, mut names) = (object.0, 0);
        let (known, word) = loop {
            if let Some(known) = self.known(id, asked.memory)? {
                // The memory of one that was dropped is no other's for longer than a call takes.
                let word = asked.memory.load(known.id_at)?;
                if word == id || word == closed(id) {
                    break (known, word);
                }
                let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                all.remove(&id);
            }
            // What was locked before the table had another name is locked still.
            let renamed = asked.ends.then(|| {
                let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
                replaced.find(asked.memory, id)
            });
            match renamed.transpose()?.flatten() {
                Some(next) if names < MOST_NAMES => (id, names) = (next, names + 1),
                _ => return Ok(None),
            }
        };
        if asked.needed != Rights::NONE {
            let checked = asked.caller.check(known.extent, asked.needed);
            checked.map_err(|_| Fault::Refused(DENIED))?;
            if word == closed(id) && asked.needed.allow(Rights::WRITE) && !asked.ends {
                return Err(Fault::Refused(ENDING));
            }
        }
        Ok(Some(known.kept))
    }
}
