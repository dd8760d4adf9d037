//! Reading a snapshot's file from its start: all that is whole of it.
//!
//! Nothing in it is believed before its checksum is right, and nothing is allocated for a length
//! that the rest of the file does not have.

use super::SnapshotError;
use super::format::{
    BLOCK_BYTES, DONE, FRAME_BYTES, Frame, Kind, PREFIX_BYTES, Prefix, Records, SnapshotHead,
    VERSION, sum_of,
};
use farslot_fabric::ByteCount;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Blocks that may be shorter than [`BLOCK_BYTES`]: the last of each partition, and those of each
/// attempt that was cut off. What is kept of a block is bounded by its bytes otherwise.
const MOST_SHORT: u64 = 1 << 20;

/// A file's bytes at any place.
pub(super) struct Bytes<'f> {
    file: &'f File,
    path: &'f Path,
    /// How many there are.
    pub(super) length: u64,
}

impl<'f> Bytes<'f> {
    pub(super) fn of(file: &'f File, path: &'f Path) -> Result<Self, SnapshotError> {
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        let length = metadata.len();
        Ok(Self { file, path, length })
    }

    pub(super) fn damaged(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> SnapshotError {
        SnapshotError::Damaged {
            path: self.path.display().to_string(),
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Reads so many bytes, for `piece`.
    fn read(&self, at: u64, bytes: &mut [u8], piece: &str) -> Result<(), SnapshotError> {
        self.check(at, bytes.len() as u64, piece)?;
        let read = self.file.read_exact_at(bytes, at);
        read.map_err(|error| failed(self.path, &error))
    }

    fn check(&self, at: u64, bytes: u64, piece: &str) -> Result<(), SnapshotError> {
        let left = self.length.saturating_sub(at);
        if bytes > left {
            let expected = format!("{piece}, of {}", ByteCount(bytes));
            return Err(self.damaged(at, expected, format!("the end of the file after {left}")));
        }
        Ok(())
    }

    /// Reads the payload of a block into `payload`, and checks it.
    pub(super) fn payload(
        &self,
        block: &Block,
        payload: &mut Vec<u8>,
    ) -> Result<(), SnapshotError> {
        let Frame {
            bytes,
            records,
            sum,
            ..
        } = block.frame;
        let at = block.at + FRAME_BYTES as u64;
        let piece = "a block";
        self.check(at, bytes, piece)?;
        payload.clear();
        payload.resize(bytes as usize, 0);
        self.read(at, payload, piece)?;
        let found = sum_of(payload);
        if found != sum {
            let expected = format!("{bytes} bytes with the checksum {sum:016x}");
            return Err(self.damaged(at, expected, format!("{found:016x}")));
        }
        let mut intact = 0;
        for record in Records(payload) {
            if record.is_none() {
                let expected = format!("{records} records");
                return Err(self.damaged(at, expected, format!("{intact} and then a part of one")));
            }
            intact += 1;
        }
        if intact != records {
            return Err(self.damaged(at, format!("{records} records"), intact.to_string()));
        }
        Ok(())
    }
}

/// The error of a file that the system fails.
pub(super) fn failed(path: &Path, error: &std::io::Error) -> SnapshotError {
    SnapshotError::File {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// A block in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The first byte of its frame.
    pub(super) at: u64,
    pub(super) frame: Frame,
    /// The chain behind its frame.
    pub(super) chain: u64,
}

impl Block {
    /// The first byte behind it.
    pub(super) const fn end(&self) -> u64 {
        self.at + FRAME_BYTES as u64 + self.frame.bytes
    }
}

/// What is whole of a file.
pub(super) struct SnapshotWalk {
    pub(super) head: SnapshotHead,
    /// Bytes up to the first frame.
    pub(super) head_bytes: u64,
    /// The sum of the head.
    pub(super) head_sum: u64,
    pub(super) blocks: Vec<Block>,
    /// What is wrong with what follows; nothing if the file is whole.
    pub(super) damage: Option<SnapshotError>,
}

/// Reads the head: it, its bytes and its sum.
pub(super) fn head(bytes: &Bytes<'_>) -> Result<(SnapshotHead, u64, u64), SnapshotError> {
    let mut prefix = [0; PREFIX_BYTES];
    bytes.read(0, &mut prefix, "the head of a snapshot")?;
    let Some(prefix) = Prefix::decode(&prefix) else {
        return Err(bytes.damaged(0, "the head of a snapshot", "something else"));
    };
    let piece = "the head and its description of the table";
    // Of the whole head: its length may be what is damaged.
    bytes.check(0, PREFIX_BYTES as u64 + u64::from(prefix.length), piece)?;
    let mut json = vec![0; prefix.length as usize];
    bytes.read(PREFIX_BYTES as u64, &mut json, piece)?;
    let (expected, found) = prefix.sums(&json);
    if expected != found {
        let expected = format!("a head with the checksum {expected:016x}");
        return Err(bytes.damaged(0, expected, format!("{found:016x}")));
    }
    if prefix.version() != VERSION {
        return Err(SnapshotError::Version {
            path: bytes.path.display().to_string(),
            version: prefix.version(),
            known: VERSION,
        });
    }
    let at = PREFIX_BYTES as u64;
    let wrong = |found: String| bytes.damaged(at, "the description of a table", found);
    let head: SnapshotHead =
        serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    head.check().map_err(wrong)?;
    Ok((head, at + u64::from(prefix.length), found))
}

/// Reads a file up to its end, or up to what is damaged.
///
/// # Errors
/// That its head is damaged, or what the system says.
pub(super) fn walk(file: &File, path: &Path) -> Result<SnapshotWalk, SnapshotError> {
    let bytes = Bytes::of(file, path)?;
    let (head, head_bytes, head_sum) = head(&bytes)?;
    let mut walk = SnapshotWalk {
        head,
        head_bytes,
        head_sum,
        blocks: Vec::new(),
        damage: None,
    };
    match walk.go_on(&bytes) {
        Err(error @ SnapshotError::File { .. }) => return Err(error),
        Err(damage) => walk.damage = Some(damage),
        Ok(()) => {}
    }
    Ok(walk)
}

impl SnapshotWalk {
    fn go_on(&mut self, bytes: &Bytes<'_>) -> Result<(), SnapshotError> {
        let most = self.head.most_block();
        let (mut at, mut chain) = (self.head_bytes, self.head_sum);
        let (mut records, mut all_bytes) = (0, 0);
        let mut is_done = vec![false; self.head.schemes.len()];
        let mut payload = Vec::new();
        loop {
            let mut frame = [0; FRAME_BYTES];
            bytes.read(at, &mut frame, "a block's frame")?;
            let (frame, behind) = Frame::decode(&frame, chain).map_err(|(expected, found)| {
                let expected = format!("a frame with the checksum {expected:016x}");
                bytes.damaged(at, expected, format!("{found:016x}"))
            })?;
            if frame.kind == Kind::End {
                return self.check_end(bytes, at, &frame, (records, all_bytes), &is_done);
            }
            let block = Block {
                at,
                frame,
                chain: behind,
            };
            let Some(is_done) = is_done.get_mut(frame.partition as usize) else {
                let expected = format!("a partition below {}", self.head.schemes.len());
                return Err(bytes.damaged(at, expected, frame.partition.to_string()));
            };
            if *is_done || frame.bytes > most {
                let expected = format!("a block of at most {most} bytes of a partition with more");
                let found = format!("{} bytes of partition {}", frame.bytes, frame.partition);
                return Err(bytes.damaged(at, expected, found));
            }
            if self.blocks.len() as u64 > MOST_SHORT + all_bytes / BLOCK_BYTES as u64 {
                let expected = format!("blocks of {BLOCK_BYTES} bytes");
                return Err(bytes.damaged(at, expected, "too many short ones"));
            }
            bytes.payload(&block, &mut payload)?;
            *is_done = frame.next == DONE;
            records += frame.records;
            all_bytes += frame.bytes;
            self.blocks.push(block);
            (at, chain) = (block.end(), behind);
        }
    }

    fn check_end(
        &self,
        bytes: &Bytes<'_>,
        at: u64,
        frame: &Frame,
        (records, all): (u64, u64),
        is_done: &[bool],
    ) -> Result<(), SnapshotError> {
        if (frame.records, frame.bytes) != (records, all) {
            let expected = format!("the totals, {records} records and {all} bytes");
            let found = format!("{} and {}", frame.records, frame.bytes);
            return Err(bytes.damaged(at, expected, found));
        }
        if let Some(partition) = is_done.iter().position(|is_done| !is_done) {
            let expected = format!("the rest of partition {partition}");
            return Err(bytes.damaged(at, expected, "the end"));
        }
        let end = at + FRAME_BYTES as u64;
        if bytes.length != end {
            let found = format!("{} bytes more", bytes.length - end);
            return Err(bytes.damaged(end, "the end of the file", found));
        }
        Ok(())
    }
}

/// The totals of a file that says of itself that it is finished, without a look at what is before.
pub(super) fn totals(bytes: &Bytes<'_>) -> Result<Frame, SnapshotError> {
    let at = bytes.length.saturating_sub(FRAME_BYTES as u64);
    let mut frame = [0; FRAME_BYTES];
    bytes.read(at, &mut frame, "the last frame")?;
    match Frame::parse(&frame) {
        Some(frame) if frame.kind == Kind::End => Ok(frame),
        _ => Err(bytes.damaged(at, "the last frame", "something else")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;
    use crate::catalog::record::Scheme;
    use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

    fn head() -> SnapshotHead {
        SnapshotHead {
            id: 1,
            table: "t".into(),
            begun: 0,
            sources: vec![7],
            schemes: vec![TableOptions::new(10).scheme().unwrap()],
            slots: None,
            built: false,
            moves: Vec::new(),
            part: None,
            sharded: None,
            nodes: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// A file of this head and these frames, whose checksums are right, with the payload "x" behind
    /// each that is no end.
    fn walked(head: &SnapshotHead, frames: &[Frame]) -> Result<SnapshotWalk, SnapshotError> {
        let (mut bytes, mut chain) = head.encode().unwrap();
        for frame in frames {
            let (frame_bytes, behind) = frame.encode(chain);
            chain = behind;
            bytes.extend_from_slice(&frame_bytes);
            if frame.kind == Kind::Block {
                bytes.push(b'x');
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        walk(&File::open(&path).unwrap(), &path)
    }

    const BLOCK: Frame = Frame {
        kind: Kind::Block,
        partition: 0,
        next: DONE,
        records: 1,
        bytes: 1,
        sum: 0,
    };

    #[test]
    fn a_whole_file_of_the_format_before_is_refused_by_both_versions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let json = b"{}";
        let mut bytes = [
            &b"farsnap\n"[..],
            &1_u32.to_le_bytes(),
            &2_u32.to_le_bytes(),
        ]
        .concat();
        let sum = xxh3_64_with_seed(json, xxh3_64(&bytes));
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(json);
        std::fs::write(&path, bytes).unwrap();
        let refused = walk(&File::open(&path).unwrap(), &path)
            .map(drop)
            .unwrap_err();
        let said = refused.to_string();
        let says = "has format 1; this program reads format 2";
        assert!(said.contains(says), "{said}");
    }

    #[test]
    fn frames_that_nobody_has_written_are_refused_before_anything_is_allocated() {
        let end = Frame {
            kind: Kind::End,
            bytes: 0,
            records: 0,
            ..BLOCK
        };
        for (frame, part) in [
            (
                Frame {
                    bytes: u64::MAX,
                    ..BLOCK
                },
                "at most",
            ),
            (
                Frame {
                    bytes: 1 << 19,
                    ..BLOCK
                },
                "the end of the file after 1",
            ),
            (
                Frame {
                    partition: 1,
                    ..BLOCK
                },
                "a partition below 1",
            ),
            (
                Frame {
                    sum: sum_of(b"x"),
                    ..BLOCK
                },
                "a part of one",
            ),
            (BLOCK, "checksum"),
            (Frame { records: 1, ..end }, "the totals"),
            (end, "the rest of partition 0"),
        ] {
            let walk = walked(&head(), &[frame]).unwrap();
            let damage = walk.damage.unwrap().to_string();
            assert!(damage.contains(part), "{part}: {damage}");
            assert!(walk.blocks.is_empty());
        }
    }

    #[test]
    fn heads_of_no_table_are_refused() {
        let linear = head().schemes[0].clone();
        let mut empty = linear.clone();
        if let Scheme::Linear(layout) = &mut empty {
            layout.slots = u64::MAX;
        }
        let sealed = TableOptions::new(10).sealed().scheme().unwrap();
        for (sources, schemes) in [
            (vec![], vec![]),
            (vec![1, 2], vec![linear.clone()]),
            (vec![1, 2], vec![linear.clone(), linear.clone()]),
            (vec![1, 2], vec![linear, sealed]),
            (vec![1], vec![empty]),
        ] {
            let head = SnapshotHead {
                sources,
                schemes,
                ..head()
            };
            let refused = walked(&head, &[]).err().unwrap().to_string();
            assert!(refused.contains("description of a table"), "{refused}");
        }
        let table = "\n".into();
        assert!(walked(&SnapshotHead { table, ..head() }, &[]).is_err());
    }
}
