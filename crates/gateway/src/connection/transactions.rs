//! MULTI, EXEC and what belongs to them.
//!
//! The queue of a transaction has its requests as they came. EXEC parses them again, into a tick of
//! their own, which runs while no other tick does. So the same code executes commands in
//! transactions and outside of them.
//!
//! If the tick of a connection has too little room left for a transaction, EXEC waits for the next
//! tick. If a transaction needs more than a tick may take, EXEC fails before anything is done. Only
//! behind a command that runs by itself (KEYS, MSETNX and so on) the rest of the commands fail
//! where there is no room for them.

use super::{Execution, ExecutionStop, Requests};
use crate::commands::{self, Command, Request, Session, Transaction};
use crate::databases::Databases;
use crate::failure::Failure;
use crate::frame::RequestParser;
use crate::gathered::{Answer, ConnectionOutcome, Gathered, Longest};
use crate::reply::{OK, Reply};
use crate::tick::{TickRoom, TickSteps};
use crate::transaction::Queue;
use crate::watch::{self, WatchRegistry, WatchedKey};
use farslot::{BatchError, Expiry};
use std::time::Instant;

/// What a transaction answers, and the bytes that it has taken.
struct Executed {
    reply: Reply<'static>,
    taken: usize,
}

impl<'r> Requests<'_, 'r> {
    /// Whether a request is queued for EXEC.
    pub(super) fn is_queued(&self, request: &Result<Request<'_>, Failure>) -> bool {
        let is_done_at_once = match request {
            Ok(Request::Transaction(of)) => !matches!(of, Transaction::Unwatch),
            Ok(Request::Session(of)) => matches!(of, Session::Quit | Session::Reset),
            _ => false,
        };
        self.choices.queue.is_some() && !is_done_at_once
    }

    /// What a client is told whose request has failed by its name or the number of its arguments.
    pub(super) fn refused(&mut self, arguments: &[&[u8]], failure: Failure) -> Failure {
        let is_exec = commands::named(arguments[0]).is_some_and(|(_, of)| of.name == "exec");
        // As in Redis, even outside of a transaction.
        if is_exec {
            self.choices.discard();
            return failure.discards();
        }
        self.choices.abort();
        failure
    }

    /// Queues a command for EXEC, or has EXEC do nothing if it is refused.
    pub(super) fn enqueue(
        &mut self,
        tick: &mut TickSteps<'r>,
        command: &Command,
        request: &Result<Request<'r>, Failure>,
        bytes: &[u8],
    ) -> Result<Answer<'r>, ExecutionStop> {
        let queued = self.check_and_push(tick, command, request, bytes);
        if let Err(ExecutionStop::Failed(_)) = queued {
            self.choices.abort();
        }
        queued.map(|()| Answer::Queued)
    }

    fn check_and_push(
        &mut self,
        tick: &mut TickSteps<'r>,
        command: &Command,
        request: &Result<Request<'r>, Failure>,
        bytes: &[u8],
    ) -> Result<(), ExecutionStop> {
        self.check_queued(command, request)?;
        // Room for its bytes. EXEC takes room for what it does.
        tick.take_besides(self.by, 0, bytes.len())?;
        if let Some(queue) = &mut self.choices.queue {
            queue.push(bytes, request.as_ref().ok())?;
        }
        Ok(())
    }

    fn check_queued(
        &self,
        command: &Command,
        request: &Result<Request<'r>, Failure>,
    ) -> Result<(), Failure> {
        match (request, &self.choices.user, &self.choices.queue) {
            // A wrong secret costs a rest, which EXEC cannot take.
            _ if matches!(command.name, "auth" | "hello") => Err(Failure::NotInMulti),
            (Err(failure), _, _) if failure.is_no_command() => Err(failure.clone()),
            (Ok(request), Some(user), Some(queue)) => {
                user.check_request(command, queue.database, request)
            }
            _ => Ok(()),
        }
    }

    /// Does what begins or ends a transaction, or is a condition of one.
    pub(super) fn transaction(
        &mut self,
        tick: &mut TickSteps<'r>,
        of: Transaction<'r>,
    ) -> Result<Answer<'r>, ExecutionStop> {
        if self.execution.is_some() {
            // UNWATCH: EXEC forgets the watched keys in any case.
            return Ok(Answer::Ready(OK));
        }
        // Steps before it may be cut, and then it is read again.
        if self.has_steps {
            return Err(ExecutionStop::Later);
        }
        if let Transaction::Exec = of {
            return self.exec(tick);
        }
        tick.take_besides(self.by, 0, 0)?;
        let is_in_multi = self.choices.queue.is_some();
        match of {
            Transaction::Multi if is_in_multi => return Err(Failure::NestedMulti.into()),
            Transaction::Multi => self.choices.queue = Some(Queue::new(self.choices.database)),
            Transaction::Discard if !is_in_multi => return Err(Failure::NoMulti("DISCARD").into()),
            Transaction::Discard => self.choices.discard(),
            Transaction::Watch(_) if is_in_multi => return Err(Failure::WatchInMulti.into()),
            Transaction::Watch(keys) => self.watch(tick.now, &keys)?,
            Transaction::Unwatch | Transaction::Exec => self.choices.watched.clear(),
        }
        Ok(Answer::Ready(OK))
    }

    fn watch(&mut self, now: u64, keys: &[&[u8]]) -> Result<(), Failure> {
        let (database, watches) = (self.choices.database, &self.shared.watches);
        let watched = &mut self.choices.watched;
        let new = watched.new_ones(database, keys);
        let (bytes, limit) = (watched.bytes_with(&new), watch::MOST_BYTES);
        if bytes > limit {
            return Err(Failure::ManyWatched { bytes, limit });
        }
        let before = watched.keys().len();
        let exclusive = watches.exclusive();
        watched.add(database, &new);
        drop(exclusive);
        // From here on ticks count what they write, so this may read what one of them has written.
        let read = fingerprints(self.databases, watches, database, &new, now);
        let records = read.inspect_err(|_| watched.truncate(before))?;
        for (key, record) in watched.keys_mut()[before..].iter_mut().zip(records) {
            key.record = record;
        }
        Ok(())
    }

    /// Executes the queued commands while no other tick does.
    fn exec(&mut self, tick: &mut TickSteps<'r>) -> Result<Answer<'r>, ExecutionStop> {
        let is_first = tick.is_empty();
        let Some(queue) = self.choices.queue.take() else {
            return Err(Failure::NoMulti("EXEC").into());
        };
        if queue.is_aborted() {
            self.choices.discard();
            return Err(Failure::Aborted.into());
        }
        // Once a command has run by itself, it is too late to wait for room.
        if queue.has_whole() && !is_first {
            self.choices.queue = Some(queue);
            return Err(ExecutionStop::Full);
        }
        let (since, database) = (Instant::now(), self.choices.database);
        let given = tick.take_rest();
        let executed = self.execute(&queue, tick.room_within(given));
        tick.note_apart(since.elapsed());
        match executed {
            Ok(Executed { reply, taken }) => {
                tick.give_back(self.by, given, reply.bytes());
                tick.charge(taken);
                self.choices.discard();
                Ok(Answer::Apart(reply))
            }
            Err(ExecutionStop::Failed(failure)) => {
                tick.give_back(self.by, given, 0);
                self.choices.discard();
                Err(failure.discards().into())
            }
            Err(_) => {
                tick.give_back(self.by, given, 0);
                self.choices.database = database;
                if is_first {
                    self.choices.discard();
                    let limit = given;
                    return Err(Failure::LongReply { limit }.discards().into());
                }
                self.choices.queue = Some(queue);
                Err(ExecutionStop::Full)
            }
        }
    }

    /// Fails with [`ExecutionStop::Full`] if there is no room, and nothing was done.
    fn execute(&mut self, queue: &Queue, room: TickRoom) -> Result<Executed, ExecutionStop> {
        let (shared, watches) = (self.shared, &*self.shared.watches);
        let nil = Executed {
            reply: Reply::NullArray,
            taken: 0,
        };
        if self.has_changed(Expiry::now())? {
            return Ok(nil);
        }
        let (mut parser, mut output) = (RequestParser::default(), Vec::new());
        let exclusive = watches.exclusive();
        let (since, now) = (Instant::now(), Expiry::now());
        if self.choices.watched.is_touched(now) {
            return Ok(nil);
        }
        let mut tick = TickSteps::of_transaction(now, room);
        let mut requests = Requests {
            by: tick.admit(),
            input: queue.requests(),
            at: 0,
            parser: &mut parser,
            choices: &mut *self.choices,
            shared,
            databases: &mut *self.databases,
            has_steps: false,
            answers: Vec::new(),
            is_ending: false,
            execution: Some(Execution::default()),
        };
        let (mut waits, mut has_more) = (false, false);
        while requests.at < requests.input.len()
            && requests.next(&mut tick, &mut waits, &mut has_more)
        {}
        let is_read = requests.at == requests.input.len();
        if !is_read || requests.run_steps(&mut tick).is_err() {
            let execution = requests.execution.take().unwrap_or_default();
            if !execution.has_run {
                return Err(ExecutionStop::Full);
            }
            let failure = Failure::LongReply {
                limit: room.together,
            };
            tick.refuse(&failure);
            while requests.answers.len() < queue.commands() {
                requests.push(None, Answer::Ready(Reply::Error(failure.clone())));
            }
        }
        drop(exclusive);
        let took = since.elapsed().saturating_sub(tick.apart());
        let mut longest = shared.slow_log.is_slow(took).then(Longest::default);
        let count = requests.answers.len();
        let gathered = Gathered {
            by: requests.by,
            input: requests.input,
            choices: requests.choices,
            output: &mut output,
            parser: requests.parser,
            answers: requests.answers,
            done: ConnectionOutcome {
                bytes: requests.input.len(),
                ..ConnectionOutcome::WAITS
            },
        };
        gathered.finish(&mut tick, shared, longest.as_mut());
        if let Some(longest) = longest {
            longest.remember(shared, took);
        }
        let taken = tick.taken();
        let encoded = output;
        Ok(Executed {
            reply: Reply::Bulks { count, encoded },
            taken,
        })
    }

    /// Whether a watched key has another record than it had: another client of the store has
    /// changed it, or it has ended.
    fn has_changed(&mut self, now: u64) -> Result<bool, Failure> {
        let watches = &*self.shared.watches;
        let keys = self.choices.watched.keys();
        for keys in keys.chunk_by(|one, next| one.database == next.database) {
            let names: Vec<&[u8]> = keys.iter().map(|of| &*of.key).collect();
            let database = keys[0].database;
            let records = fingerprints(self.databases, watches, database, &names, now)?;
            let is_same = |(of, record): (&WatchedKey, _)| of.record == record;
            if !keys.iter().zip(records).all(is_same) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What stands for the records of keys in a database: when each ends and the fingerprint of its
/// value; nothing of a key without one that is alive.
fn fingerprints(
    databases: &mut Databases,
    watches: &WatchRegistry,
    database: u8,
    keys: &[&[u8]],
    now: u64,
) -> Result<Vec<Option<(Expiry, u64)>>, Failure> {
    let mut records = vec![None; keys.len()];
    for may_be_gone in [true, false] {
        let Some(table) = databases.existing(database)? else {
            break;
        };
        let got = table.get_many(keys, |number, record| {
            records[number] = record
                .and_then(|record| Expiry::living(record, now))
                .map(|(expiry, value)| (expiry, watches.fingerprint(value)));
        });
        match got.map_err(BatchError::into_first) {
            Ok(()) => break,
            Err(error) if databases.is_gone(database, &error) && may_be_gone => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(records)
}
