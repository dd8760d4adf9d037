//! `farslot copy`: copies a table to a new one, of the same scheme or of another.

use super::load::measure::Measure;
use super::snapshot::is_stop;
use super::table_args::{TableArgs, of_flag};
use crate::shape::SchemeShape;
use crate::until_stopped::UntilStopped;
use crate::visit::Visit;
use farslot::layout::TableSpec;
use farslot::{SchemeKind, Store, TableOptions};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};

/// The options of `farslot copy`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The table
    table: String,
    /// The new table's name
    to: String,
    /// Keys that the new table must hold [default: as many as the table; with --scheme a quarter
    /// more than there are]
    #[arg(long, short, value_name = "KEYS", value_parser = number::count)]
    capacity: Option<u64>,
    /// What another table the new one is to be than the one that is copied. With --scheme, sizes
    /// that are not said are those of the table, or what its records need, and all else is as of a
    /// table that is created; without, all is as of the table that is not said
    #[command(flatten)]
    shape: Option<TableArgs>,
}

/// Copies a table.
///
/// # Errors
/// That there is none, or what the fabric says; a name that is taken, memory that does not hold
/// both, or that it was stopped.
pub(crate) fn run(args: &Args, context: &Context) -> Result<()> {
    let store = context.store()?;
    let options = match (&args.shape, args.capacity) {
        (None, None) => None,
        (Some(shape), _) if shape.scheme.is_some() => Some(options(args, shape, &store)?),
        (shape, _) => Some(changed(args, shape.as_ref(), &store)?),
    };
    let until = UntilStopped::new()?;
    let copied = until.run(&args.table, |progress| match &options {
        None => store.copy_table(&args.table, &args.to, progress),
        Some(options) => store.copy_table_as(&args.table, &args.to, options, progress),
    });
    let records = match copied {
        Err(error) if is_stop(&error) => {
            return Err(Failure::Failed(format!("stopped: there is no {}", args.to)));
        }
        copied => copied?,
    };
    if context.json {
        return output::json(&serde_json::json!({
            "copied": args.table, "table": args.to, "records": records,
        }));
    }
    if options.is_some() {
        let table = store.table(&args.to)?;
        let summary = SchemeShape::of(table.scheme()).summary();
        output::note(format_args!("created {}: {summary}", args.to));
    }
    output::note(format_args!(
        "copied {} to {}: {}",
        args.table,
        args.to,
        output::counted(records, "record"),
    ));
    Ok(())
}

/// What a table like the one that is copied is to be, with what is said of it.
fn changed(args: &Args, shape: Option<&TableArgs>, store: &Store) -> Result<TableOptions> {
    let table = store.table(&args.table)?;
    let partition = table.record().partition.as_ref();
    let nodes = partition.map_or(1, |_| store.nodes().map_or(1, |nodes| nodes.len() as u64));
    let mut own = TableSpec::of(table.scheme(), nodes);
    own.on_restart = partition.map_or(own.on_restart, |of| of.on_restart);
    if let Some(capacity) = args.capacity {
        // What it may take, and what is its own, was for the records that it had.
        (own.heap, own.reserve_bytes) = (None, None);
        own.grow_to = own.grow_to.filter(|most| *most > capacity);
    }
    let capacity = args.capacity.or(own.capacity);
    match shape {
        Some(shape) => shape.spec(capacity).or(own),
        None => TableSpec { capacity, ..own },
    }
    .options()
    .map_err(of_flag)
}

/// What the new table is to be, of another scheme.
fn options(args: &Args, shape: &TableArgs, store: &Store) -> Result<TableOptions> {
    let table = store.table(&args.table)?;
    let mut shape = shape.clone();
    let scheme = table.scheme();
    if scheme.is_expiring() && matches!(shape.scheme(), SchemeKind::Linear | SchemeKind::Race) {
        shape.expiring = shape.expiring.or(Some(true));
    }
    let mut measure = Measure::default();
    Visit::new(false).all(&table, |key, value| {
        measure.add(key.len(), value.len());
        Ok(())
    })?;
    let options = match args.capacity {
        Some(capacity) => {
            let options = measure.of_so_many(capacity).options(&shape)?;
            options.capacity(capacity)
        }
        None => measure.options(&shape)?,
    };
    let (key, value) = scheme.record_sizes();
    let spec = shape.spec(None);
    let alike = options
        .clone()
        .keys(spec.key().unwrap_or(key))
        .values(spec.value().unwrap_or(value));
    // Where the scheme does not admit the table's sizes, those of its records.
    Ok(if alike.scheme().is_ok() {
        alike
    } else {
        options
    })
}
