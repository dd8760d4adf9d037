//! The client that asks the owner, as an [`Index`].

use super::asking::{CallOptions, OutcomeCallback, Owner};
use super::single_keys::SingleKeys;
use crate::calls::reply::{Answered, Status, outcomes, status_of};
use crate::calls::request::{MOST_BYTES, Question, operation_bytes};
use farslot_fabric::{Endpoint, EndpointExt, FabricError, Nanos, both};
use farslot_index::{
    Admin, AdminOutcome, Answers, BoxFuture, ClientState, Cursor, Got, Index, IndexExt, Operation,
    Outcome, Outcomes, Result, UPKEEP, Waits, WriterChange,
};
use std::cell::RefCell;
use std::rc::Rc;

/// An index whose operations the owner executes where it does; the others are the index's own.
pub struct CallingIndex<E, I: ?Sized> {
    index: Rc<I>,
    owner: Owner<E>,
}

impl<E: Endpoint> CallingIndex<E, SingleKeys<E>> {
    /// A client that may use single keys of the table; nothing if that is not what its grant opens,
    /// as the owner says.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn of_single_keys(endpoint: &Rc<E>, options: CallOptions) -> Result<Option<Self>> {
        let index = SingleKeys {
            endpoint: Rc::clone(endpoint),
            node: options.table.node,
        };
        let mut calling = CallingIndex::new(Rc::new(index), Rc::clone(endpoint), options);
        calling.owner.is_alone = true;
        let owner = &calling.owner;
        let asking = owner.ask(Question::Opened, &[], &[], 0);
        let reply = owner.endpoint.operation(UPKEEP, asking).await?;
        let mut is_opened = false;
        outcomes(reply, |_, answered, _| {
            is_opened = answered == Answered::Done(Outcome::Changed(true));
        });
        Ok(is_opened.then_some(calling))
    }
}

impl<E: Endpoint, I: Index + ?Sized> CallingIndex<E, I> {
    /// The index, with the owner of its memory asked first.
    #[must_use]
    pub const fn new(index: Rc<I>, endpoint: Rc<E>, options: CallOptions) -> Self {
        let owner = Owner::new(endpoint, options);
        Self { index, owner }
    }

    /// Asks whether the owner answers calls for the table.
    ///
    /// # Errors
    /// What the fabric says; [`FabricError::NoHandler`] where the owner executes nothing on the
    /// table, [`FabricError::Reclaimed`] where the table is gone.
    pub async fn check_owner(&self) -> Result<()> {
        let owner = &self.owner;
        let (node, region) = (owner.options.table.node, owner.options.table.region);
        let none = FabricError::NoHandler { node, region };
        let reply = owner.ask(Question::Run, &[], &[], 0).await?;
        match status_of(&reply) {
            Some((Status::Done, _)) => Ok(()),
            Some((Status::NoTable, _)) => {
                let at = owner.options.table;
                Err(FabricError::Reclaimed { at }.into())
            }
            _ => Err(none.into()),
        }
    }

    /// The owner, if it is asked for such an operation.
    fn owner_for(&self, operation: &Operation<'_>) -> Option<&Owner<E>> {
        let owner = &self.owner;
        let writes = owner.options.writes && !owner.is_writer.get();
        let asked = !owner.is_silent.get() && (writes || operation.is_lookup());
        let bytes = operation_bytes(operation)?;
        (asked && bytes <= MOST_BYTES).then_some(owner)
    }

    /// Runs one operation.
    async fn run_one(&self, operation: Operation<'_>) -> Result<Outcome> {
        let Some(owner) = self.owner_for(&operation) else {
            return self.run_one_alone(operation).await;
        };
        let asking = owner.ask_one(operation);
        match owner.endpoint.operation(operation.class(), asking).await {
            Ok(answered) => match owner.outcome_of(answered) {
                Some(outcome) => outcome,
                None => self.run_one_alone(operation).await,
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Runs one operation without the owner.
    async fn run_one_alone(&self, operation: Operation<'_>) -> Result<Outcome> {
        let outcome = self.index.run(operation).await;
        if !operation.is_lookup() {
            self.let_others_write().await;
        }
        outcome
    }

    /// The owner reports what it has done for this client too. Where it may not any more, nobody
    /// can.
    async fn flush_both(&self) -> Result<AdminOutcome> {
        if self.owner.has_written.take() {
            match self.owner.ask(Question::Flush, &[], &[], 0).await {
                Err(error) if error.may_have_taken_effect() => return Err(error.into()),
                _ => {}
            }
        }
        self.index.admin(Admin::Flush).await
    }

    /// Where any number of clients write, it is nothing to be one of them. A client that can do
    /// nothing itself leaves all writes to the owner.
    async fn write_oneself(&self, change: WriterChange) -> Result<AdminOutcome> {
        let end = self.index.admin(Admin::ChangeWriter(change)).await;
        if end.is_ok() && self.owner.options.one_writer && !self.owner.is_alone {
            self.owner.is_writer.set(change != WriterChange::Resign);
        }
        end
    }

    /// After writes by this client itself: the owner may be the writer again.
    async fn let_others_write(&self) {
        let owner = &self.owner;
        let shares = owner.options.writes && owner.options.one_writer;
        if shares && !owner.is_writer.get() && !owner.is_silent.get() {
            // One that could not resign is the writer on, and resigns after its next write.
            let _ = self.index.change_writer(WriterChange::Resign).await;
        }
    }

    /// Runs many operations: by calls, and what is left by itself.
    async fn run_called(&self, operations: &[Operation<'_>], done: &OutcomeCallback<'_>) {
        let left = self.ask_many(operations, done).await;
        self.run_own(operations, &left, done).await;
    }

    /// Asks for many operations; returns the numbers of those that the owner has left to the
    /// client.
    async fn ask_many(
        &self,
        operations: &[Operation<'_>],
        done: &OutcomeCallback<'_>,
    ) -> Vec<usize> {
        let (called, direct): (Vec<_>, Vec<_>) = (0..operations.len())
            .partition(|number| self.owner_for(&operations[*number]).is_some());
        // Those that are not asked for begin at once.
        let asking = self.owner.ask_for_all(operations, &called, done);
        let (left, ()) = both(asking, self.run_own(operations, &direct, done)).await;
        left
    }

    /// Runs some of many operations without the owner.
    async fn run_own(
        &self,
        operations: &[Operation<'_>],
        numbers: &[usize],
        done: &OutcomeCallback<'_>,
    ) {
        if numbers.is_empty() {
            return;
        }
        let direct: Vec<_> = numbers.iter().map(|number| operations[*number]).collect();
        let tell = |at: usize, outcome| {
            (done.borrow_mut())(Outcomes::One(numbers[at], outcome));
        };
        self.index.run_each(&direct, tell).await;
        if direct.iter().any(|operation| !operation.is_lookup()) {
            self.let_others_write().await;
        }
    }
}

impl<E: Endpoint, I: Index + ?Sized> Index for CallingIndex<E, I> {
    fn waits(&self) -> Waits {
        self.index.waits()
    }

    fn get<'s>(&'s self, key: &'s [u8]) -> BoxFuture<'s, Got> {
        Box::pin(async move {
            let got = self.run_one(Operation::Get(key)).await;
            got.map(Outcome::into_value)
        })
    }

    fn run<'s>(&'s self, operation: Operation<'s>) -> BoxFuture<'s, Result<Outcome>> {
        Box::pin(self.run_one(operation))
    }

    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(async move {
            let gets: Vec<_> = keys.iter().copied().map(Operation::Get).collect();
            let mut done = |outcomes: Outcomes<'_>| {
                done(outcomes.map_one(|_, outcome| outcome.map(Outcome::into_value)));
            };
            self.run_called(&gets, &RefCell::new(&mut done)).await;
        })
    }

    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(async move { self.run_called(operations, &RefCell::new(done)).await })
    }

    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> BoxFuture<'s, Result<Option<Cursor>>> {
        self.index.scan(cursor, most, visit)
    }

    fn admin<'s>(&'s self, request: Admin<'s>) -> BoxFuture<'s, Result<AdminOutcome>> {
        match request {
            Admin::Flush => Box::pin(self.flush_both()),
            Admin::ChangeWriter(change) => Box::pin(self.write_oneself(change)),
            _ => self.index.admin(request),
        }
    }

    fn state(&self) -> ClientState {
        self.index.state()
    }

    fn now(&self) -> Nanos {
        self.index.now()
    }

    fn is_up(&self) -> bool {
        self.index.is_up()
    }
}
