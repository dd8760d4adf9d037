//! Finding all records of a key, in steps.

use super::client::{Key, LinearTable};
use super::lookup::{LinearWalkSlowPath, Search, WalkTarget};
use crate::slot::KeyRule;
use crate::step::{Lookup, NextStep, ReadPieces, ValueLocation, run};
use crate::{Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece, Pieces};
use std::cell::RefCell;

/// Lookups of one key's records, and those that were found.
struct AllRecords<'t, E> {
    table: &'t LinearTable<E>,
    values: RefCell<Vec<Value>>,
}

impl<E: Endpoint> LinearTable<E> {
    /// The values of all records of a key.
    pub(super) async fn values_of(&self, key: &[u8]) -> Result<Vec<Value>> {
        let all = AllRecords {
            table: self,
            values: RefCell::default(),
        };
        run(&all, key).await?;
        Ok(all.values.into_inner())
    }
}

impl<E: Endpoint> AllRecords<'_, E> {
    fn ended(&self, search: &Search) -> NextStep<LinearWalkSlowPath> {
        self.table.lookup_took(search.reads);
        NextStep::Absent
    }
}

impl<E: Endpoint> Lookup for AllRecords<'_, E> {
    const LOOKS_ON: bool = true;

    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = LinearWalkSlowPath;

    fn endpoint(&self) -> &E {
        &self.table.endpoint
    }

    fn in_place(&self) -> Option<InPlace<'_>> {
        self.table.in_place()
    }

    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.table.checked_key(bytes)
    }

    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<LinearWalkSlowPath> {
        search.begin(WalkTarget::Record, self.table.until_all());
        match self.table.refresh_is_due() {
            true => NextStep::SlowPath(LinearWalkSlowPath::Refresh),
            false => self.table.begin_reading(key, search),
        }
    }

    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        self.table.piece(key, search, number)
    }

    fn pieces_ahead(&self, key: &Self::Key<'_>, search: &mut Search) -> Pieces {
        self.table.pieces_ahead(key, search)
    }

    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        let found = match self.table.walk(key, search, read) {
            NextStep::Found(found) => found,
            NextStep::Absent => return self.ended(search),
            next => return next,
        };
        let value = match found {
            ValueLocation::Word { word, len } => Value::of_word(word, len),
            ValueLocation::Value(value) => *value,
            ValueLocation::Bytes { piece, bytes } => Value::from(read.bytes_again(piece, bytes)),
        };
        self.values.borrow_mut().push(value);
        match self.table.layout.keys {
            KeyRule::Unique => self.ended(search),
            KeyRule::Multi => self.table.pass(key, search),
        }
    }

    fn read_on(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<LinearWalkSlowPath> {
        self.table.read_on(key, search)
    }

    fn gather_less(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
    ) -> Option<NextStep<LinearWalkSlowPath>> {
        self.table.gather_less(key, search)
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        slow: LinearWalkSlowPath,
    ) -> Result<NextStep<LinearWalkSlowPath>> {
        self.table.slow_path(key, search, slow).await
    }

    fn while_waiting(&self) {
        self.table.while_waiting();
    }
}
