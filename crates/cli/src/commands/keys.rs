//! Keys as arguments and from a file, in batches.

use crate::bytes;
use crate::formats::{read_line, unmarked};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Keys as arguments and, behind them, those of a file, one a line.
pub(super) struct Keys {
    given: Vec<Vec<u8>>,
    file: Option<(PathBuf, Box<dyn BufRead>)>,
    hex: bool,
}

impl Keys {
    /// Those given, which may be hexadecimal digits, and those of a file; `-` is standard input.
    ///
    /// # Errors
    /// A key that is no such digits; a file that cannot be opened.
    pub(super) fn new(given: Vec<OsString>, file: Option<PathBuf>, hex: bool) -> Result<Self> {
        let given = given.into_iter().map(|key| decoded(key, hex));
        let given = given.collect::<Result<_>>()?;
        let open = |path: PathBuf| Ok::<_, Failure>((path.clone(), open(&path)?));
        Ok(Self {
            given,
            file: file.map(open).transpose()?,
            hex,
        })
    }

    /// Visits them in their order, at most so many at a time. Empty lines are passed over.
    ///
    /// # Errors
    /// What a visit says; a file that cannot be read, or a line that is no key.
    pub(super) fn each_batch(
        self,
        most: usize,
        mut visit: impl FnMut(&[Vec<u8>]) -> Result<()>,
    ) -> Result<()> {
        for batch in self.given.chunks(most) {
            visit(batch)?;
        }
        let Some((path, mut lines)) = self.file else {
            return Ok(());
        };
        let mut batch = Vec::with_capacity(most);
        let mut line = Vec::new();
        let failed = || Failure::io(path.display().to_string());
        for number in 1.. {
            if !read_line(&mut lines, &mut line, number).map_err(failed())? {
                break;
            }
            let key = line.strip_suffix(b"\n").unwrap_or(&line);
            let key = key.strip_suffix(b"\r").unwrap_or(key);
            if !key.is_empty() {
                batch.push(decoded(OsString::from_vec(key.to_vec()), self.hex)?);
            }
            line.clear();
            if batch.len() == most {
                visit(&batch)?;
                batch.clear();
            }
        }
        match batch.is_empty() {
            true => Ok(()),
            false => visit(&batch),
        }
    }
}

/// Absent keys that are named; all are counted.
const MOST_NAMED: u64 = 10;

/// Keys that were absent.
#[derive(Default)]
pub(super) struct Absent(u64);

impl Absent {
    /// Notes one, and names it if it is one of the first.
    pub(super) fn note(&mut self, table: &str, key: &[u8]) {
        self.0 += 1;
        if self.0 <= MOST_NAMED {
            let key = bytes::shown(key);
            output::note(format_args!("the table {table:?} has no key {key:?}"));
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.0
    }

    /// Says how many were not named.
    ///
    /// # Errors
    /// [`Failure::Reported`] if there was one.
    pub(super) fn report(&self) -> Result<()> {
        if self.0 > MOST_NAMED {
            let more = output::counted(self.0 - MOST_NAMED, "key");
            output::note(format_args!("nor {more} more"));
        }
        match self.0 {
            0 => Ok(()),
            _ => Err(Failure::Reported),
        }
    }
}

fn decoded(key: OsString, hex: bool) -> Result<Vec<u8>> {
    bytes::of_argument(key, hex).map_err(Failure::Usage)
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(unmarked(std::io::stdin().lock())?));
    }
    let file = File::open(path).map_err(Failure::io(path.display().to_string()))?;
    Ok(Box::new(unmarked(BufReader::new(file))?))
}
