//! The records of a table, one after the other.

use super::Table;
use crate::{Cursor, Result};
use std::iter::FusedIterator;

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

impl Table {
    /// All records, a piece of the table at a time: what [`Table::for_each`] says of them goes for
    /// these. After an error there is nothing more.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.put(b"plums", b"12")?;
    /// let mut keys = Vec::new();
    /// for entry in &stock {
    ///     let (key, _value) = entry?;
    ///     keys.push(key);
    /// }
    /// keys.sort();
    /// assert_eq!(keys, [b"pears", b"plums"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> Entries<'_> {
        Entries {
            table: self,
            next: Some(Cursor::default()),
            piece: Vec::new().into_iter(),
        }
    }
}

/// The records of a table: what [`Table::iter`] returns.
#[derive(Debug)]
pub struct Entries<'t> {
    table: &'t Table,
    /// Where the next piece starts.
    next: Option<Cursor>,
    piece: std::vec::IntoIter<Entry>,
}

impl Iterator for Entries<'_> {
    /// A key and its value; or the error of a scan, after which the iteration is over.
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.piece.next() {
                return Some(Ok(entry));
            }
            let from = self.next.take()?;
            let mut piece = Vec::new();
            let scanned = self.table.scan(from, u64::MAX, |key, value| {
                piece.push((key.to_vec(), value.to_vec()));
            });
            match scanned {
                Ok(next) => self.next = next,
                Err(error) => return Some(Err(error)),
            }
            self.piece = piece.into_iter();
        }
    }
}

impl FusedIterator for Entries<'_> {}

impl<'t> IntoIterator for &'t Table {
    type Item = Result<Entry>;
    type IntoIter = Entries<'t>;

    fn into_iter(self) -> Entries<'t> {
        self.iter()
    }
}
