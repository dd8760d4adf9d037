//! `farslot load`: puts the records of a file into a table.

mod bad_lines;
pub mod measure;
mod whole;
mod workers;

use super::table_args::{TableArgs, count};
use crate::context::{Context, start_writing};
use crate::failure::{Failure, Result};
use crate::formats::{Columns, Format, Reader};
use crate::output;
use crate::shape::Shape;
use bad_lines::BadLines;
use farslot::{Scheme, SchemeKind, Store, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;
use workers::{Loaded, Loader};

/// The options of `farslot load`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The file [default: standard input]
    file: Option<PathBuf>,
    /// The format [default: by the file's name; csv on standard input]
    #[arg(long, short)]
    format: Option<Format>,
    /// The key's column or field, by name or by number from 1 [default: key, or column 1]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// The value's column or field [default: all that is not the key]
    #[arg(long, value_name = "COLUMN")]
    value: Option<String>,
    /// The first line names the columns [default: if it is key,value or a column is named]
    #[arg(long)]
    header: bool,
    /// The first line is a record
    #[arg(long, conflicts_with = "header")]
    no_header: bool,
    /// Make the table first, for so many keys [default: as many as the file has, and a quarter more]
    #[arg(long, value_name = "CAPACITY", num_args = 0..=1, require_equals = true, value_parser = count)]
    #[expect(
        clippy::option_option,
        reason = "not given, given without and with a number"
    )]
    create: Option<Option<u64>>,
    /// Threads that put, each 32 records at a time [default: one a processor, at most 4; a cuckoo
    /// or duo table has one]
    #[arg(long, value_name = "N", value_parser = count)]
    threads: Option<u64>,
    /// Read all into memory, build the empty table whole, and seal it: it can never change again. So it
    /// is with --scheme sealed
    #[arg(long, conflicts_with = "threads")]
    seal: bool,
    /// Stop at the first bad line
    #[arg(long)]
    strict: bool,
    /// Bad lines that are shown; all are counted
    #[arg(long, value_name = "LINES", default_value_t = 10)]
    show_bad: u64,
    #[command(flatten)]
    shape: TableArgs,
}

impl Args {
    /// Whether the table that is made first never changes.
    fn sealed(&self) -> bool {
        self.seal || self.shape.scheme == SchemeKind::Sealed
    }
}

/// Loads a file into a table.
///
/// # Errors
/// What the store or the file system says, a full table, or with `--strict` a bad line.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let source = Source::new(&args)?;
    if let Some(capacity) = args.create {
        check(&args, &source, capacity)?;
    }
    let store = context.store()?;
    let since = Instant::now();
    let bad = BadLines::new(args.strict, args.show_bad);
    let loaded = match args.create {
        Some(_) if args.sealed() => whole::make(&args, &source, &store, &bad)?,
        Some(capacity) => {
            create(&args, &source, &store, capacity)?;
            load(&args, &source, &store, &bad)?
        }
        None => load(&args, &source, &store, &bad)?,
    };
    report(&args, context, &loaded, &bad, since.elapsed().as_secs_f64())
}

/// Refuses a table that cannot be made of what is known before its file is read.
fn check(args: &Args, source: &Source<'_>, capacity: Option<u64>) -> Result<()> {
    if args.sealed() {
        return whole::check(&args.shape, capacity);
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
fn load(args: &Args, source: &Source<'_>, store: &Store, bad: &BadLines) -> Result<Loaded> {
    let table = store.table(&args.table)?;
    if args.seal || matches!(table.scheme(), Scheme::Sealed(_)) {
        return whole::build(source, table, bad);
    }
    put(args, source, store, &table, bad)
}

/// Puts record by record.
fn put(
    args: &Args,
    source: &Source<'_>,
    store: &Store,
    table: &Table,
    bad: &BadLines,
) -> Result<Loaded> {
    let threads = threads(args.threads, table)?;
    let mut loader = Loader::new(store, table, threads, bad);
    source.read_with("loading", |reader, bar| {
        bad.show_above(bar);
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
            Shape::of(table.scheme()).scheme
        ));
    }
    start_writing(table)?;
    table.resign()?;
    Ok(1)
}

fn create(args: &Args, source: &Source<'_>, store: &Store, capacity: Option<u64>) -> Result<()> {
    let options = match capacity {
        Some(capacity) => args.shape.options(capacity)?,
        None => source
            .read_with("looking through", |reader, _| measure::measure(reader))?
            .options(&args.shape)?,
    };
    let record = store.create(&args.table, &options)?;
    output::note(format_args!(
        "created {}: {}",
        record.name,
        Shape::of(&record.scheme).summary()
    ));
    Ok(())
}

fn report(
    args: &Args,
    context: &Context,
    loaded: &Loaded,
    bad: &BadLines,
    seconds: f64,
) -> Result<()> {
    if context.json {
        output::json(&serde_json::json!({
            "table": args.table,
            "records": loaded.records,
            "new": loaded.new,
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
    Ok(())
}

/// Where the records come from.
struct Source<'a> {
    /// Nothing for standard input.
    path: Option<&'a Path>,
    format: Format,
    columns: Columns,
}

impl<'a> Source<'a> {
    fn new(args: &'a Args) -> Result<Self> {
        let path = args.file.as_deref().filter(|file| *file != Path::new("-"));
        let format = match (args.format, path) {
            (Some(format), _) => format,
            (None, Some(path)) => Format::of_path(path)?,
            (None, None) => Format::Csv,
        };
        let header = (args.header || args.no_header).then_some(args.header);
        Ok(Self {
            path,
            format,
            columns: Columns {
                key: args.key.clone(),
                value: args.value.clone(),
                header,
            },
        })
    }

    fn is_file(&self) -> bool {
        self.path
            .is_some_and(|path| !path.exists() || path.is_file())
    }

    /// Bytes of a file; of a stream, which nobody knows, 0.
    fn bytes(&self) -> Result<u64> {
        match self.path {
            Some(path) if self.is_file() => {
                let failed = Failure::io(path.display().to_string());
                Ok(path.metadata().map_err(failed)?.len())
            }
            _ => Ok(0),
        }
    }

    /// Reads it from the start with a progress bar.
    fn read_with<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Reader<BufReader<Box<dyn Read>>>, &ProgressBar) -> Result<T>,
    ) -> Result<T> {
        let name = || {
            self.path
                .map_or("standard input".into(), |path| path.display().to_string())
        };
        let (bar, input): (_, Box<dyn Read>) = match self.path {
            None => (ProgressBar::no_length(), Box::new(io::stdin().lock())),
            Some(path) => {
                let file = File::open(path).map_err(Failure::io(name()))?;
                let bytes = file.metadata().map_err(Failure::io(name()))?.len();
                (ProgressBar::new(bytes), Box::new(file))
            }
        };
        bar.set_style(style(bar.length().is_some()));
        bar.set_message(doing);
        let input: Box<dyn Read> = Box::new(bar.wrap_read(input));
        let input = BufReader::with_capacity(1 << 18, input);
        let mut reader =
            Reader::new(self.format, input, &self.columns).map_err(|failure| match failure {
                Failure::Io { error, .. } => Failure::io(name())(error),
                Failure::Failed(why) => Failure::Failed(format!("{}: {why}", name())),
                other => other,
            })?;
        let done = work(&mut reader, &bar);
        bar.finish_and_clear();
        done.map_err(|failure| match failure {
            Failure::Io { what, error } if what == "reading" => Failure::io(name())(error),
            other => other,
        })
    }
}

fn style(has_length: bool) -> ProgressStyle {
    let template = if has_length {
        "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"
    } else {
        "{spinner} {msg} {bytes} {bytes_per_sec}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
