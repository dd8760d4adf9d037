//! What the keeper of a served memory does while its clients may not: it restores tables before
//! they come, and takes the last snapshots after they have written.

use super::Server;
use crate::catalog::Phase;
use crate::{Result, Store, TableRecord};

impl Server {
    /// The served store as its keeper uses it, to whom it is open while it is closed to clients: to
    /// restore tables before [`Server::open_to_clients`], and to take snapshots after
    /// [`Server::end_writes`].
    #[must_use]
    pub fn keeper(&self) -> &Store {
        &self.keeper
    }

    /// Lets clients use the tables, where
    /// [`ServerOptions::restoring`](crate::ServerOptions::restoring) has kept them from that.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{ErrorKind, Server, ServerOptions, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = ServerOptions {
    ///     restoring: true,
    ///     ..ServerOptions::default()
    /// };
    /// let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 << 20, &options)?;
    /// let client = Store::open(&server.addresses()[0].to_string())?;
    /// let refused = client.create("stock", &TableOptions::default()).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::NodeDown);
    /// // What was there before, by `restore` mostly.
    /// server.keeper().create("stock", &TableOptions::default())?;
    /// server.open_to_clients()?;
    /// client.table("stock")?.put(b"pears", b"7")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_to_clients(&self) -> Result<()> {
        self.keeper.begin_phase(Phase::Serving)
    }

    /// Has no client write any more, and none make, drop, rename or empty a table, until the server
    /// ends: all of that fails with [`Ending`](farslot_fabric::FabricError::Ending). What was
    /// acknowledged before this returns is in the memory, and nothing is acknowledged after. It
    /// takes two and a half seconds: as long as a client may write by what it knew before, and as a
    /// verb may be under way. Tables that admit one writer have none then, so that a snapshot of
    /// them can be taken.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{ErrorKind, Server, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let server = Server::start("tcp://127.0.0.1:0", 64 << 20)?;
    /// let client = Store::open(&server.addresses()[0].to_string())?;
    /// client.create("stock", &TableOptions::default())?;
    /// let stock = client.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// server.end_writes()?;
    /// assert_eq!(stock.put(b"pears", b"8").unwrap_err().kind(), ErrorKind::NodeDown);
    /// assert_eq!(stock.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn end_writes(&self) -> Result<()> {
        self.keeper.begin_phase(Phase::Ending)?;
        for record in self.keeper.tables()? {
            if record.scheme.one_writer()
                && let Err(error) = self.depose_writer(&record)
            {
                log::warn!("the writer of table {:?} stays: {error}", record.name);
            }
        }
        Ok(())
    }

    /// Ends the turn of a table's writer, which cannot write any more.
    fn depose_writer(&self, of: &TableRecord) -> Result<()> {
        let table = self.keeper.own_part(of)?;
        if table.writer()?.is_some() {
            // Its process may be at work with other tables.
            table.force_take_over()?;
        }
        table.close()
    }
}
