//! A snapshot that is being written: a file beside the one that it will replace.
//!
//! Threads append whole blocks to it. An attempt that was cut off leaves it, and the next one keeps
//! what is whole: of each partition all blocks up to the end of a piece of the scan. The file gets
//! its name when it is complete and on disk, so that a snapshot is there whole or not at all.

use super::SnapshotError;
use super::files::{open_alone, replace_last, with_suffix};
use super::format::{DONE, FRAME_BYTES, Frame, Kind, MIDDLE, Payload, SnapshotHead, sum_of};
use super::walk::{Block, failed, walk};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the file's name ends with until it is complete.
const UNFINISHED: &str = "part";

/// A file that is being written, by one process.
pub(super) struct Partial {
    path: PathBuf,
    unfinished: PathBuf,
    pub(super) head: SnapshotHead,
    /// Where the scan of each partition continues.
    pub(super) places: Vec<u64>,
    file: File,
    end: Mutex<FileTail>,
}

/// The end of the file as far as it is written.
#[derive(Clone, Copy)]
pub(super) struct FileTail {
    at: u64,
    chain: u64,
    pub(super) records: u64,
    bytes: u64,
}

impl Partial {
    /// Begins a file that will be at `path`, or continues one of the same table whose records have
    /// not moved since.
    pub(super) fn begin(path: &Path, head: SnapshotHead) -> Result<Self, SnapshotError> {
        let unfinished = with_suffix(path, UNFINISHED);
        let file = open_alone(&unfinished)?;
        let (head, places, end) = match left(&file, &unfinished, &head) {
            Some(left) => left,
            None => start(&file, &unfinished, head)?,
        };
        Ok(Self {
            path: path.into(),
            unfinished,
            head,
            places,
            file,
            end: Mutex::new(end),
        })
    }

    fn end(&self) -> MutexGuard<'_, FileTail> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that are in the file.
    pub(super) fn records(&self) -> u64 {
        self.end().records
    }

    /// Appends a block of a partition, whose scan continues at `next`, and clears the payload.
    pub(super) fn append(
        &self,
        partition: u16,
        next: u64,
        payload: &mut Payload,
    ) -> Result<(), SnapshotError> {
        let frame = Frame {
            kind: Kind::Block,
            partition: partition.into(),
            next,
            records: payload.records,
            bytes: payload.bytes.len() as u64,
            sum: sum_of(&payload.bytes),
        };
        let mut end = self.end();
        let (bytes, chain) = frame.encode(end.chain);
        let at = end.at + FRAME_BYTES as u64;
        // A frame without its payload is recognised as damaged.
        self.write(&bytes, end.at)?;
        self.write(&payload.bytes, at)?;
        *end = FileTail {
            at: at + frame.bytes,
            chain,
            records: end.records + frame.records,
            bytes: end.bytes + frame.bytes,
        };
        drop(end);
        payload.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), SnapshotError> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|error| failed(&self.unfinished, &error))
    }

    /// Ends the file, and gives it its name once it is on disk; with it, `keep` snapshots are kept.
    /// Returns its length.
    pub(super) fn finish(self, keep: u32) -> Result<u64, SnapshotError> {
        let end = *self.end();
        let frame = Frame {
            kind: Kind::End,
            partition: 0,
            next: DONE,
            records: end.records,
            bytes: end.bytes,
            sum: 0,
        };
        let (bytes, _) = frame.encode(end.chain);
        self.write(&bytes, end.at)?;
        let synced = self.file.sync_all();
        synced.map_err(|error| failed(&self.unfinished, &error))?;
        replace_last(&self.unfinished, &self.path, keep)?;
        Ok(end.at + FRAME_BYTES as u64)
    }
}

/// Writes a head, and nothing else.
fn start(
    file: &File,
    path: &Path,
    head: SnapshotHead,
) -> Result<(SnapshotHead, Vec<u64>, FileTail), SnapshotError> {
    let (bytes, sum) = head.encode().map_err(|reason| SnapshotError::File {
        path: path.display().to_string(),
        reason,
    })?;
    let written = file.set_len(0).and_then(|()| file.write_all_at(&bytes, 0));
    written.map_err(|error| failed(path, &error))?;
    let places = vec![0; head.schemes.len()];
    let end = FileTail {
        at: bytes.len() as u64,
        chain: sum,
        records: 0,
        bytes: 0,
    };
    Ok((head, places, end))
}

/// What an attempt of the same table has left: its head, where the scan of each partition
/// continues, and the end of what is whole, which is the file's end then.
fn left(
    file: &File,
    path: &Path,
    head: &SnapshotHead,
) -> Option<(SnapshotHead, Vec<u64>, FileTail)> {
    let walk = walk(file, path).ok()?;
    let same = SnapshotHead {
        id: head.id,
        begun: head.begun,
        moves: head.moves.clone(),
        ..walk.head.clone()
    };
    if same != *head {
        return None;
    }
    if walk.head.moves != head.moves {
        let (table, path) = (&head.table, path.display());
        log::warn!(
            "records of table {table:?} have moved since {path} was left: its snapshot begins again"
        );
        return None;
    }
    let kept = whole_pieces(&walk.blocks, head.schemes.len());
    let blocks = &walk.blocks[..kept];
    let mut places = vec![0; head.schemes.len()];
    for block in blocks {
        places[block.frame.partition as usize] = block.frame.next;
    }
    let end = FileTail {
        at: blocks.last().map_or(walk.head_bytes, Block::end),
        chain: blocks.last().map_or(walk.head_sum, |block| block.chain),
        records: blocks.iter().map(|block| block.frame.records).sum(),
        bytes: blocks.iter().map(|block| block.frame.bytes).sum(),
    };
    file.set_len(end.at).ok()?;
    Some((walk.head, places, end))
}

/// How many of the blocks can be kept: so that of no partition a piece of the scan is kept in part.
fn whole_pieces(blocks: &[Block], partitions: usize) -> usize {
    let mut kept = blocks.len();
    loop {
        // By partition, the first block of a piece that has not ended.
        let mut open = vec![None; partitions];
        for (number, block) in blocks[..kept].iter().enumerate() {
            let open = &mut open[block.frame.partition as usize];
            *open = match block.frame.next {
                MIDDLE => open.or(Some(number)),
                _ => None,
            };
        }
        match open.into_iter().flatten().min() {
            None => return kept,
            Some(first) => kept = first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_kept_whole() {
        let block = |(partition, next)| Block {
            at: 0,
            frame: Frame {
                kind: Kind::Block,
                partition,
                next,
                records: 0,
                bytes: 0,
                sum: 0,
            },
            chain: 0,
        };
        for (blocks, kept) in [
            (&[(0, 5), (1, 6), (0, DONE)][..], 3),
            (&[(0, 5), (1, MIDDLE), (0, DONE)], 1),
            // Without the second of partition 1 its first is no piece; nor is what stands before.
            (&[(1, MIDDLE), (0, MIDDLE), (1, 4), (0, MIDDLE)], 0),
            (&[(0, MIDDLE), (0, 4), (1, 3), (0, MIDDLE)], 3),
        ] {
            let blocks: Vec<_> = blocks.iter().copied().map(block).collect();
            assert_eq!(whole_pieces(&blocks, 2), kept, "{blocks:?}");
        }
    }
}
