//! `farslot tables`, `drop`, `rename` and `clear`: which tables there are, and changing that.

use crate::shape::{SchemeShape, described};
use farslot::health::DamagedEntry;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;

/// The options of `farslot tables`.
#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {}

/// The options of a command that is about one table.
#[derive(clap::Args, Debug)]
pub(crate) struct TableNameArg {
    /// The table
    table: String,
}

/// The options of `farslot rename`.
#[derive(clap::Args, Debug)]
pub(crate) struct RenameArgs {
    /// The table
    table: String,
    /// Its new name
    to: String,
}

/// Lists the tables by their names, oldest first; says which entries of the catalog are damaged.
///
/// # Errors
/// What the fabric says.
pub(crate) fn list(_: &ListArgs, context: &Context) -> Result<()> {
    let store = context.store()?;
    let listing = store.listing()?;
    for damaged in &listing.damaged {
        output::note(damaged);
    }
    if context.json {
        let tables = listing.tables.iter();
        let tables = tables.map(|table| described(&table.name, &SchemeShape::of(&table.scheme)));
        let damaged = listing.damaged.iter().map(described_damage);
        return output::json(&serde_json::json!({
            "tables": tables.collect::<Vec<_>>(),
            "damaged": damaged.collect::<Vec<_>>(),
        }));
    }
    listing
        .tables
        .iter()
        .try_for_each(|table| output::line(&table.name))
}

/// An entry of a catalog that is damaged, for machines.
pub(super) fn described_damage(entry: &DamagedEntry) -> serde_json::Value {
    serde_json::json!({
        "node": entry.address, "entry": entry.entry, "table": entry.name, "reason": entry.reason,
    })
}

/// Drops a table.
///
/// # Errors
/// That there is none, or what the fabric says.
pub(crate) fn drop_table(args: &TableNameArg, context: &Context) -> Result<()> {
    context.store()?.drop_table(&args.table)?;
    tell(context, "dropped", &args.table)
}

/// Takes all records out of a table.
///
/// # Errors
/// As [`drop_table`].
pub(crate) fn clear(args: &TableNameArg, context: &Context) -> Result<()> {
    context.store()?.clear(&args.table)?;
    tell(context, "cleared", &args.table)
}

/// Gives a table another name.
///
/// # Errors
/// As [`drop_table`]; a name that is taken.
pub(crate) fn rename(args: &RenameArgs, context: &Context) -> Result<()> {
    context.store()?.rename(&args.table, &args.to)?;
    if context.json {
        return output::json(&serde_json::json!({ "renamed": args.table, "table": args.to }));
    }
    output::note(format_args!("{} is {} now", args.table, args.to));
    Ok(())
}

fn tell(context: &Context, done: &str, table: &str) -> Result<()> {
    if context.json {
        let object = serde_json::Map::from_iter([(done.to_owned(), table.into())]);
        return output::json(&object);
    }
    output::note(format_args!("{done} {table}"));
    Ok(())
}
