//! `farslot create`: makes a table.

use super::table_args::TableArgs;
use crate::shape::{SchemeShape, described};
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::{number, output};

/// The options of `farslot create`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table's name
    table: String,
    /// Keys that it must hold, or items of a queue [default: a race table without a limit, which
    /// takes memory from what its node has free as it grows, for keys and values of any size]
    #[arg(long, short, value_name = "KEYS", value_parser = number::count)]
    capacity: Option<u64>,
    #[command(flatten)]
    shape: TableArgs,
}

/// Makes a table.
///
/// # Errors
/// A name that is taken, sizes that no table can have, or more than the memory holds.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let options = args.shape.options(args.capacity)?;
    let store = context.store()?;
    let record = store.create(&args.table, &options)?;
    let shape = SchemeShape::of_new(&record, store.address().nodes().len() as u64);
    if context.json {
        return output::json(&described(&record.name, &shape));
    }
    output::line(format!("created {}: {}", record.name, shape.summary()))
}
