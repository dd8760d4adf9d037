//! `farslot load`: puts the records of a file into a table.

mod bad_lines;
mod build_from;
pub mod measure;
mod source;
mod workers;

use crate::shape::SchemeShape;
use bad_lines::BadLines;
use farslot::layout::Scheme;
use farslot::{Store, Table};
use farslot_terminal::context::{Context, start_writing};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
pub use source::Args;
use source::Source;
use std::time::Instant;
use workers::{LoadReport, Loader};

/// Loads a file into a table.
///
/// # Errors
/// What the store or the file system says, a full table, or more bad lines than may be.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let source = Source::new(&args)?;
    if let Some(capacity) = args.create {
        check(&args, &source, capacity)?;
    }
    let store = context.store()?;
    let since = Instant::now();
    let bad = BadLines::new(args.strict, args.max_bad, args.show_bad);
    let loaded = match args.create {
        Some(_) if args.sealed() => build_from::make(&args, &source, &store, &bad)?,
        Some(capacity) => {
            let made = || to_write(&args, create(&args, &source, &store, capacity)?);
            put(&args, &source, &store, &bad, made)?
        }
        None => load(&args, &source, &store, &bad)?,
    };
    let seconds = since.elapsed().as_secs_f64();
    report(&args, context, &source, &loaded, &bad, seconds)
}

/// Refuses a table that cannot be made of what is known before its file is read.
fn check(args: &Args, source: &Source<'_>, capacity: Option<u64>) -> Result<()> {
    if args.sealed() {
        return build_from::check(&args.shape, capacity);
    }
    let scheme = args.shape.scheme();
    if !scheme.has_keys() {
        return Err(Failure::Usage(format!(
            "a {scheme} table has no keys, and what is loaded has: farslot create and farslot push"
        )));
    }
    if capacity.is_none() && !source.is_file() {
        return Err(Failure::Usage(
            "a stream cannot be looked through first: say for how many keys, --create=CAPACITY"
                .into(),
        ));
    }
    Ok(())
}

/// Loads into a table that is there; fails at once if there is none.
fn load(args: &Args, source: &Source<'_>, store: &Store, bad: &BadLines) -> Result<LoadReport> {
    let table = store.table(&args.table)?;
    if args.seal || matches!(table.scheme(), Scheme::Sealed(_)) {
        return build_from::build(source, table, bad);
    }
    // Before anything is read: another may be the writer.
    let table = to_write(args, table)?;
    put(args, source, store, bad, || Ok(table))
}

/// A table, and how many threads put into it.
fn to_write(args: &Args, table: Table) -> Result<(Table, usize)> {
    let threads = threads(args.threads, &table)?;
    Ok((table, threads))
}

/// Puts record by record, into a table that may be made once the file's first lines are understood.
fn put(
    args: &Args,
    source: &Source<'_>,
    store: &Store,
    bad: &BadLines,
    table: impl FnOnce() -> Result<(Table, usize)>,
) -> Result<LoadReport> {
    source.read_with("loading", |reader| {
        let (table, threads) = table()?;
        let mut loader = Loader::new(store, &table, threads, bad).with_time_to_live(args.ttl);
        if args.partial {
            loader = loader.of_nodes_that_answer();
        }
        loader.load(reader)
    })
}

/// More threads than this only wait for the one that reads, unless they are asked for.
const MOST_THREADS: usize = 4;

/// How many threads put. Fails at once if the table admits one writer and has one.
fn threads(asked: Option<u64>, table: &Table) -> Result<usize> {
    if !table.scheme().one_writer() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        return Ok(asked.map_or(processors.min(MOST_THREADS), |asked| {
            asked.min(256) as usize
        }));
    }
    if let Some(asked) = asked.filter(|asked| *asked > 1) {
        output::note(format_args!(
            "one thread puts, not {asked}: a {} table admits one writer",
            SchemeShape::of(table.scheme()).scheme
        ));
    }
    start_writing(table)?;
    table.resign()?;
    Ok(1)
}

fn create(args: &Args, source: &Source<'_>, store: &Store, capacity: Option<u64>) -> Result<Table> {
    let mut shape = args.shape.clone();
    let measure = match capacity {
        Some(_) => None,
        None => Some(source.read_with("looking through", measure::measure)?),
    };
    if args.ttl.is_some() || measure.is_some_and(|measure| measure.some_expire) {
        shape.expiring = shape.expiring.or(Some(true));
    }
    let options = match measure {
        Some(measure) => measure.options(&shape)?,
        None => shape.options(capacity)?,
    };
    let record = store.create(&args.table, &options)?;
    output::note(format_args!(
        "created {}: {}",
        record.name,
        SchemeShape::of_new(&record, store.address().nodes().len() as u64).summary()
    ));
    Ok(store.table(&args.table)?)
}

fn report(
    args: &Args,
    context: &Context,
    source: &Source<'_>,
    loaded: &LoadReport,
    bad: &BadLines,
    seconds: f64,
) -> Result<()> {
    bad.note();
    for (node, records) in &loaded.unreached {
        let records = output::counted(*records, "record");
        output::note(format_args!(
            "{records} of {node} were not loaded: it does not answer"
        ));
    }
    if loaded.expired > 0 {
        output::note(format_args!(
            "{} had expired, and was not loaded",
            output::counted(loaded.expired, "record")
        ));
    }
    if context.json {
        let gaps = loaded.unreached.iter();
        let gaps =
            gaps.map(|(node, records)| serde_json::json!({ "node": node, "records": records }));
        output::json(&serde_json::json!({
            "gaps": gaps.collect::<Vec<_>>(),
            "header": source.header(),
            "table": args.table,
            "records": loaded.records,
            "new": loaded.new,
            "expired": loaded.expired,
            "sealed": loaded.sealed,
            "bad_lines": bad.count(),
            "first_bad_lines": bad.shown(),
            "seconds": seconds,
        }))?;
    } else {
        output::note(format_args!(
            "loaded {} into {} ({} of new keys) in {seconds:.1} s; {}",
            output::counted(loaded.records, "record"),
            args.table,
            output::grouped(loaded.new),
            output::counted(bad.count(), "bad line"),
        ));
    }
    match bad.failure() {
        None => Ok(()),
        Some(failure) => {
            // The answer has been given.
            output::note(format_args!("error: {failure}"));
            Err(Failure::Reported)
        }
    }
}
