//! Calls whose turn is over: the owner keeps what is left of them, goes on with it in further
//! turns, of one call after the other, and answers by their tickets.
//!
//! Where the memory is mapped a thread of the service's own takes these turns, as one more client
//! of the tables: agents' threads are free meanwhile. It is there while calls are kept, and a
//! moment longer. A simulated owner has no threads, and takes them as the world's clock says
//! ([`Handler::go_on`](farslot_fabric::Handler::go_on)).
//!
//! Each operation of a kept call has an outcome already, or has changed nothing: only those are
//! begun again. One that a turn is too short for has a longer one each time, and one that would
//! have to wait is tried again after ever longer pauses.

use super::later::CallTurn;
use crate::calls::CALL_TURN;
use crate::calls::reply::{Answered, RefusalCause, ReplyWriter, Status, WrittenReply, reason_of};
use farslot_fabric::{Call, Caller, FabricError, LaterAnswer, Nanos, NodeId, Rights, Ticket};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest turn of a kept call, in nanoseconds. Other kept calls wait meanwhile.
pub(super) const LONGEST_TURN: Nanos = 64 * CALL_TURN;
/// The first pause before what would have had to wait is tried again, in nanoseconds, and the
/// longest.
const FIRST_PAUSE: Nanos = 50_000;
const LONGEST_PAUSE: Nanos = 10_000_000;
/// The most calls that a node keeps, and the most bytes of their requests and replies, of which the
/// clients of a grant have half. A connection has no more than its fabric holds back for it.
const MOST_CALLS: usize = 1024;
const MOST_BYTES: usize = 64 << 20;
/// How long the thread stays when there is nothing to do. Its open tables keep the node's memory.
const IDLE: Duration = Duration::from_millis(100);

/// What a turn has left of a call.
pub(super) struct RestOfCall {
    /// How far the reply is filled.
    pub(super) written: WrittenReply,
    /// The numbers of the operations that have no outcome. Those have changed nothing.
    pub(super) left: Vec<u32>,
    pub(super) ended: CallTurn,
    pub(super) caller: KeptCaller,
    /// How long the client waits, from when its call came.
    pub(super) patience: Nanos,
    /// The id of the table that what is left may write to, where any client may.
    pub(super) written_to: Option<u64>,
}

impl RestOfCall {
    /// Ends the reply, with the same answer to all that is left; returns its bytes.
    pub(super) fn finish(&self, reply: &mut [u8], answered: &Answered) -> usize {
        let mut writer = ReplyWriter::resume(reply, self.written);
        for number in &self.left {
            writer.put(*number as usize, answered);
        }
        writer.finish()
    }

    /// What there is to say of what is left where the table cannot be used any more.
    fn refusal(&self, status: Status) -> Answered {
        match self.caller.keys {
            None => Answered::Left,
            Some(_) => Answered::Refused(RefusalCause::Said(reason_of(Some(status)).into())),
        }
    }
}

/// The caller of a kept call, with what was opened to it: one whose grant is revoked loses its
/// connection soon, and so its calls.
pub(super) struct KeptCaller {
    /// What its keys begin with and its rights to them; nothing if all of the table is open.
    pub(super) keys: Option<(Box<[u8]>, Rights)>,
    pub(super) grant: Option<Box<str>>,
}

impl Caller for KeptCaller {
    fn check(&self, _: Range<u64>, _: Rights) -> Result<(), FabricError> {
        match self.keys {
            None => Ok(()),
            Some(_) => Err(FabricError::KeyRefused { node: NodeId(0) }),
        }
    }

    fn keys(&self, _: Range<u64>) -> Option<(&[u8], Rights)> {
        let (prefix, rights) = self.keys.as_ref()?;
        Some((prefix, *rights))
    }

    fn grant(&self) -> Option<&str> {
        self.grant.as_deref()
    }
}

/// A call that is kept.
pub(super) struct KeptCall {
    pub(super) request: Box<[u8]>,
    /// All the room that the caller gave.
    pub(super) reply: Vec<u8>,
    pub(super) rest: Box<RestOfCall>,
    /// How long its next turn is.
    pub(super) turn: Nanos,
    ticket: Ticket,
    pause: Nanos,
    /// When its next turn may begin, and when no other begins, by the owner's clock.
    due: Nanos,
    deadline: Nanos,
}

impl KeptCall {
    /// A call after its first turn.
    fn new(call: &Call<'_>, rest: Box<RestOfCall>, ticket: Ticket) -> Self {
        let mut reply = vec![0; call.reply.len()];
        let written = rest.written.bytes();
        reply[..written].copy_from_slice(&call.reply[..written]);
        let mut kept = Self {
            request: call.request.into(),
            reply,
            turn: CALL_TURN,
            ticket,
            pause: FIRST_PAUSE,
            due: call.now,
            deadline: call.now.saturating_add(rest.patience),
            rest,
        };
        kept.plan(call.now);
        kept
    }

    /// Whether somebody waits for the answer still.
    pub(super) fn is_awaited(&self) -> bool {
        self.ticket.is_awaited()
    }

    /// Whether the client's patience is at its end.
    pub(super) const fn is_overdue(&self, now: Nanos) -> bool {
        now >= self.deadline
    }

    /// Plans the next turn, by how the last has ended.
    pub(super) fn plan(&mut self, now: Nanos) {
        self.due = now;
        let ended = &self.rest.ended;
        if ended.done() > 0 {
            self.pause = FIRST_PAUSE;
        } else if ended.is_over && self.turn < LONGEST_TURN {
            self.turn *= 2;
        } else {
            self.due = now.saturating_add(self.pause).min(self.deadline);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Answers with so many bytes of the reply.
    pub(super) fn answer(mut self, bytes: usize) {
        self.reply.truncate(bytes);
        self.ticket.answer(self.reply);
    }

    /// Answers, with the same of all that is left.
    pub(super) fn finish(mut self, answered: &Answered) {
        let bytes = self.rest.finish(&mut self.reply, answered);
        self.answer(bytes);
    }

    /// Answers that the rest of the call cannot be executed.
    pub(super) fn refuse(self, status: Status) {
        let answered = self.rest.refusal(status);
        self.finish(&answered);
    }

    /// Bytes that a call takes while it is kept.
    pub(super) const fn bytes_of(request: &[u8], reply: &[u8]) -> usize {
        request.len() + reply.len()
    }
}

/// The calls of a service that are kept.
#[derive(Default)]
pub(super) struct KeptCalls {
    state: Mutex<KeptState>,
    changed: Condvar,
}

#[derive(Default)]
struct KeptState {
    /// Those that have no turn now. Of those of a grant the first that is due has the next.
    waiting: VecDeque<KeptCall>,
    /// What each grant has of all of them.
    shares: HashMap<Option<Box<str>>, KeptShare>,
    /// Turns so far.
    turns: u64,
    /// Whether one came that the thread has not seen.
    is_new: bool,
    /// Whether there is a thread, or one ends.
    is_working: bool,
    worker: Option<JoinHandle<()>>,
    is_ended: bool,
}

/// The calls of the clients of a grant.
#[derive(Clone, Copy, Default)]
struct KeptShare {
    calls: usize,
    bytes: usize,
    /// Which turn was the last that one of them had.
    last_turn: u64,
}

impl KeptShare {
    /// Whether another call of so many bytes is within one of so many parts of what a node keeps.
    const fn has_room(&self, bytes: usize, parts: usize) -> bool {
        self.calls < MOST_CALLS / parts && self.bytes + bytes <= MOST_BYTES / parts
    }
}

impl KeptState {
    /// Whether another call of so many bytes may be kept for a grant; that of all of the memory
    /// has no limit of its own.
    fn has_room(&self, bytes: usize, grant: Option<&str>) -> bool {
        let mut all = KeptShare::default();
        for share in self.shares.values() {
            all.calls += share.calls;
            all.bytes += share.bytes;
        }
        let own = self.shares.get(&grant.map(Into::into));
        let own = own.copied().unwrap_or_default();
        all.has_room(bytes, 1) && (grant.is_none() || own.has_room(bytes, 2))
    }
}

impl KeptCalls {
    fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is left of a call, and answers it later. Gives it back where its client does not
    /// wait, where there is no room for more, and where it needs a thread and there is none. That
    /// goes on as it is told until there is nothing to go on with: it waits so long between two
    /// turns, or, without a time, until another call is kept.
    pub(super) fn keep(
        self: &Arc<Self>,
        call: &Call<'_>,
        rest: Box<RestOfCall>,
        by_thread: Option<impl Fn() -> Option<Option<Duration>> + Send + 'static>,
    ) -> Result<LaterAnswer, Box<RestOfCall>> {
        let bytes = KeptCall::bytes_of(call.request, call.reply);
        let mut state = self.state();
        let has_room = state.has_room(bytes, rest.caller.grant());
        if rest.patience == 0 || state.is_ended || !has_room {
            return Err(rest);
        }
        if let Some(go_on) = by_thread.filter(|_| !state.is_working) {
            let kept = Arc::clone(self);
            let thread = std::thread::Builder::new().name("farslot-calls".into());
            match thread.spawn(move || kept.work(go_on)) {
                Ok(worker) => state.worker = Some(worker),
                Err(error) => {
                    log::warn!("no thread goes on with calls whose turn is over: {error}");
                    return Err(rest);
                }
            }
            state.is_working = true;
        }
        let share = state.shares.entry(rest.caller.grant.clone()).or_default();
        share.calls += 1;
        share.bytes += bytes;
        let (ticket, later) = call.later();
        state.waiting.push_back(KeptCall::new(call, rest, ticket));
        state.is_new = true;
        self.changed.notify_one();
        Ok(later)
    }

    /// The call that has the next turn: of the grant that has waited for one for the longest. If
    /// none is due now, when one is.
    pub(super) fn take_due(&self, now: Nanos) -> Result<KeptCall, Option<Nanos>> {
        let state = &mut *self.state();
        let mut shares: Vec<_> = state.shares.iter_mut().collect();
        shares.sort_by_key(|(grant, share)| (share.last_turn, *grant));
        for (grant, share) in shares {
            let is_next = |call: &KeptCall| call.due <= now && call.rest.caller.grant == *grant;
            let next = state.waiting.iter().position(is_next);
            if let Some(call) = next.and_then(|at| state.waiting.remove(at)) {
                state.turns += 1;
                share.last_turn = state.turns;
                return Ok(call);
            }
        }
        Err(state.waiting.iter().map(|call| call.due).min())
    }

    /// Whether some call waits for its next turn.
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Has a call wait for its next turn, behind the others.
    pub(super) fn put_back(&self, call: KeptCall) {
        let mut state = self.state();
        if !state.is_ended {
            return state.waiting.push_back(call);
        }
        drop(state);
        drop(call);
    }

    /// Forgets a call of so many bytes for a grant, which is answered or not awaited any more.
    pub(super) fn forget(&self, bytes: usize, grant: Option<Box<str>>) {
        if let Entry::Occupied(mut share) = self.state().shares.entry(grant) {
            share.get_mut().calls -= 1;
            share.get_mut().bytes -= bytes;
            if share.get().calls == 0 {
                share.remove();
            }
        }
    }

    /// Keeps nothing from now on. The clients of what was kept are told that nobody answers.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        let mut state = self.state();
        state.is_ended = true;
        let dropped = std::mem::take(&mut state.waiting);
        let worker = state.worker.take();
        self.changed.notify_all();
        drop(state);
        drop(dropped);
        worker
    }

    /// Goes on for as long as there are calls.
    fn work(&self, go_on: impl Fn() -> Option<Option<Duration>>) {
        let _panic = EndOnPanic(self);
        while let Some(pause) = go_on() {
            if pause != Some(Duration::ZERO) && !self.wait(pause) {
                return;
            }
        }
    }

    /// Waits for so long, or until another call is kept. Without a time it waits for a moment;
    /// false if the thread is to end then.
    fn wait(&self, pause: Option<Duration>) -> bool {
        let state = self.state();
        let is_idle = |state: &mut KeptState| !state.is_new && !state.is_ended;
        let waited = self
            .changed
            .wait_timeout_while(state, pause.unwrap_or(IDLE), is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let goes_on = !state.is_ended && (state.is_new || !state.waiting.is_empty());
        state.is_new = false;
        state.is_working = goes_on;
        goes_on
    }
}

/// Nothing is kept where nobody goes on with it.
struct EndOnPanic<'k>(&'k KeptCalls);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_fabric::{OwnerMemory, RegionId, Result};

    /// Nothing here reaches it.
    struct NoMemory;

    impl OwnerMemory for NoMemory {
        fn bytes(&self) -> u64 {
            0
        }

        fn load(&self, _: u64) -> Result<u64> {
            unreachable!()
        }

        fn store(&mut self, _: u64, _: u64) -> Result<()> {
            unreachable!()
        }

        fn compare_swap(&mut self, _: u64, _: u64, _: u64) -> Result<u64> {
            unreachable!()
        }

        fn copy_out(&self, _: u64, _: &mut [u64]) -> Result<()> {
            unreachable!()
        }

        fn copy_in(&mut self, _: u64, _: &[u64]) -> Result<()> {
            unreachable!()
        }
    }

    /// Has a call at time 0 kept, with so many bytes of reply, of which one of two operations is
    /// done.
    fn keep(
        kept: &Arc<KeptCalls>,
        room: usize,
        patience: Nanos,
    ) -> std::result::Result<LaterAnswer, Box<RestOfCall>> {
        keep_for(kept, room, patience, None)
    }

    /// The same for a client of a grant.
    fn keep_for(
        kept: &Arc<KeptCalls>,
        room: usize,
        patience: Nanos,
        grant: Option<&str>,
    ) -> std::result::Result<LaterAnswer, Box<RestOfCall>> {
        let mut reply = vec![0xee; room];
        let mut writer = ReplyWriter::new(&mut reply, 2).unwrap();
        writer.put(1, &Answered::InDoubt);
        let rest = Box::new(RestOfCall {
            written: writer.written(),
            left: vec![0],
            ended: turn(1, true),
            caller: KeptCaller {
                keys: None,
                grant: grant.map(Into::into),
            },
            patience,
            written_to: None,
        });
        let call = Call {
            region: RegionId(0),
            now: 0,
            request: &[7; 100],
            memory: &mut NoMemory,
            reply: &mut reply,
            caller: &|_: Range<u64>, _: Rights| Ok(()),
        };
        kept.keep(&call, rest, None::<fn() -> _>)
    }

    fn turn(done: usize, is_over: bool) -> CallTurn {
        CallTurn {
            operations: done + 1,
            cut: 1,
            later: 1,
            is_over,
        }
    }

    #[test]
    fn what_is_kept_has_limits_and_goes_with_its_callers() {
        for (room, most) in [(24, MOST_CALLS), (1 << 20, (64 << 20) / ((1 << 20) + 100))] {
            let kept = Arc::<KeptCalls>::default();
            assert!(keep(&kept, room, 0).is_err());
            let mut held: Vec<_> = (0..most)
                .map(|_| keep(&kept, room, 1_000_000).ok().unwrap())
                .collect();
            assert!(keep(&kept, room, 1_000_000).is_err());
            // One whose caller is gone leaves room for another.
            held.pop();
            let is_gone = (0..most).filter(|_| {
                let call = kept.take_due(0).ok().unwrap();
                let is_gone = !call.is_awaited();
                match is_gone {
                    true => kept.forget(KeptCall::bytes_of(&call.request, &call.reply), None),
                    false => kept.put_back(call),
                }
                is_gone
            });
            assert_eq!(is_gone.count(), 1);
            held.push(keep(&kept, room, 1_000_000).ok().unwrap());
            assert!(keep(&kept, room, 1_000_000).is_err());
            kept.end();
            assert!(matches!(kept.take_due(u64::MAX), Err(None)));
            assert!(keep(&kept, room, 1_000_000).is_err());
        }
    }

    #[test]
    fn no_grant_keeps_others_from_room_or_turns() {
        for (room, most) in [
            (24, MOST_CALLS / 2),
            (1 << 20, (32 << 20) / ((1 << 20) + 100)),
        ] {
            let kept = Arc::<KeptCalls>::default();
            let keep = |grant| keep_for(&kept, room, 1_000_000, Some(grant));
            let mut held: Vec<_> = (0..most).map(|_| keep("many").ok().unwrap()).collect();
            assert!(keep("many").is_err());
            held.push(keep("one").ok().unwrap());
            // Their turns come one after the other.
            let mut of_one = 0;
            for _ in 0..10 {
                let call = kept.take_due(0).ok().unwrap();
                of_one += u32::from(call.rest.caller.grant() == Some("one"));
                kept.put_back(call);
            }
            assert_eq!(of_one, 5);
        }
    }

    #[test]
    fn turns_become_longer_where_they_are_too_short_and_pauses_where_others_are_awaited() {
        let kept = Arc::<KeptCalls>::default();
        let _later = keep(&kept, 1_000, 3 * LONGEST_PAUSE).ok().unwrap();
        let mut call = kept.take_due(0).ok().unwrap();
        assert_eq!(&*call.request, &[7; 100]);
        let mut planned = |now, ended| {
            call.rest.ended = ended;
            call.plan(now);
            (call.turn, call.due)
        };
        assert_eq!(planned(10, turn(1, true)), (CALL_TURN, 10));
        assert_eq!(planned(20, turn(0, true)), (2 * CALL_TURN, 20));
        assert_eq!(planned(30, turn(0, true)), (4 * CALL_TURN, 30));
        let waits = (4 * CALL_TURN, 40 + FIRST_PAUSE);
        assert_eq!(planned(40, turn(0, false)), waits);
        let waits = (4 * CALL_TURN, 50 + 2 * FIRST_PAUSE);
        assert_eq!(planned(50, turn(0, false)), waits);
        assert_eq!(planned(60, turn(1, false)), (4 * CALL_TURN, 60));
        let waits = (4 * CALL_TURN, 70 + FIRST_PAUSE);
        assert_eq!(planned(70, turn(0, false)), waits);
        for _ in 0..20 {
            planned(80, turn(0, true));
        }
        let longest = (LONGEST_TURN, 80 + LONGEST_PAUSE);
        assert_eq!(planned(80, turn(0, true)), longest);
        // Its time ends between two turns.
        let end = 3 * LONGEST_PAUSE;
        assert_eq!(planned(end - 5, turn(0, true)), (LONGEST_TURN, end));
        kept.put_back(call);
        assert!(matches!(kept.take_due(end - 1), Err(Some(at)) if at == end));
        assert!(kept.take_due(end).is_ok_and(|call| call.is_overdue(end)));
    }
}
