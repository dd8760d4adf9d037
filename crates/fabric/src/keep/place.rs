//! Where the keeper of a name is found.

use crate::error::os;
use crate::{FabricError, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest name.
const LONGEST_NAME: usize = 64;
/// The kernel's limit on the path of a socket, with a zero byte.
const LONGEST_PATH: usize = 108;

/// A name in a directory that is this user's alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    directory: PathBuf,
    name: String,
}

impl Place {
    /// The place of this name in a directory, which need not be there.
    ///
    /// # Errors
    /// [`BadName`](FabricError::BadName); [`UnsafeDirectory`](FabricError::UnsafeDirectory) of one
    /// that others than this user can enter, or that cannot be used.
    pub fn new(directory: &Path, name: &str) -> Result<Self> {
        let bad = |reason| FabricError::BadName {
            name: name.into(),
            reason,
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(bad("it must have 1 to 64 bytes"));
        }
        if !name.bytes().all(allowed) {
            return Err(bad(
                "only ASCII letters, digits, '-', '_' and '.' may be in it",
            ));
        }
        let place = Self {
            directory: directory.into(),
            name: name.into(),
        };
        let length = place.socket().as_os_str().len();
        if length >= LONGEST_PATH {
            return Err(place.refused(format!(
                "the path of a socket in it would have {length} bytes; the limit is {}",
                LONGEST_PATH - 1
            )));
        }
        if directory.exists() {
            place.check()?;
        }
        Ok(place)
    }

    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// [`UnsafeDirectory`](FabricError::UnsafeDirectory).
    pub fn make(&self) -> Result<()> {
        let mut maker = std::fs::DirBuilder::new();
        let made = maker.recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| self.refused(error.to_string()))?;
        self.check()
    }

    fn check(&self) -> Result<()> {
        let status = std::fs::metadata(&self.directory);
        let status = status.map_err(|error| self.refused(error.to_string()))?;
        let (owner, user) = (status.uid(), rustix::process::geteuid().as_raw());
        if owner != user {
            return Err(self.refused(format!("it is user {owner}'s, not user {user}'s")));
        }
        match status.mode() & 0o777 {
            mode if mode & 0o077 == 0 => Ok(()),
            mode => Err(self.refused(format!(
                "others than its user can reach it (mode {mode:o}, not 700)"
            ))),
        }
    }

    fn refused(&self, reason: String) -> FabricError {
        FabricError::UnsafeDirectory {
            path: self.directory.display().to_string(),
            reason,
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(format!("{}.keeper", self.name))
    }

    /// What the only keeper of the name holds; nothing if there is another.
    pub(super) fn lock(&self) -> Result<Option<OwnedFd>> {
        let path = self.directory.join(format!("{}.lock", self.name));
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(os("open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(os("flock")(error)),
        }
    }
}
