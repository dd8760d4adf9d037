//! The databases that SELECT chooses among: a table of the store for each, made when it is first
//! written to.

use farslot::{ErrorKind, Result, Store, StoreError, Table, TableOptions};

/// How many databases there are, as in Redis.
pub(crate) const DATABASES: u8 = 16;

/// One thread's way to all of them.
pub(crate) struct Databases {
    store: Store,
    tables: Vec<Option<Table>>,
}

/// The table of a database.
pub(crate) fn table_name(number: u8) -> String {
    format!("redis-{number}")
}

impl Databases {
    pub(crate) fn new(store: Store) -> Self {
        let tables = (0..DATABASES).map(|_| None).collect();
        Self { store, tables }
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

    /// A database's table, which is made if there is none: as one is made without numbers.
    pub(crate) fn made(&mut self, number: u8) -> Result<&Table> {
        if self.existing(number)?.is_none() {
            match self
                .store
                .create(&table_name(number), &TableOptions::default())
            {
                Ok(_) | Err(StoreError::TableExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let name = table_name(number);
        let gone = StoreError::TableGone { name };
        self.existing(number)?.ok_or(gone)
    }

    /// Whether an error says that the table was dropped, emptied or renamed meanwhile. Then it is
    /// opened again when it is next used.
    pub(crate) fn is_gone(&mut self, number: u8, error: &StoreError) -> bool {
        let is_gone = error.kind() == ErrorKind::TableGone;
        if is_gone {
            self.tables[usize::from(number)] = None;
        }
        is_gone
    }
}
