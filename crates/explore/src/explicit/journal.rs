//! Checkpoints: a file to which every complete level is appended.
//!
//! ```text
//! "FSEXPLOR" | version | bits of a state | digest of the model | n | n bytes of layout | checksum
//! level      | states in it | totals so far (6 words) | the states' words | checksum
//!            one a level
//! ```
//! All numbers are little-endian words of 8 bytes; a checksum is XXH3 of its record. A process that
//! is killed leaves at worst an unfinished record at the end, which the next one cuts off. The
//! file's first record appears with its name: it is written elsewhere and renamed. Whoever writes a
//! journal holds a lock on it. Of several ranks each has a journal, with its parts of the levels.

use super::level::Blocks;
use super::worker::{Search, Totals, Worker};
use crate::error::ExploreError;
use crate::model::{Model, Tokens};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
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

/// A digest of all that decides which states are reachable, and of which of how many ranks it is.
pub(crate) fn digest_of(value: &impl Hash, ranks: (usize, usize)) -> u64 {
    let mut digest = Xxh3::new();
    value.hash(&mut digest);
    if ranks.1 > 1 {
        ranks.hash(&mut digest);
    }
    digest.finish()
}

/// A file of complete levels.
#[derive(Debug)]
pub struct LevelJournal {
    path: PathBuf,
    file: File,
    header: Header,
    /// Where the first level begins, and where each level ends.
    start: u64,
    ends: Vec<u64>,
}

impl LevelJournal {
    /// A new journal without levels; what was at `path` is replaced.
    ///
    /// # Errors
    /// [`ExploreError::Journal`]; [`ExploreError::WrongJournal`] if another process creates it too.
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
        lock(&file, path)?;
        let length = write_header(&mut file, &header).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&temporary, path).map_err(failed)?;
        Ok(Self {
            path: path.into(),
            file,
            header,
            start: length,
            ends: Vec::new(),
        })
    }

    /// The journal at `path`, with all of its levels that are whole.
    ///
    /// # Errors
    /// [`ExploreError::Journal`], and [`ExploreError::WrongJournal`] if it is none, or if another
    /// process writes it.
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
        lock(&file, path)?;
        let mut reader = ChecksummedStream::new(BufReader::new(&file));
        let header = read_header(&mut reader).map_err(failed)?;
        let header =
            header.ok_or_else(|| wrong("not a journal of this version, or a damaged one"))?;
        let start = reader.at;
        let ends = whole_levels(&mut reader, &header).map_err(failed)?;
        Ok(Self {
            path: path.into(),
            file,
            header,
            start,
            ends,
        })
    }

    /// The journal at `path`, if there is one; else a new one.
    ///
    /// # Errors
    /// As [`LevelJournal::open`] and [`LevelJournal::create`]; [`ExploreError::WrongJournal`] if it
    /// belongs to something else.
    pub fn open_or_create(path: &Path, header: Header) -> Result<Self, ExploreError> {
        if !path.exists() {
            return Self::create(path, header);
        }
        let journal = Self::open(path)?;
        if journal.header != header {
            return Err(ExploreError::WrongJournal {
                path: path.into(),
                reason: "it is of another model",
            });
        }
        Ok(journal)
    }

    /// What it belongs to.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Levels in it.
    pub(super) fn levels(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Forgets all levels but the first ones.
    pub(super) fn keep(&mut self, levels: u64) {
        self.ends.truncate(levels as usize);
    }

    fn failed(&self, error: io::Error) -> ExploreError {
        ExploreError::Journal {
            path: self.path.clone(),
            error,
        }
    }

    /// Where the last level ends.
    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// Appends a level that is complete, with the totals of those before it. `state_of` writes a
    /// code's state, of so many words.
    pub(super) fn append(
        &mut self,
        level: &Blocks,
        totals: &Totals,
        words: usize,
        mut state_of: impl FnMut(u64, &mut [u64]) -> Result<(), ExploreError>,
    ) -> Result<(), ExploreError> {
        let end = self.end();
        let mut file = &self.file;
        let positioned = file.seek(SeekFrom::Start(end));
        positioned.map_err(|error| self.failed(error))?;
        let mut writer = ChecksummedStream::new(BufWriter::new(file));
        let mut head = [totals.depth, level.len()]
            .into_iter()
            .chain(to_words(totals));
        let mut wrote = head.try_for_each(|word| writer.put(word));
        let mut state = vec![0; words];
        for code in level.codes() {
            state_of(code, &mut state)?;
            wrote = wrote.and_then(|()| state.iter().try_for_each(|word| writer.put(*word)));
        }
        let wrote = wrote
            .and_then(|()| writer.put_sum())
            .and_then(|()| writer.inner.flush());
        let length = writer.at;
        drop(writer);
        wrote.map_err(|error| self.failed(error))?;
        self.ends.push(end + length);
        Ok(())
    }

    /// Inserts all states, of so many words each, by `insert`, which returns those that were new.
    /// Returns the totals of the last level, which is still to be expanded, and that level; those
    /// before it go to `earlier`.
    pub(super) fn replay(
        &mut self,
        words: usize,
        mut insert: impl FnMut(&[u64]) -> Result<Blocks, ExploreError>,
        mut earlier: impl FnMut(Blocks),
    ) -> Result<Option<(Totals, Blocks)>, ExploreError> {
        let (start, end) = (self.start, self.end());
        let prepared = self.file.set_len(end);
        let mut file = &self.file;
        let prepared = prepared.and_then(|()| file.seek(SeekFrom::Start(start)));
        prepared.map_err(|error| self.failed(error))?;
        let mut reader = ChecksummedStream::new(BufReader::new(file));
        let mut last: Option<(Totals, Blocks)> = None;
        while start + reader.at < end {
            if let Some((_, level)) = last.take() {
                earlier(level);
            }
            let head = read_record(&mut reader).map_err(|error| self.failed(error))?;
            let mut level = Blocks::default();
            let mut left = head[1];
            while left > 0 {
                let states = left.min(REPLAYED);
                let read = (0..states as usize * words).map(|_| reader.take());
                let read: io::Result<Vec<u64>> = read.collect();
                level.append(insert(&read.map_err(|error| self.failed(error))?)?);
                left -= states;
            }
            reader.take().map_err(|error| self.failed(error))?;
            last = Some((from_words(&head), level));
        }
        Ok(last)
    }
}

impl<M: Model> Search<'_, M> {
    /// Appends a level that is complete, with the totals of those before it.
    pub(super) fn record(
        &self,
        worker: &mut Worker<'_, '_, M>,
        journal: &mut LevelJournal,
        level: &Blocks,
        totals: &Totals,
    ) -> Result<(), ExploreError> {
        let store = self.read_store();
        journal.append(level, totals, self.words(), |code, state| {
            Ok(store.decode(worker.coder(), code, state)?)
        })
    }

    /// Inserts all states of a journal. Returns its last level, which is still to be expanded; the
    /// levels before it are added to `levels` where a trace may need them.
    pub(super) fn replay(
        &self,
        worker: &mut Worker<'_, '_, M>,
        journal: &mut LevelJournal,
        totals: &mut Totals,
        levels: &mut Vec<Blocks>,
    ) -> Result<Blocks, ExploreError> {
        let keeps = self.checks_invariant();
        let earlier = |level| {
            if keeps {
                levels.push(level);
            }
        };
        let last = journal.replay(self.words(), |states| worker.insert(states), earlier)?;
        let Some((before, last)) = last else {
            return Ok(Blocks::default());
        };
        *totals = before;
        Ok(last)
    }
}

/// How often a lock is tried, and how long between.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(10);

/// Makes sure that no other process writes a journal, for as long as its file is open.
fn lock(file: &File, path: &Path) -> Result<(), ExploreError> {
    for _ in 0..TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            // A child process that this one is starting has its open files, and so its locks, until
            // it becomes another program: such a lock goes by itself.
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN),
            locked => {
                return locked.map_err(|error| ExploreError::Journal {
                    path: path.into(),
                    error: error.into(),
                });
            }
        }
    }
    Err(ExploreError::WrongJournal {
        path: path.into(),
        reason: "another process writes it",
    })
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
    let mut writer = ChecksummedStream::new(BufWriter::new(file));
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
fn read_header(reader: &mut ChecksummedStream<BufReader<&File>>) -> io::Result<Option<Header>> {
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
    let checked = reader.take_bytes(&mut layout).and_then(|()| reader.check());
    match checked {
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

fn read_record(
    reader: &mut ChecksummedStream<BufReader<&File>>,
) -> io::Result<[u64; RECORD_WORDS]> {
    let mut head = [0; RECORD_WORDS];
    for word in &mut head {
        *word = reader.take()?;
    }
    Ok(head)
}

/// Where each record ends, up to the last one that is whole and follows the one before.
fn whole_levels(
    reader: &mut ChecksummedStream<BufReader<&File>>,
    header: &Header,
) -> io::Result<Vec<u64>> {
    let mut ends = Vec::new();
    for depth in 0.. {
        match next_whole(reader, header, depth) {
            Ok(true) => ends.push(reader.at),
            Ok(false) => break,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(ends)
}

fn next_whole(
    reader: &mut ChecksummedStream<BufReader<&File>>,
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
struct ChecksummedStream<T> {
    inner: T,
    sum: Xxh3,
    at: u64,
}

impl<T> ChecksummedStream<T> {
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

impl<W: Write> ChecksummedStream<W> {
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

impl<R: Read> ChecksummedStream<R> {
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
