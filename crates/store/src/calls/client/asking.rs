//! Asking an owner: for operations on the keys of a table, and, for clients that may not read its
//! catalog, for what there is to know of its tables.

use crate::calls::reply::{
    Answered, RefusalCause, ReplyWriter, Status, outcomes, reason_of, status_of,
};
use crate::calls::request::{MOST_BYTES, Question, RequestWriter, operation_bytes};
use farslot_fabric::{
    Accounting, Buffer, Endpoint, EndpointExt, FabricError, NodeId, RegionId, RemoteAddr, window,
};
use farslot_index::{IndexError, KeptAnswers, Operation, Outcome, Outcomes, Result, UPKEEP, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Calls of a batch that are under way at once: while the owner works on one, the client makes the
/// next.
const CALLS_AT_ONCE: usize = 4;
/// Operations of a call of several: about what an owner's turn has room for. It goes on with the
/// others beside other calls, which takes a thread more.
const MOST_AT_ONCE: usize = 256;
/// Values after which the room for others is chosen anew.
const VALUES_SEEN: u32 = 64;
/// The room for a value is so many times what the largest of those took, and no less than this.
const SLACK: usize = 4;
const LEAST_ROOM: usize = 1 << 10;
/// Bytes of a reply in which an owner says why operations failed that only it can do.
const ROOM_FOR_REASONS: usize = 512;

/// Which operations the owner is asked for, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallOptions {
    /// The table's first byte.
    pub table: RemoteAddr,
    /// What the owner knows the table by: never the same for two tables, one of which lies where
    /// the other did.
    pub id: u64,
    /// Whether it is asked for writes too, which needs atomics of its processors that are atomic
    /// against those of clients.
    pub writes: bool,
    /// Whether one client writes at a time. The owner is the writer for as long as a call lasts; so
    /// is the client, for as long as it does by itself what the owner has left to it.
    pub one_writer: bool,
    /// Bytes of the longest value.
    pub longest_value: usize,
}

/// Is told the outcome of each operation of a batch: nobody else borrows it while it is called, for
/// a callback that uses the table begins a batch of its own. Of one type, so that batches are
/// compiled once.
pub(super) type OutcomeCallback<'d> = RefCell<&'d mut dyn FnMut(Outcomes<'_>)>;

/// What a client learns of an operation that it has asked for.
type OperationAnswer = std::result::Result<Answered, FabricError>;

/// The owner of a table, as a client asks it.
pub(super) struct Owner<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) options: CallOptions,
    /// Whether nobody answers calls there.
    pub(super) is_silent: Cell<bool>,
    /// Whether it was asked to write since it last reported.
    pub(super) has_written: Cell<bool>,
    /// Whether only the owner can do anything, and says why it does not.
    pub(super) is_alone: bool,
    /// Whether this client was told to be the one writer itself, until it resigns.
    pub(super) is_writer: Cell<bool>,
    /// Bytes that a reply has room for, of each value that it may have.
    value_room: Cell<usize>,
    /// The largest of the values that have come since that was chosen, and how many came.
    largest: Cell<(usize, u32)>,
}

impl<E: Endpoint> Owner<E> {
    pub(super) const fn new(endpoint: Rc<E>, options: CallOptions) -> Self {
        Self {
            endpoint,
            options,
            is_silent: Cell::new(false),
            has_written: Cell::new(false),
            is_alone: false,
            is_writer: Cell::new(false),
            value_room: Cell::new(options.longest_value),
            largest: Cell::new((0, 0)),
        }
    }

    /// What became of an operation, as the owner says; nothing of one that it leaves to the client.
    pub(super) fn outcome_of(&self, answered: Answered) -> Option<Result<Outcome>> {
        match &answered {
            Answered::Done(Outcome::Value(Some(value))) => self.note_value(value.len()),
            // There may have been no room for its value.
            Answered::Left => self.value_room.set(self.options.longest_value),
            _ => {}
        }
        match answered {
            Answered::Done(outcome) => Some(Ok(outcome)),
            Answered::InDoubt => Some(Err(IndexError::TurnOver { in_doubt: true })),
            Answered::Unfinished => Some(Err(IndexError::TurnOver { in_doubt: false })),
            Answered::Left => None,
            Answered::Refused(why) => Some(Err(self.refused(why))),
        }
    }

    /// Chooses the room for values by what they take: a table may admit very long ones and have
    /// none, and the room is memory at both sides.
    fn note_value(&self, bytes: usize) {
        let (largest, seen) = self.largest.get();
        let (largest, seen) = (largest.max(bytes), seen + 1);
        if seen < VALUES_SEEN {
            return self.largest.set((largest, seen));
        }
        let room = (largest * SLACK).max(LEAST_ROOM);
        self.value_room.set(room.min(self.options.longest_value));
        self.largest.set((0, 0));
    }

    /// The error of an operation that the owner refused.
    fn refused(&self, why: RefusalCause) -> IndexError {
        let at_owner = |reason| IndexError::AtOwner {
            reason,
            in_doubt: false,
        };
        match why {
            RefusalCause::Key => FabricError::KeyRefused {
                node: self.options.table.node,
            }
            .into(),
            RefusalCause::Ending => FabricError::Ending {
                node: self.options.table.node,
            }
            .into(),
            RefusalCause::NoRoom => {
                at_owner(format!("its values take more than {MOST_BYTES} bytes"))
            }
            RefusalCause::Failed(error) => error,
            RefusalCause::Said(reason) => at_owner(reason),
        }
    }

    /// What there is to say of operations that a call was not executed for.
    fn unanswered(&self, status: Option<Status>) -> Answered {
        match status {
            _ if !self.is_alone => Answered::Left,
            Some(Status::Denied) => Answered::Refused(RefusalCause::Key),
            status => Answered::Refused(RefusalCause::Said(reason_of(status).into())),
        }
    }

    /// Bytes that the outcome's values may take.
    fn room_for(&self, operation: &Operation<'_>) -> usize {
        match operation {
            Operation::Get(_) | Operation::FindOrPut(..) if !self.is_alone => self.value_room.get(),
            Operation::Get(_) | Operation::FindOrPut(..) => self.options.longest_value,
            Operation::GetAll(_) if self.is_alone => MOST_BYTES,
            // Of more records than that has room for the client reads the values itself.
            Operation::GetAll(_) => 4 * (self.options.longest_value + 8),
            Operation::Put(..)
            | Operation::Update(..)
            | Operation::Replace(..)
            | Operation::Remove(_)
            | Operation::RemoveIf(..) => 0,
        }
    }

    /// Which operations go in which call: as many as fit. Two calls where one would do, to overlap,
    /// were slower over loopback: what they save is less than a frame more costs at both sides.
    fn calls_of(&self, operations: &[Operation<'_>], numbers: &[usize]) -> Vec<Vec<usize>> {
        let mut calls = Vec::new();
        let (mut call, mut bytes, mut room) = (Vec::new(), 0, 0);
        for number in numbers {
            let operation = &operations[*number];
            let more = (
                operation_bytes(operation).unwrap_or(0),
                self.room_for(operation).min(MOST_BYTES),
            );
            let is_full = call.len() == MOST_AT_ONCE
                || bytes + more.0 > MOST_BYTES
                || room + more.1 > MOST_BYTES;
            if is_full && !call.is_empty() {
                calls.push(std::mem::take(&mut call));
                (bytes, room) = (0, 0);
            }
            call.push(*number);
            (bytes, room) = (bytes + more.0, room + more.1);
        }
        if !call.is_empty() {
            calls.push(call);
        }
        calls
    }

    /// Calls the owner with some of many operations.
    pub(super) async fn ask(
        &self,
        question: Question,
        operations: &[Operation<'_>],
        numbers: &[usize],
        room: usize,
    ) -> std::result::Result<Buffer, FabricError> {
        let items = || numbers.iter().map(|number| &operations[*number]);
        let bytes = items().map(|operation| operation_bytes(operation).unwrap_or(0));
        let bytes = RequestWriter::bytes(bytes.sum());
        let mut request = self.endpoint.core().buffers.take(bytes)?;
        let table = self.options.table;
        // The answer has to come before the fabric gives it up.
        let patience = self.endpoint.core().limits.verb_timeout / 4 * 3;
        let of = (self.options.id, patience);
        let mut writer = RequestWriter::new(&mut request, question, of, numbers.len());
        items().for_each(|operation| writer.put(operation));
        if has_writes(operations, numbers) {
            self.has_written.set(true);
        }
        let room = match self.is_alone {
            true => room + ROOM_FOR_REASONS,
            false => room,
        };
        let room = ReplyWriter::bytes(numbers.len(), room);
        let to = (table.node, table.region);
        let reply = self.endpoint.call(to, request, room).await;
        let is_silent = match &reply {
            Err(FabricError::NoHandler { .. } | FabricError::CallsUnsupported { .. }) => true,
            // It knows another version of requests.
            Ok(reply) => matches!(status_of(reply), Some((Status::Malformed, _))) && !self.is_alone,
            Err(_) => false,
        };
        if is_silent {
            self.is_silent.set(true);
        }
        reply
    }

    /// Asks for many operations. Returns the numbers of those that are left to the client.
    pub(super) async fn ask_for_all(
        &self,
        operations: &[Operation<'_>],
        numbers: &[usize],
        done: &OutcomeCallback<'_>,
    ) -> Vec<usize> {
        let left = RefCell::default();
        let calls = self.calls_of(operations, numbers);
        let ask = |numbers| self.ask_for(operations, numbers, (done, &left));
        let asking = calls.iter().map(|of| ask(&of[..]));
        window(CALLS_AT_ONCE, asking, |_, ()| ()).await;
        left.into_inner()
    }

    /// Whether the client does an operation by verbs that the owner has not come to. Of a table's
    /// one writer at a time it waits for its turn: it would have to become the writer, and keep
    /// others out.
    fn can_be_left(&self, operation: &Operation<'_>) -> bool {
        !self.is_alone && (operation.is_lookup() || !self.options.one_writer)
    }

    /// Asks for one operation.
    pub(super) async fn ask_one(&self, operation: Operation<'_>) -> OperationAnswer {
        let room = self.room_for(&operation);
        let reply = match self.ask(Question::Run, &[operation], &[0], room).await {
            Ok(reply) => reply,
            Err(error) => return self.told_by(error),
        };
        let mut answer = None;
        let status = status_of(&reply).map(|(status, _)| status);
        outcomes(reply, |_, answered, _| answer = Some(answered));
        Ok(self.fitting(&operation, answer, status))
    }

    /// Asks for some of many operations by one call, and counts each. The numbers of those that the
    /// owner leaves to the client come into `left`.
    async fn ask_for(
        &self,
        operations: &[Operation<'_>],
        numbers: &[usize],
        (done, left): (&OutcomeCallback<'_>, &RefCell<Vec<usize>>),
    ) {
        let tell = |number: usize, answer: OperationAnswer| {
            let outcome = match answer {
                Ok(answered) => self.outcome_of(answered),
                Err(error) => Some(Err(error.into())),
            };
            match outcome {
                Some(outcome) => (done.borrow_mut())(Outcomes::One(number, outcome)),
                None => left.borrow_mut().push(number),
            }
        };
        let items = numbers.iter().map(|number| &operations[*number]);
        let room = items.map(|operation| self.room_for(operation)).sum();
        let reply = match self.ask(Question::Run, operations, numbers, room).await {
            Ok(reply) => reply,
            Err(error) => {
                let failure = self.told_by(error);
                return numbers
                    .iter()
                    .for_each(|number| tell(*number, failure.clone()));
            }
        };
        let status = status_of(&reply).map(|(status, _)| status);
        let mut is_told = vec![false; numbers.len()];
        let mut calls = 1;
        let first = numbers.first().copied().unwrap_or_default();
        // Only of those that stand one behind the other answers can be told together.
        let is_run = numbers
            .last()
            .is_some_and(|last| last - first + 1 == numbers.len());
        let mut kept = KeptAnswers::default();
        outcomes(reply, |at, answered, bytes| {
            let Some(is_told) = is_told.get_mut(at).filter(|is_told| !**is_told) else {
                return;
            };
            *is_told = true;
            let operation = &operations[numbers[at]];
            let answered = self.fitting(operation, Some(answered), status);
            if !matches!(answered, Answered::Left | Answered::Unfinished) {
                let sent = operation_bytes(operation).unwrap_or(0);
                let mut accounting = Accounting::default();
                accounting.called(std::mem::take(&mut calls), (sent + bytes) as u64);
                let counters = &self.endpoint.core().counters;
                counters.operation_ended(operation.class(), accounting);
            }
            match &answered {
                Answered::Done(Outcome::Value(value))
                    if is_run && kept.keep_one(at, value.as_ref()) =>
                {
                    value.iter().for_each(|value| self.note_value(value.len()));
                }
                _ => tell(numbers[at], Ok(answered)),
            }
        });
        (done.borrow_mut())(Outcomes::Small(kept.behind(first)));
        let untold = numbers.iter().zip(is_told).filter(|(_, is_told)| !is_told);
        for (number, _) in untold {
            let answered = self.fitting(&operations[*number], None, status);
            tell(*number, Ok(answered));
        }
    }

    /// What a call's failure tells of its operations: those that were not carried are the client's
    /// own, if it can do any.
    fn told_by(&self, error: FabricError) -> OperationAnswer {
        match error.may_have_taken_effect() || self.is_alone {
            true => Err(error),
            false => Ok(Answered::Left),
        }
    }

    /// What an owner has said of an operation, if it can be so; else the operation is in doubt, or,
    /// where the owner has done nothing of the call or the operation changes nothing, the client's
    /// own.
    fn fitting(
        &self,
        operation: &Operation<'_>,
        answer: Option<Answered>,
        status: Option<Status>,
    ) -> Answered {
        match answer {
            Some(Answered::InDoubt) if operation.is_lookup() => match self.is_alone {
                true => Answered::Unfinished,
                false => Answered::Left,
            },
            Some(Answered::Unfinished) if self.can_be_left(operation) => Answered::Left,
            Some(answered) if answered.fits(operation) => answered,
            _ if status == Some(Status::Done) && !operation.is_lookup() => Answered::InDoubt,
            _ => self.unanswered(status),
        }
    }
}

/// Whether some of the operations with these numbers are no lookups.
fn has_writes(operations: &[Operation<'_>], numbers: &[usize]) -> bool {
    numbers
        .iter()
        .any(|number| !operations[*number].is_lookup())
}

/// Asks the owner of a region one of the questions about tables; `number` stands in place of a
/// table's id. Returns the values of its answer with their numbers, in the order in which they
/// came. The reply has room for `values` of them, which take `bytes` together: that bounds what a
/// hostile owner can answer. What the values say is not looked at.
///
/// # Errors
/// What the fabric says; [`IndexError::AtOwner`] if the owner refuses, or its answer makes no
/// sense.
pub async fn ask_of_tables<E: Endpoint>(
    endpoint: &E,
    to: (NodeId, RegionId),
    (question, number): (Question, u64),
    (values, bytes): (usize, usize),
) -> Result<Vec<(usize, Value)>> {
    let mut request = endpoint.core().buffers.take(RequestWriter::bytes(0))?;
    RequestWriter::new(&mut request, question, (number, 0), 0);
    let asking = endpoint.call(to, request, ReplyWriter::bytes(values, bytes));
    let reply = endpoint.operation(UPKEEP, asking).await?;
    let head = status_of(&reply);
    let mut entries = Vec::new();
    outcomes(reply, |number, answered, _| {
        if let Answered::Done(Outcome::Value(Some(value))) = answered {
            entries.push((number, value));
        }
    });
    match head {
        Some((Status::Done, count)) if count as usize == entries.len() => Ok(entries),
        head => Err(IndexError::AtOwner {
            reason: reason_of(head.map(|(status, _)| status)).into(),
            in_doubt: false,
        }),
    }
}

/// Asks the owner of a table that is made of segments for memory for one of them, by its number in
/// the table's list; false if there is none, or the owner does not say.
///
/// # Errors
/// What the fabric says.
pub(crate) async fn ask_to_provide<E: Endpoint>(
    endpoint: &E,
    to: (NodeId, RegionId),
    (table, number): (u64, u64),
) -> std::result::Result<bool, FabricError> {
    let key = number.to_le_bytes();
    let operation = Operation::Get(&key);
    let bytes = operation_bytes(&operation).unwrap_or(0);
    let buffers = &endpoint.core().buffers;
    let mut request = buffers.take(RequestWriter::bytes(bytes))?;
    let mut writer = RequestWriter::new(&mut request, Question::Provide, (table, 0), 1);
    writer.put(&operation);
    let reply = endpoint.call(to, request, ReplyWriter::bytes(1, 0)).await?;
    let mut is_provided = false;
    outcomes(reply, |_, answered, _| {
        is_provided = answered == Answered::Done(Outcome::Changed(true));
    });
    Ok(is_provided)
}
