//! What is loaded: the options, and the lines of a file or of standard input.

use crate::commands::table_args::TableArgs;
use crate::formats::{Columns, Format, Header, Reader};
use farslot::SchemeKind;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of `farslot load`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    pub(super) table: String,
    /// The file [default: standard input]
    pub(super) file: Option<PathBuf>,
    /// The format [default: by the file's name; csv on standard input]
    #[arg(long, short)]
    pub(super) format: Option<Format>,
    /// The key's column or field, by name or by number from 1 [default: key, or column 1]
    #[arg(long, value_name = "COLUMN")]
    pub(super) key: Option<String>,
    /// The value's column or field [default: all that is not the key]
    #[arg(long, value_name = "COLUMN")]
    pub(super) value: Option<String>,
    /// The first line names the columns [default: if a column is named, or if it has words only,
    /// and one is id or key or has numbers only below it; that is said, and asked for where words
    /// alone do not tell]
    #[arg(long)]
    pub(super) header: bool,
    /// The first line is a record
    #[arg(long, conflicts_with = "header")]
    pub(super) no_header: bool,
    /// Make the table first, for so many keys [default: as many as the file has, and a quarter
    /// more]
    #[arg(long, value_name = "CAPACITY", num_args = 0..=1, require_equals = true, value_parser = number::count)]
    #[expect(
        clippy::option_option,
        reason = "not given, given without and with a number"
    )]
    pub(super) create: Option<Option<u64>>,
    /// Threads that put, each 32 records at a time [default: one a processor, at most 4; a cuckoo
    /// or duo table has one]
    #[arg(long, value_name = "N", value_parser = number::count)]
    pub(super) threads: Option<u64>,
    /// Read all into memory, build the empty table whole, and seal it: it can never change again.
    /// So it is with --scheme sealed
    #[arg(long, conflicts_with = "threads")]
    pub(super) seal: bool,
    /// Stop at the first bad line: those before it are loaded
    #[arg(long, conflicts_with = "max_bad")]
    pub(super) strict: bool,
    /// Bad lines that may be passed over: with more, all good ones are loaded and the command fails
    #[arg(long, value_name = "LINES", default_value = "0", value_parser = number::any_count)]
    pub(super) max_bad: u64,
    /// Bad lines that are shown, the first of the file; all are counted
    #[arg(long, value_name = "LINES", default_value = "10", value_parser = number::any_count)]
    pub(super) show_bad: u64,
    /// Of a table over several nodes, load what falls to those that answer, and say what could not
    /// be loaded
    #[arg(long, conflicts_with = "seal")]
    pub(super) partial: bool,
    /// The keys are absent again after this time (30s, 5m, 24h), if the file does not say when
    /// (dump --expires); of a table whose records may expire, as one is that this makes
    #[arg(long, value_name = "TIME", value_parser = number::time, conflicts_with = "seal")]
    pub(super) ttl: Option<Duration>,
    #[command(flatten)]
    pub(super) shape: TableArgs,
}

impl Args {
    /// Whether the table that is made first never changes.
    pub(super) fn sealed(&self) -> bool {
        self.seal || self.shape.scheme() == SchemeKind::Sealed
    }
}

/// Where the records come from.
pub(super) struct Source<'a> {
    /// Nothing for standard input.
    pub(super) path: Option<&'a Path>,
    pub(super) format: Format,
    pub(super) columns: Columns,
    /// Whether the first line was taken for the names of the columns; nothing before it was read,
    /// and where there are none.
    header: Cell<Option<bool>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(args: &'a Args) -> Result<Self> {
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
            header: Cell::new(None),
        })
    }

    /// Whether the first line was taken for the names of the columns.
    pub(super) fn header(&self) -> Option<bool> {
        self.header.get()
    }

    /// Says what the first line was taken for, where that was to be found out.
    fn say_header(&self, taken: Option<&Header>) {
        let named = taken.map(Header::is_named);
        if self.header.replace(named).is_some() || self.columns.header.is_some() {
            return;
        }
        match taken {
            Some(Header::Guessed(why)) => output::note(format_args!(
                "the first line is taken for the names of the columns: {why} (--no-header if it is a \
                 record)"
            )),
            Some(Header::Record(why)) => output::note(format_args!(
                "the first line is taken for a record: {why} (--header if it names the columns)"
            )),
            Some(Header::Sure) | None => {}
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.path
            .is_some_and(|path| !path.exists() || path.is_file())
    }

    /// Bytes of a file; of a stream, which nobody knows, 0.
    pub(super) fn bytes(&self) -> Result<u64> {
        match self.path {
            Some(path) if self.is_file() => {
                let failed = Failure::io(path.display().to_string());
                Ok(path.metadata().map_err(failed)?.len())
            }
            _ => Ok(0),
        }
    }

    /// Reads it from the start with a progress bar.
    pub(super) fn read_with<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Reader<BufReader<Box<dyn Read>>>) -> Result<T>,
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
                Failure::Usage(why) => Failure::Usage(format!("{}: {why}", name())),
                other => other,
            })?;
        self.say_header(reader.header());
        let done = work(&mut reader);
        bar.finish_and_clear();
        done.map_err(|failure| match failure {
            Failure::Io { stream, error } if stream == "reading" => Failure::io(name())(error),
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
