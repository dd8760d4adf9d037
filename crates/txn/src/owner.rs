//! The owner's side: what answers requests of transactions.

use crate::books::{Owner, OwnerOptions};
use crate::kept::{CHANGES, Tables, WithoutTransactions};
use crate::procedure::Procedures;
use crate::turn::{MALFORMED, RequestTurn};
use crate::wire::{OwnerRequest, OwnerStatus, TRANSACTION, Writer, put_limit, writes_of};
use farslot_fabric::{FabricError, Rights};
use farslot_rpc::{Effect, Fault, Request, Server, put};
use std::sync::{Arc, Mutex, PoisonError};

/// Has a server answer lookups in tables and maps of its region, changes to them, and transactions
/// over them. None of them may be served by [`farslot_remote::serve`] besides.
pub fn serve(server: &mut Server, tables: impl Tables, options: OwnerOptions) {
    serve_with(server, tables, Procedures::default(), options);
}

/// As [`serve`], and has clients run these procedures by
/// [`Database::execute`](crate::Database::execute).
pub fn serve_with(
    server: &mut Server,
    tables: impl Tables,
    procedures: Procedures,
    options: OwnerOptions,
) {
    serve_owner(server, Owner::new(Arc::new(tables), options), procedures);
}

pub(crate) fn serve_owner(server: &mut Server, owner: Owner, procedures: Procedures) {
    let alone = Arc::new(Mutex::new(()));
    let plain = WithoutTransactions(Arc::clone(&owner.tables));
    farslot_remote::serve(server, plain, Arc::clone(&alone));
    let run = move |mut request: Request<'_>, reply: &mut [u8]| {
        let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = OwnerRequest::decode(request.body).ok_or(Fault::Refused(MALFORMED))?;
        let needed = match ask {
            OwnerRequest::Inquire { .. } => Rights::READ,
            _ => CHANGES,
        };
        request.memory.begin_turn();
        let turn = RequestTurn::new(&owner, &mut request, needed);
        let answered = answer(turn, ask, reply.len(), &procedures);
        let ended = request.memory.end_turn();
        if ended.is_err() {
            owner.forget_books();
        }
        match ended {
            Ok(()) => put(reply, &answered?),
            Err(FabricError::BufferTooLarge { requested, limit }) => {
                put(reply, &put_limit(OwnerStatus::TooLarge, requested, limit))
            }
            Err(_) => Err(Fault::Damaged),
        }
    };
    server.register(TRANSACTION, Effect::Once, run);
}

fn answer(
    mut turn: RequestTurn<'_>,
    ask: OwnerRequest<'_>,
    room: usize,
    procedures: &Procedures,
) -> Result<Vec<u8>, Fault> {
    let status = match ask {
        OwnerRequest::Open { node } => return turn.open(node),
        OwnerRequest::Lock {
            lock,
            opens,
            at_home,
            home,
            object,
            key,
        } => {
            let may_open = opens && turn.may_begin(lock, at_home);
            return turn.lock((lock, home), may_open, (object, key), room);
        }
        OwnerRequest::Decide {
            lock,
            done,
            home_part,
            other_parts,
        } => {
            for done in done {
                turn.forget(done, None);
            }
            turn.decide(lock, home_part, &other_parts)?
        }
        OwnerRequest::Commit {
            lock,
            reads,
            writes,
        } => return turn.commit(lock, &reads, writes),
        OwnerRequest::Execute {
            lock,
            procedure,
            input,
        } => {
            turn.check_unheld(lock)?;
            return procedures.execute(turn, (procedure, input), lock, room);
        }
        OwnerRequest::Finish { lock, part } => {
            // Without locks here, someone else has finished it.
            if turn.books.held.contains_key(&lock.word()) {
                let writes = writes_of(part).ok_or(Fault::Refused(MALFORMED))?;
                turn.finish(lock, &writes)?;
            }
            OwnerStatus::Done
        }
        OwnerRequest::Abort { lock } => {
            turn.abort(lock)?;
            OwnerStatus::Done
        }
        OwnerRequest::Resolve { lock, node } => return turn.resolve(lock, node, room),
        OwnerRequest::Inquire { lock, object, key } => {
            let status = turn.inquire(lock, object, key)?;
            let mut reply = Writer::default();
            reply.byte(status as u8);
            return Ok(turn.held_by(lock, reply));
        }
        OwnerRequest::Forget { lock, node } => {
            turn.forget(lock, Some(node));
            OwnerStatus::Done
        }
        OwnerRequest::Unfinished => return Ok(turn.unfinished(room)),
    };
    Ok(vec![status as u8])
}
