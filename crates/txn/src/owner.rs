//! The owner's side: what answers requests of transactions.

use crate::kept::Structure;
use crate::procedure::Procedures;
use crate::turn::{MALFORMED, Owner, OwnerOptions, Turn};
use crate::wire::{Ask, Status, TRANSACTIONS, writes_of};
use farslot_remote::ObjectId;
use farslot_rpc::{Effect, Fault, Request, Server, put};
use std::sync::{Arc, Mutex, PoisonError};

/// Has a server answer lookups in tables and maps of its region, changes to them, and transactions
/// over them. None of them may be served by [`farslot_remote::serve`] besides.
pub fn serve(server: &mut Server, tables: &[(ObjectId, Structure)], options: OwnerOptions) {
    serve_with(server, tables, Procedures::default(), options);
}

/// As [`serve`], and has clients run these procedures by
/// [`Database::execute`](crate::Database::execute).
pub fn serve_with(
    server: &mut Server,
    tables: &[(ObjectId, Structure)],
    procedures: Procedures,
    options: OwnerOptions,
) {
    serve_owner(server, Owner::new(tables, options), procedures);
}

pub(crate) fn serve_owner(server: &mut Server, owner: Owner, procedures: Procedures) {
    let alone = Arc::new(Mutex::new(()));
    for (object, table) in &owner.tables {
        table.serve(server, ObjectId(*object), Arc::clone(&alone));
    }
    let (_, method) = TRANSACTIONS.methods();
    let run = move |request: Request<'_>, reply: &mut [u8]| {
        let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = Ask::decode(request.body).ok_or(Fault::Refused(MALFORMED))?;
        let turn = Turn {
            owner: &owner,
            books: owner.books(),
            memory: request.memory,
            now: request.now,
        };
        let bytes = answer(turn, ask, reply.len(), &procedures)?;
        put(reply, &bytes)
    };
    server.register(method, Effect::Once, run);
}

fn answer(
    mut turn: Turn<'_>,
    ask: Ask<'_>,
    room: usize,
    procedures: &Procedures,
) -> Result<Vec<u8>, Fault> {
    let status = match ask {
        Ask::Open => return turn.open(),
        Ask::Lock {
            lock,
            opens,
            object,
            key,
        } => return turn.lock(lock, opens, object, key, room),
        Ask::Decide {
            lock,
            done,
            own,
            others,
        } => {
            for done in done {
                turn.books.decided.remove(&done.word());
            }
            turn.decide(lock, own, &others)?
        }
        Ask::Commit {
            lock,
            reads,
            writes,
        } => return turn.commit(lock, &reads, writes),
        Ask::Execute {
            lock,
            procedure,
            input,
        } => return procedures.execute(turn, (procedure, input), lock, room),
        Ask::Finish { lock, part } => {
            // Without locks here, someone else has finished it.
            if turn.books.held.contains_key(&lock.word()) {
                let writes = writes_of(part).ok_or(Fault::Refused(MALFORMED))?;
                turn.apply(lock, &writes)?;
            }
            Status::Done
        }
        Ask::Abort { lock } => {
            turn.release(lock)?;
            Status::Done
        }
        Ask::Resolve { lock, node } => return turn.resolve(lock, node, room),
        Ask::Inquire { lock, object, key } => turn.inquire(lock, object, key)?,
        Ask::Forget { lock, node } => {
            turn.forget(lock, node);
            Status::Done
        }
        Ask::Unfinished => return Ok(turn.unfinished(room)),
    };
    Ok(vec![status as u8])
}
