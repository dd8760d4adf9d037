//! A table that a thread has open for its callers: what is opened of it to whom, and the turns of
//! their calls.

use super::kept::{KeptCaller, LONGEST_TURN};
use super::later::CallTurn;
use crate::StoreError;
use crate::calls::CALL_TURN;
use crate::calls::reply::{Answered, RefusalCause, ReplyWriter, Status};
use crate::catalog::closed;
use crate::lease::Leased;
use crate::session::Session;
use farslot_fabric::{
    Caller, Endpoint, Executor, Nanos, OwnerEndpoint, OwnerMemory, Rights, WorkLimit,
};
use farslot_index::{Admin, IndexError, Operation, Outcomes};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// What a write needs.
pub(super) const WRITES: Rights = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
/// Operations of a call that run side by side: of the schemes' own batches. Between such groups the
/// time is looked at.
const LOOKUPS_AT_ONCE: usize = 128;
const OPERATIONS_AT_ONCE: usize = 32;
/// Of the first group, which is done whatever it takes. One has twice as many as the one before if
/// that took little of the turn.
const FIRST_AT_ONCE: usize = 8;
/// What operations may wait that do not know of the call's turn, in nanoseconds: what still waits
/// then is given up.
const UNFORESEEN: Nanos = 20_000;

/// A table that a thread has open.
pub(super) struct OwnerTable {
    pub(super) session: Box<dyn Session>,
    /// What the session works over.
    pub(super) endpoint: Rc<Leased>,
    /// The number of the last call for it.
    pub(super) called: u64,
    /// The table's name.
    pub(super) name: String,
    pub(super) id: u64,
    /// Where the id stands in the catalog while the table is there.
    pub(super) id_at: u64,
    pub(super) extent: Range<u64>,
    /// What of the extent is the scheme's.
    pub(super) table_bytes: Range<u64>,
    pub(super) writes: bool,
    /// Whether it takes no writes any more, as was seen at the beginning of the call.
    pub(super) is_closed: bool,
    pub(super) has_one_writer: bool,
    /// The most operations of a turn.
    pub(super) most_in_turn: usize,
    /// What the session's memory is lent to.
    pub(super) lent: Option<Rc<OwnerEndpoint>>,
}

impl OwnerTable {
    /// Whether the table is still there. Its memory is no other table's for some time after it was
    /// dropped: longer than a call takes.
    pub(super) fn is_in(&self, memory: &dyn OwnerMemory) -> bool {
        memory.load(self.id_at) == Ok(self.id) || self.is_closed_in(memory)
    }

    /// Whether it takes no writes any more: the last snapshots begin after a longer time than a
    /// call takes.
    pub(super) fn is_closed_in(&self, memory: &dyn OwnerMemory) -> bool {
        memory.load(self.id_at) == Ok(closed(self.id))
    }

    /// Reports what was done for callers, as far as it comes within a turn.
    pub(super) fn flush(&self) -> crate::Result<()> {
        let _limit = self.limit(CALL_TURN);
        self.session.client().admin(Admin::Flush).map(drop)
    }

    /// Makes room for records before callers need it, for so many nanoseconds at most; true if that
    /// took as long, so that there may be more to do.
    pub(super) fn clean_ahead(&self, turn: Nanos) -> bool {
        let began = self.endpoint.now();
        let _limit = self.limit(turn);
        // Who needs room makes it itself where this fails.
        let cleaned = self.session.client().admin(Admin::CleanAhead);
        cleaned.is_ok() && self.endpoint.now().saturating_sub(began) >= turn
    }

    /// Has the table have a segment of that number, within a turn; false if there is none.
    pub(super) fn provide(&self, number: u64) -> bool {
        let _limit = self.limit(CALL_TURN);
        let executor = Executor::new(Rc::clone(&self.endpoint));
        let providing = self.endpoint.provide_segment(number);
        executor.block_on(providing) == Ok(true)
    }

    /// Has the session work for so long, and never wait.
    fn limit(&self, turn: Nanos) -> WorkLimit<'_> {
        let until = self.endpoint.now().saturating_add(turn);
        self.endpoint.core().limit_work(until)
    }

    /// Runs operations of a caller to whom so much is opened, in a turn of so many nanoseconds: all
    /// of a call, or those that are left of it. Says in the reply what became of each; returns the
    /// numbers of those that it did not come to, and what became of the turn.
    pub(super) fn run(
        &self,
        (operations, left): (&[Operation<'_>], Option<&[u32]>),
        writer: &mut ReplyWriter<'_>,
        opened: &OpenedTo<'_>,
        turn: Nanos,
    ) -> (Vec<u32>, CallTurn) {
        let undone = |operation| self.not_executed(operation, opened);
        if left.is_none() && !operations.iter().any(|of| undone(of).is_some()) {
            return self.run_all(operations, (opened, turn), writer, |number| number);
        }
        let mut executed = Vec::new();
        let mut each = |number: usize| match undone(&operations[number]) {
            Some(answered) => writer.put(number, &answered),
            None => executed.push(number),
        };
        match left {
            None => (0..operations.len()).for_each(each),
            Some(left) => left.iter().for_each(|number| each(*number as usize)),
        }
        let all: Vec<_> = executed.iter().map(|number| operations[*number]).collect();
        self.run_all(&all, (opened, turn), writer, |at| executed[at])
    }

    /// What to say of an operation that is not executed for a caller; nothing of one that is.
    pub(super) fn not_executed(
        &self,
        operation: &Operation<'_>,
        opened: &OpenedTo<'_>,
    ) -> Option<Answered> {
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
                    return Some(Answered::Refused(RefusalCause::Key));
                }
                let why = "it executes no writes of such a table";
                (!is_executed).then(|| match self.is_closed {
                    true => Answered::Refused(RefusalCause::Ending),
                    false => Answered::Refused(RefusalCause::Said(why.into())),
                })
            }
        }
    }

    /// Runs operations that all are executed, until the turn is over; each has the number in the
    /// reply that is given for its place here.
    fn run_all(
        &self,
        operations: &[Operation<'_>],
        (opened, turn): (&OpenedTo<'_>, Nanos),
        writer: &mut ReplyWriter<'_>,
        number_of: impl Fn(usize) -> usize,
    ) -> (Vec<u32>, CallTurn) {
        let most_at_once = match operations.iter().all(Operation::is_lookup) {
            true => LOOKUPS_AT_ONCE,
            false => OPERATIONS_AT_ONCE,
        };
        // Those that a turn was too short for end one after the other rather than none of them.
        let mut at_once = match turn > CALL_TURN {
            true => 1,
            false => FIRST_AT_ONCE,
        };
        let _limit = self.limit(turn);
        let may_work = || self.endpoint.core().may_work(|| self.endpoint.now());
        let most = operations.len().min(self.most_in_turn);
        let (mut begun, mut cut) = (0, Vec::new());
        // One group at least, so that every call that may work comes to something.
        while begun < most && turn > 0 && (begun == 0 || may_work()) {
            let group = &operations[begun..][..at_once.min(most - begun)];
            let since = self.endpoint.now();
            self.run_group(group, opened, writer, |at| number_of(begun + at), &mut cut);
            begun += group.len();
            if self.endpoint.now().saturating_sub(since) < turn / 8 {
                at_once = most_at_once.min(2 * at_once);
            }
        }
        // Those that would have had to wait would in the next turn as well: clients with verbs wait
        // by themselves. Where the time has ended too, they are told so then.
        let is_over = turn > 0 && !may_work();
        let of_cut = match opened {
            OpenedTo::All if !is_over => Some(Answered::Left),
            OpenedTo::All if turn >= LONGEST_TURN => Some(Answered::Unfinished),
            _ => None,
        };
        let were_cut = cut.len();
        if let Some(answered) = of_cut {
            let mut numbers = cut.drain(..);
            numbers
                .by_ref()
                .for_each(|number| writer.put(number, &answered));
        }
        let undone = (begun..operations.len()).map(&number_of);
        let left: Vec<u32> = undone.chain(cut).map(|number| number as u32).collect();
        let ended = CallTurn {
            operations: operations.len(),
            cut: were_cut,
            later: left.len(),
            is_over,
        };
        (left, ended)
    }

    /// Runs operations side by side. The numbers in the reply of those that the end of the turn has
    /// cut come into `cut`.
    fn run_group(
        &self,
        operations: &[Operation<'_>],
        opened: &OpenedTo<'_>,
        writer: &mut ReplyWriter<'_>,
        number_of: impl Fn(usize) -> usize,
        cut: &mut Vec<usize>,
    ) {
        let mut is_told = vec![false; operations.len()];
        let are_gets = operations.iter().all(|of| matches!(of, Operation::Get(_)));
        let left = Cell::new(UNFORESEEN);
        self.session
            .run_many(Some(&left), operations, &mut |outcomes| match outcomes {
                Outcomes::Small(small) if are_gets => small.each(|at, value| {
                    is_told[at] = true;
                    writer.put_value(number_of(at), value);
                }),
                outcomes => outcomes.each_of(operations, |at, outcome| {
                    is_told[at] = true;
                    let number = number_of(at);
                    match outcome {
                        Ok(outcome) => writer.put(number, &Answered::Done(outcome)),
                        Err(error) if was_cut(&error) => cut.push(number),
                        Err(error) => writer.put(number, &answered_by(error, opened)),
                    }
                }),
            });
        // What was given up may have been on its way.
        for (at, _) in is_told.iter().enumerate().filter(|(_, is_told)| !**is_told) {
            match operations[at].is_lookup() {
                true => cut.push(number_of(at)),
                false => writer.put(number_of(at), &Answered::InDoubt),
            }
        }
    }
}

/// Whether an operation has ended with the call's turn, and has changed nothing.
const fn was_cut(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Index(IndexError::TurnOver { in_doubt: false })
    )
}

/// What of a table is opened to a caller.
pub(super) enum OpenedTo<'c> {
    /// All of its bytes.
    All,
    /// Keys with a prefix.
    Keys {
        caller: &'c dyn Caller,
        prefix: &'c [u8],
        rights: Rights,
    },
}

impl OpenedTo<'_> {
    /// Whoever it is opened to, without the connection.
    pub(super) fn kept(&self, caller: &dyn Caller) -> KeptCaller {
        let keys = match *self {
            Self::All => None,
            Self::Keys { prefix, rights, .. } => Some((prefix.into(), rights)),
        };
        let grant = caller.grant().map(Into::into);
        KeptCaller { keys, grant }
    }
}

/// What is opened of a table of such an extent, of which `own` is the scheme's, to a caller who
/// needs these rights; to one with a prefix, whatever its rights.
pub(super) fn opened_to<'c>(
    caller: &'c dyn Caller,
    (extent, table_bytes): (Range<u64>, Range<u64>),
    needed: Rights,
) -> Result<OpenedTo<'c>, Status> {
    if caller.check(extent, needed).is_ok() {
        return Ok(OpenedTo::All);
    }
    let (prefix, rights) = caller.keys(table_bytes).ok_or(Status::Denied)?;
    Ok(OpenedTo::Keys {
        caller,
        prefix,
        rights,
    })
}

/// The rights that operations need.
pub(super) fn needed_by(operations: &[Operation<'_>]) -> Rights {
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
        (OpenedTo::Keys { .. }, StoreError::Index(error)) => {
            Answered::Refused(RefusalCause::Failed(error))
        }
        (OpenedTo::Keys { .. }, error) => Answered::Refused(RefusalCause::Said(error.to_string())),
    }
}
