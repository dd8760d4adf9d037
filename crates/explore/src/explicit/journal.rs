//! Checkpoints: a file to which every complete level is appended.
//!
//! ```text
//! "FSEXPLOR" | version | bits of a state | digest of the model | n | n bytes of layout | checksum
//! level      | states in it | totals so far (6 words) | the states' words | checksum       one a level
//! ```
//! All numbers are little-endian words of 8 bytes; a checksum is XXH3 of its record. A process that
//! is killed leaves at worst an unfinished record at the end, which the next one cuts off. The
//! file's first record appears with its name: it is written elsewhere and renamed.

use super::level::Blocks;
use super::worker::{Search, Totals, Worker};
use crate::error::ExploreError;
use crate::model::{Model, Tokens};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: u64 = u64::from_le_bytes(*b"FSEXPLOR");
const VERSION: u64 = 2;
/// Words of a level's record before its states.
const RECORD_WORDS: usize = 8;
/// Longest layout.
const MOST_LAYOUT: u64 = 1 << 24;
/// States that are inserted at a time when a journal is replayed.
const REPLAYED: u64 = 1 << 12;

/// What a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Bits of a state.
    pub bits: u64,
    /// A digest of all that decides which states are reachable.
    pub digest: u64,
    /// How the model packs its states, for the model to read.
    pub layout: Vec<u8>,
}

/// A file of complete levels.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    header: Header,
    /// Where the levels begin and end.
    levels: std::ops::Range<u64>,
}

impl Journal {
    /// A new journal without levels; what was at `path` is replaced.
    ///
    /// # Errors
    /// [`ExploreError::Journal`].
    pub fn create(path: &Path, header: Header) -> Result<Self, ExploreError> {
        let failed = |error| ExploreError::Journal {
            path: path.into(),
            error,
        };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(&temporary).map_err(failed)?;
        let length = write_header(&mut file, &header).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&temporary, path).map_err(failed)?;
        Ok(Self {
            path: path.into(),
            file,
            header,
            levels: length..length,
        })
    }

    /// The journal at `path`, with all of its levels that are whole.
    ///
    /// # Errors
    /// [`ExploreError::Journal`], and [`ExploreError::WrongJournal`] if it is none.
    pub fn open(path: &Path) -> Result<Self, ExploreError> {
        let failed = |error| ExploreError::Journal {
            path: path.into(),
            error,
        };
        let wrong = |reason| ExploreError::WrongJournal {
            path: path.into(),
            reason,
        };
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(failed)?;
        let mut reader = Sums::new(BufReader::new(&file));
        let header = read_header(&mut reader).map_err(failed)?;
        let header =
            header.ok_or_else(|| wrong("not a journal of this version, or a damaged one"))?;
        let start = reader.at;
        let end = last_whole(&mut reader, &header).map_err(failed)?;
        Ok(Self {
            path: path.into(),
            file,
            header,
            levels: start..end,
        })
    }

    /// What it belongs to.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn failed(&self, error: io::Error) -> ExploreError {
        ExploreError::Journal {
            path: self.path.clone(),
            error,
        }
    }
}

impl<M: Model> Search<'_, M> {
    /// Appends a level that is complete, with the totals of those before it.
    pub(super) fn record(
        &self,
        worker: &mut Worker<'_, '_, M>,
        journal: &mut Journal,
        level: &Blocks,
        totals: &Totals,
    ) -> Result<(), ExploreError> {
        let end = journal.levels.end;
        let positioned = journal.file.seek(SeekFrom::Start(end));
        positioned.map_err(|error| journal.failed(error))?;
        let mut writer = Sums::new(BufWriter::new(&journal.file));
        let mut head = [totals.depth, level.len()]
            .into_iter()
            .chain(to_words(totals));
        let mut wrote = head.try_for_each(|word| writer.put(word));
        let mut state = vec![0; self.words()];
        for code in level.codes() {
            self.read_store().decode(worker.coder(), code, &mut state)?;
            wrote = wrote.and_then(|()| state.iter().try_for_each(|word| writer.put(*word)));
        }
        let wrote = wrote
            .and_then(|()| writer.put_sum())
            .and_then(|()| writer.inner.flush());
        let length = writer.at;
        drop(writer);
        wrote.map_err(|error| journal.failed(error))?;
        journal.levels.end = end + length;
        Ok(())
    }

    /// Inserts all states of a journal. Returns its last level, which is still to be expanded; the
    /// levels before it are added to `levels` where a trace may need them.
    pub(super) fn replay(
        &self,
        worker: &mut Worker<'_, '_, M>,
        journal: &mut Journal,
        totals: &mut Totals,
        levels: &mut Vec<Blocks>,
    ) -> Result<Blocks, ExploreError> {
        let range = journal.levels.clone();
        let prepared = journal.file.set_len(range.end);
        let prepared = prepared.and_then(|()| journal.file.seek(SeekFrom::Start(range.start)));
        prepared.map_err(|error| journal.failed(error))?;
        let mut reader = Sums::new(BufReader::new(&journal.file));
        let mut last = Blocks::default();
        while range.start + reader.at < range.end {
            if self.checks_invariant() && !last.is_empty() {
                levels.push(std::mem::take(&mut last));
            }
            let failed = |error| ExploreError::Journal {
                path: journal.path.clone(),
                error,
            };
            let head = read_record(&mut reader).map_err(failed)?;
            *totals = from_words(&head);
            last = Blocks::default();
            let mut left = head[1];
            while left > 0 {
                let states = left.min(REPLAYED);
                let words = states as usize * self.words();
                let words: io::Result<Vec<u64>> = (0..words).map(|_| reader.take()).collect();
                last.append(worker.insert(&words.map_err(failed)?)?);
                left -= states;
            }
            reader.take().map_err(failed)?;
        }
        Ok(last)
    }
}

fn to_words(totals: &Totals) -> [u64; RECORD_WORDS - 2] {
    let tokens = totals.tokens.unwrap_or_default();
    let has_tokens = u64::from(totals.tokens.is_some());
    let Totals {
        states,
        transitions,
        deadlocks,
        ..
    } = *totals;
    [
        states,
        transitions,
        deadlocks,
        has_tokens,
        tokens.in_place,
        tokens.in_state,
    ]
}

fn from_words(head: &[u64; RECORD_WORDS]) -> Totals {
    let [
        depth,
        _,
        states,
        transitions,
        deadlocks,
        has_tokens,
        in_place,
        in_state,
    ] = *head;
    Totals {
        states,
        transitions,
        deadlocks,
        depth,
        tokens: (has_tokens != 0).then_some(Tokens { in_place, in_state }),
        violation: None,
    }
}

fn write_header(file: &mut File, header: &Header) -> io::Result<u64> {
    let mut writer = Sums::new(BufWriter::new(file));
    let length = header.layout.len() as u64;
    for word in [MAGIC, VERSION, header.bits, header.digest, length] {
        writer.put(word)?;
    }
    writer.put_bytes(&header.layout)?;
    writer.put_sum()?;
    writer.inner.flush()?;
    Ok(writer.at)
}

/// The header, or `None` if that is none.
fn read_header(reader: &mut Sums<BufReader<&File>>) -> io::Result<Option<Header>> {
    let mut words = [0; 5];
    for word in &mut words {
        match reader.take() {
            Ok(read) => *word = read,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let [magic, version, bits, digest, length] = words;
    if magic != MAGIC || version != VERSION || length > MOST_LAYOUT || bits == 0 {
        return Ok(None);
    }
    let mut layout = vec![0; length as usize];
    let whole = reader.take_bytes(&mut layout).and_then(|()| reader.check());
    match whole {
        Ok(true) => Ok(Some(Header {
            bits,
            digest,
            layout,
        })),
        Ok(false) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_record(reader: &mut Sums<BufReader<&File>>) -> io::Result<[u64; RECORD_WORDS]> {
    let mut head = [0; RECORD_WORDS];
    for word in &mut head {
        *word = reader.take()?;
    }
    Ok(head)
}

/// Where the last record ends that is whole and follows the one before.
fn last_whole(reader: &mut Sums<BufReader<&File>>, header: &Header) -> io::Result<u64> {
    let mut end = reader.at;
    for depth in 0.. {
        match next_whole(reader, header, depth) {
            Ok(true) => end = reader.at,
            Ok(false) => break,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(end)
}

fn next_whole(
    reader: &mut Sums<BufReader<&File>>,
    header: &Header,
    depth: u64,
) -> io::Result<bool> {
    let head = read_record(reader)?;
    if head[0] != depth {
        return Ok(false);
    }
    // A count that is wrong meets the end of the file, or a wrong checksum.
    let words = u128::from(head[1]) * u128::from(header.bits.div_ceil(64));
    for _ in 0..words {
        reader.take()?;
    }
    reader.check()
}

/// Reads or writes words, and keeps the checksum of the record and the bytes so far.
struct Sums<T> {
    inner: T,
    sum: Xxh3,
    at: u64,
}

impl<T> Sums<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            sum: Xxh3::new(),
            at: 0,
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
        self.at += bytes.len() as u64;
    }
}

impl<W: Write> Sums<W> {
    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.count(bytes);
        self.inner.write_all(bytes)
    }

    fn put(&mut self, word: u64) -> io::Result<()> {
        self.put_bytes(&word.to_le_bytes())
    }

    /// Ends a record.
    fn put_sum(&mut self) -> io::Result<()> {
        let sum = self.sum.digest();
        self.put(sum)?;
        self.sum.reset();
        Ok(())
    }
}

impl<R: Read> Sums<R> {
    fn take_bytes(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.count(bytes);
        Ok(())
    }

    fn take(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.take_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Ends a record: whether its checksum is right.
    fn check(&mut self) -> io::Result<bool> {
        let sum = self.sum.digest();
        let right = self.take()? == sum;
        self.sum.reset();
        Ok(right)
    }
}
