//! The files of a directory of snapshots, and how they are opened.
//!
//! Other users may be able to write into the directory. So a file that is to be written is created
//! by this process, or was left by an attempt of the same user: no link is followed, and a file
//! that another user owns, may write or has a second name for is refused. Opening never waits,
//! as it would for a pipe without a writer.
//!
//! ```text
//! NAME.snapshot         the last snapshot of the table
//! NAME.snapshot.1       the one before it, NAME.snapshot.2 the one before that
//! NAME@K.snapshot       the last snapshot that a node has written of its own part, part K
//! NAME.snapshot.part    one that is being written
//! ```

use super::SnapshotError;
use super::walk::{Bytes, failed, head, totals};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// What the names of snapshots end with.
pub(super) const EXTENSION: &str = "snapshot";
/// The mode of a file that only its user may read.
const OURS_ALONE: u32 = 0o600;
/// Bytes of a name before its extension: longer ones are cut, and told apart by a hash.
const LONGEST_STEM: usize = 180;

/// The file of a table's snapshot in a directory.
#[must_use]
pub fn snapshot_path(directory: &Path, table: &str) -> PathBuf {
    directory.join(format!("{}.{EXTENSION}", stem(table)))
}

/// The file of the snapshot that a node writes of its own part of a table over several nodes.
#[must_use]
pub fn own_part_path(directory: &Path, table: &str, part: u16) -> PathBuf {
    // No stem has this character.
    directory.join(format!("{}@{part}.{EXTENSION}", stem(table)))
}

fn stem(table: &str) -> String {
    let mut stem = String::new();
    for (at, byte) in table.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => stem.push_str("%2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => stem.push(byte.into()),
            _ => stem.push_str(&format!("%{byte:02x}")),
        }
    }
    if stem.len() > LONGEST_STEM {
        stem.truncate(LONGEST_STEM);
        stem.push_str(&format!("~{:016x}", xxh3_64(table.as_bytes())));
    }
    stem
}

/// The file of the snapshot that was written so many snapshots before the last one, whose file is
/// `path`.
#[must_use]
pub fn older_snapshot(path: &Path, older: u32) -> PathBuf {
    match older {
        0 => path.into(),
        older => with_suffix(path, &older.to_string()),
    }
}

/// Whether a file is named as a snapshot that was written so many before the last.
pub(super) fn is_named_as_older(path: &Path, older: u32) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = match older {
        0 => Some(&*name),
        older => name.strip_suffix(&format!(".{older}")),
    };
    name.is_some_and(|name| {
        Path::new(name)
            .extension()
            .is_some_and(|of| of == EXTENSION)
    })
}

/// A file beside that of a snapshot.
pub(super) fn with_suffix(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Opens a snapshot to be read.
///
/// # Errors
/// [`SnapshotError::File`], of what is no regular file too.
pub(super) fn open_to_read(path: &Path) -> Result<File, SnapshotError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(OFlags::NONBLOCK));
    let file = options.open(path).map_err(|error| failed(path, &error))?;
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    match metadata.is_file() {
        true => Ok(file),
        false => Err(SnapshotError::File {
            path: path.display().to_string(),
            reason: "it is not a regular file".into(),
        }),
    }
}

/// Opens a file, or makes it, that no other process writes for as long as it is open.
///
/// # Errors
/// [`SnapshotError::InUse`]; [`SnapshotError::Untrusted`] of a file that this user has not left
/// there; [`SnapshotError::File`].
pub(super) fn open_alone(path: &Path) -> Result<File, SnapshotError> {
    let in_use = || SnapshotError::InUse {
        path: path.display().to_string(),
    };
    let file = match open_to_write(path, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let existing = open_to_write(path, false);
            let existing = existing.map_err(|error| refused(path, &error))?;
            let metadata = existing.metadata().map_err(|error| failed(path, &error))?;
            check_ours(path, &metadata)?;
            // Whoever may read what was there does not read what comes.
            let ours_alone = Permissions::from_mode(OURS_ALONE);
            let set = existing.set_permissions(ours_alone);
            set.map_err(|error| failed(path, &error))?;
            existing
        }
        opened => opened.map_err(|error| failed(path, &error))?,
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use())?;
    // Another may have renamed or removed it since it was opened.
    let inode = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let existing = std::fs::symlink_metadata(path).map(inode);
    match (existing, file.metadata().map(inode)) {
        (Ok(existing), Ok(opened)) if existing == opened => Ok(file),
        _ => Err(in_use()),
    }
}

/// Opens a file that is there, or makes one where there is none.
fn open_to_write(path: &Path, new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(new);
    options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    // Secrets may keep others from the table.
    options.mode(OURS_ALONE).open(path)
}

const fn flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// Refuses a file that this user has not left there, or that others may write.
fn check_ours(path: &Path, metadata: &Metadata) -> Result<(), SnapshotError> {
    const OTHERS_WRITE: u32 = 0o022;
    let reason = if !metadata.is_file() {
        "is not a regular file".into()
    } else if metadata.uid() != geteuid().as_raw() {
        format!("belongs to user {}", metadata.uid())
    } else if metadata.mode() & OTHERS_WRITE != 0 {
        format!(
            "can be written by others (mode {:o})",
            metadata.mode() & 0o777
        )
    } else if metadata.nlink() != 1 {
        format!("has {} names", metadata.nlink())
    } else {
        return Ok(());
    };
    Err(untrusted(path, reason))
}

/// The error of a file that is there and cannot be opened: a symbolic link is not followed.
fn refused(path: &Path, error: &io::Error) -> SnapshotError {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => untrusted(path, "is a symbolic link".into()),
        _ => failed(path, error),
    }
}

fn untrusted(path: &Path, reason: String) -> SnapshotError {
    SnapshotError::Untrusted {
        path: path.display().to_string(),
        reason,
    }
}

/// Gives a finished file the name of the last snapshot. Of the snapshots before it, so many are
/// kept that with it there are `keep`. There is a last snapshot at any moment.
///
/// # Errors
/// [`SnapshotError::File`].
pub(super) fn replace_last(new: &Path, last: &Path, keep: u32) -> Result<(), SnapshotError> {
    if is_snapshot(last) {
        put_aside(last, keep).map_err(|error| failed(last, &error))?;
    }
    std::fs::rename(new, last).map_err(|error| failed(last, &error))?;
    let directory = directory_of(last);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed(directory, &error))
}

/// Whether a file says of itself that it is a snapshot that is finished. One that does not is not
/// kept in place of one that does.
fn is_snapshot(path: &Path) -> bool {
    let read = || {
        let file = open_to_read(path)?;
        let bytes = Bytes::of(&file, path)?;
        head(&bytes)?;
        totals(&bytes).map(drop)
    };
    read().is_ok()
}

/// Gives the last snapshot a second name, and each one before it that of the next older.
fn put_aside(last: &Path, keep: u32) -> io::Result<()> {
    let oldest = keep.max(1) - 1;
    // More may have been kept before.
    let beyond = (oldest.max(1)..).map(|older| older_snapshot(last, older));
    for path in beyond.take_while(|path| path.symlink_metadata().is_ok()) {
        std::fs::remove_file(path)?;
    }
    for older in (1..oldest).rev() {
        match std::fs::rename(older_snapshot(last, older), older_snapshot(last, older + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    if oldest == 0 {
        return Ok(());
    }
    let previous = older_snapshot(last, 1);
    // Not all file systems have second names.
    std::fs::hard_link(last, &previous).or_else(|_| std::fs::rename(last, &previous))
}

/// Removes a table's last snapshot and those before it.
///
/// # Errors
/// [`SnapshotError::File`].
pub fn remove_snapshots(path: &Path) -> crate::Result<()> {
    for path in (0..).map(|older| older_snapshot(path, older)) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(|error| failed(&path, &error))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_name_has_a_file_of_its_own() {
        let names = [
            "users",
            "a/b",
            "a%2fb",
            ".",
            "..",
            "gr\u{fc}n",
            &"\u{fc}".repeat(64),
            "users@1",
        ];
        let directory = Path::new("d");
        let mut paths: Vec<_> = names.map(|name| snapshot_path(directory, name)).into();
        paths.push(own_part_path(directory, "users", 1));
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(path.parent(), Some(directory));
            assert!(path.file_name().unwrap().len() < 255);
            assert!(!paths[..number].contains(path), "{path:?}");
        }
        assert_eq!(paths[0], Path::new("d/users.snapshot"));
    }

    #[test]
    fn only_files_that_this_user_has_left_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.snapshot.part");
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        let refusal = || open_alone(&path).unwrap_err().to_string();

        symlink(&victim, &path).unwrap();
        assert!(refusal().contains("is a symbolic link"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        symlink(directory.path().join("nowhere"), &path).unwrap();
        assert!(refusal().contains("is a symbolic link"), "{}", refusal());
        assert!(!directory.path().join("nowhere").exists());
        std::fs::remove_file(&path).unwrap();

        std::fs::hard_link(&victim, &path).unwrap();
        assert!(refusal().contains("has 2 names"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();

        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(refusal().contains("written by others"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();

        let pipe = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, pipe, 0).unwrap();
        assert!(refusal().contains("not a regular file"), "{}", refusal());
        let read = open_to_read(&path).unwrap_err().to_string();
        assert!(read.contains("not a regular file"), "{read}");
        std::fs::remove_file(&path).unwrap();

        // One that an attempt has left, as whoever may read it has it open.
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let file = open_alone(&path).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(matches!(
            open_alone(&path),
            Err(SnapshotError::InUse { .. })
        ));
        drop(file);
        open_alone(&path).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    }

    #[test]
    fn a_file_of_another_user_is_not_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.snapshot.part");
        std::fs::write(&path, "his").unwrap();
        // Only root can give files away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            return;
        }
        let refused = open_alone(&path).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 12345"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"his");
    }
}
