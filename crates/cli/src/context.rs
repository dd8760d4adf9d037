//! What all commands share: the store's address and the form of the output.

use crate::failure::{Failure, Result};
use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::{Address, OpenOptions, ReadPolicy, Store, StoreError, Table};
use std::time::{Duration, Instant};

/// The options that stand before or after every command.
#[derive(clap::Args, Clone, Debug)]
pub struct Context {
    /// Where the store is: shm://NAME, as given to `farslot serve`
    #[arg(
        short,
        long,
        global = true,
        env = "FARSLOT_ADDRESS",
        value_name = "ADDRESS"
    )]
    pub address: Option<Address>,
    /// Print exactly one JSON object on standard output
    #[arg(long, global = true)]
    pub json: bool,
}

/// Slots that a lookup of a one-shot command reads at a time.
const READ_SIZE: u32 = 8;

/// A one-shot command that writes may find another at it, which ends within this.
const WRITER_PATIENCE: Duration = Duration::from_secs(1);

/// A node that was started in the background a moment ago may need this long to be there.
const PATIENCE: Duration = Duration::from_secs(1);

/// Becomes the table's writer, where it admits one; waits for another that ends soon.
///
/// # Errors
/// That there is another writer, or what the fabric says.
pub fn start_writing(table: &Table) -> Result<()> {
    let since = Instant::now();
    loop {
        match table.start_writing() {
            Err(StoreError::Index(IndexError::WriterBusy { .. }))
                if since.elapsed() < WRITER_PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(StoreError::Index(IndexError::WriterBusy { writer })) => {
                return Err(Failure::WriterBusy {
                    table: table.name().into(),
                    writer,
                    address: None,
                });
            }
            started => return Ok(started?),
        }
    }
}

const NO_ADDRESS: &str = "no store was named
  start one:  farslot serve shm://work &
  name it:    export FARSLOT_ADDRESS=shm://work    (or -a shm://work with each command)
  or see it all at work first:  farslot demo";

impl Context {
    /// The address of a store that outlives this command.
    ///
    /// # Errors
    /// A usage failure that names the next step.
    pub fn shared_address(&self) -> Result<&Address> {
        match &self.address {
            Some(address @ Address::Shm { .. }) => Ok(address),
            Some(other) => Err(Failure::Usage(format!(
                "the memory of {other} would end with this command; use a shm:// address\n  \
                 start one:  farslot serve shm://work &"
            ))),
            None => Err(Failure::Usage(NO_ADDRESS.into())),
        }
    }

    /// Opens the store that the user named.
    ///
    /// # Errors
    /// What the store says; a usage failure if none was named.
    pub fn store(&self) -> Result<Store> {
        self.store_with(OpenOptions::default())
    }

    fn store_with(&self, options: OpenOptions) -> Result<Store> {
        let address = self.shared_address()?;
        let since = Instant::now();
        loop {
            match Store::open_with(&address.to_string(), options) {
                Err(StoreError::Fabric(FabricError::NoSuchRegion { .. }))
                    if since.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// Opens a table of the store that the user named, for a few lookups: with a read size that
    /// does well enough, for the model's best takes longer to find than it saves.
    ///
    /// # Errors
    /// As [`Context::store`], or that there is no such table.
    pub fn table(&self, name: &str) -> Result<Table> {
        let options = OpenOptions {
            read_policy: Some(ReadPolicy::Fixed(READ_SIZE)),
            ..OpenOptions::default()
        };
        Ok(self.store_with(options)?.table(name)?)
    }

    /// Opens a table of the store that the user named, to write to it. Where it admits one writer,
    /// this is it then, if another one-shot command ends soon.
    ///
    /// # Errors
    /// As [`Context::table`], or that there is another writer.
    pub fn writable_table(&self, name: &str) -> Result<Table> {
        let table = self.table(name)?;
        start_writing(&table)?;
        Ok(table)
    }
}
