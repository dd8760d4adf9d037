//! A design beside a cache of answers: one budget of the client's memory for both (section V-B,
//! figure 11).

use super::design::{InsertionMoves, SizedTable, TableDesign};
use super::trial::TableTrial;
use crate::{LabError, Result};
use farslot::fabric::{Endpoint, Nanos, RemoteAddr};
use farslot::index::cache::{CacheOptions, Cached};
use std::marker::PhantomData;
use std::rc::Rc;

/// A design with a cache of what its index leaves of the trial's `client_bytes`. One client has the
/// table, so that what it keeps is never out of date.
pub(crate) struct WithCache<D>(PhantomData<D>);

impl<D: TableDesign> TableDesign for WithCache<D> {
    type Table<E: Endpoint> = Cached<D::Table<E>>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        D::table_bytes(trial)
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>> {
        let opened = D::create(endpoint, at, trial)?;
        let (of_index, all) = (
            D::local_bytes(&opened.table),
            trial.client_bytes.unwrap_or(0),
        );
        let Some(bytes) = all.checked_sub(of_index) else {
            let limit = format!("at least the {of_index} that the index takes");
            return Err(LabError::bad("bytes of the client's memory", all, limit));
        };
        let record = 2 * trial.field_bytes as usize;
        let options = CacheOptions::new(bytes, record).stale_for(Nanos::MAX);
        Ok(SizedTable {
            table: Cached::new(Rc::new(opened.table), options)?,
            slots: opened.slots,
            slot_bytes: opened.slot_bytes,
        })
    }

    fn local_bytes<E: Endpoint>(table: &Self::Table<E>) -> u64 {
        D::local_bytes(table.index()) + table.counts().bytes
    }

    fn moved<E: Endpoint>(table: &Self::Table<E>) -> InsertionMoves {
        D::moved(table.index())
    }

    fn forget_answers<E: Endpoint>(table: &Self::Table<E>) {
        table.clear();
    }
}
