//! The databases that SELECT chooses among: a table of the store for each, made when it is first
//! written to.

use crate::record::LONGEST_VALUE;
use farslot::{
    ErrorKind, Evicting, FieldSize, Occupancy, Result, Store, StoreError, Table, TableOptions,
};

/// How many databases there are, as in Redis.
pub(crate) const DATABASES: u8 = 16;

/// One thread's way to all of them.
pub(crate) struct Databases {
    store: Store,
    tables: Vec<Option<Table>>,
    /// What those forget when they are full that are made from now on.
    evicting: Option<Evicting>,
}

/// The table of a database.
pub(crate) fn table_name(number: u8) -> String {
    format!("redis-{number}")
}

impl Databases {
    pub(crate) fn new(store: Store, evicting: Option<Evicting>) -> Self {
        let tables = (0..DATABASES).map(|_| None).collect();
        Self {
            store,
            tables,
            evicting,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// A database's table, if there is one.
    pub(crate) fn existing(&mut self, number: u8) -> Result<Option<&Table>> {
        let place = &mut self.tables[usize::from(number)];
        if place.is_none() {
            let name = table_name(number);
            *place = match self.store.stored_table(&name) {
                Err(StoreError::NoSuchTable { .. }) => None,
                // Something else than a gateway has made it.
                Ok(table) if !table.scheme().is_expiring() => {
                    return Err(StoreError::NotExpiring { name });
                }
                opened => Some(opened?),
            };
        }
        Ok(place.as_ref())
    }

    /// A database's table, which is made if there is none: as one is made without numbers,
    /// but for longer values.
    pub(crate) fn made(&mut self, number: u8) -> Result<&Table> {
        if self.existing(number)?.is_none() {
            let longest = FieldSize::UpTo(LONGEST_VALUE as u32);
            let mut options = TableOptions::default().values(longest);
            if let Some(evicting) = self.evicting {
                options = options.evicting(evicting);
            }
            match self.store.create(&table_name(number), &options) {
                Ok(_) | Err(StoreError::TableExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let name = table_name(number);
        let gone = StoreError::TableGone { name };
        self.existing(number)?.ok_or(gone)
    }

    /// What is counted of these databases, as far as they are there and can be asked.
    pub(crate) fn counted(&mut self, of: impl Fn(u8) -> bool) -> Vec<(u8, Occupancy)> {
        let counted = |number: u8| {
            let table = self.existing(number).ok()??;
            Some((number, table.occupancy().ok()?))
        };
        (0..DATABASES)
            .filter(|number| of(*number))
            .filter_map(counted)
            .collect()
    }

    /// What the first database forgets when it is full, or will if there is none yet.
    pub(crate) fn evicting(&mut self) -> Option<Evicting> {
        match self.existing(0) {
            Ok(Some(table)) => table.scheme().evicting(),
            _ => self.evicting,
        }
    }

    /// Reports what this thread has put and removed to the counts that all see.
    pub(crate) fn report(&mut self) {
        for number in 0..DATABASES {
            let Some(table) = &self.tables[usize::from(number)] else {
                continue;
            };
            // One that is gone is opened again by the next command.
            if let Err(error) = table.flush()
                && !self.is_gone(number, &error)
            {
                log::debug!("the count of database {number} is not reported: {error}");
            }
        }
    }

    /// Whether an error says that the table was dropped, cleared or renamed meanwhile. Then it is
    /// opened again when it is next used.
    pub(crate) fn is_gone(&mut self, number: u8, error: &StoreError) -> bool {
        let is_gone = error.kind() == ErrorKind::TableGone;
        if is_gone {
            self.tables[usize::from(number)] = None;
        }
        is_gone
    }
}
