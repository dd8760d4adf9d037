//! Finding files: every file of one file system, nothing followed.

use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use indicatif::ProgressBar;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use walkdir::{DirEntry, WalkDir};

/// A file as it was when it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: Vec<u8>,
    size: u64,
    mtime: i64,
    mode: u32,
    inode: u64,
}

impl File {
    /// What the table holds for it.
    pub fn value(&self) -> String {
        let Self {
            size,
            mtime,
            mode,
            inode,
            ..
        } = self;
        format!(r#"{{"size":{size},"mtime":{mtime},"mode":"{mode:o}","inode":{inode}}}"#)
    }

    /// A path of the same length that no file has: none has a zero byte in it.
    pub fn absent(&self) -> Vec<u8> {
        let mut path = self.path.clone();
        if let Some(last) = path.last_mut() {
            *last = 0;
        }
        path
    }

    fn of(entry: &DirEntry) -> walkdir::Result<Self> {
        let metadata = entry.metadata()?;
        Ok(Self {
            path: entry.path().as_os_str().as_bytes().to_vec(),
            size: metadata.size(),
            mtime: metadata.mtime(),
            mode: metadata.mode(),
            inode: metadata.ino(),
        })
    }
}

/// What a walk has found.
pub struct Walked {
    /// The directory, as an absolute path.
    pub root: String,
    /// Its files.
    pub files: Vec<File>,
    /// What could not be looked at.
    pub skipped: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Finds all files below a path.
///
/// # Errors
/// If there is no such path, or no file below it.
pub fn walk(path: &Path) -> Result<Walked> {
    let root = path
        .canonicalize()
        .map_err(Failure::io(path.display().to_string()))?;
    let spinner = ProgressBar::new_spinner().with_message("walking");
    spinner.enable_steady_tick(Duration::from_millis(100));
    let since = Instant::now();
    let mut files = Vec::new();
    let mut skipped = 0;
    for entry in WalkDir::new(&root).same_file_system(true) {
        let file = match entry {
            Ok(entry) if entry.file_type().is_file() => File::of(&entry),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        match file {
            Ok(file) => files.push(file),
            Err(_) => skipped += 1,
        }
        if files.len().is_multiple_of(1024) {
            let found = output::grouped(files.len() as u64);
            spinner.set_message(format!("walking: {found} files"));
        }
    }
    spinner.finish_and_clear();
    if files.is_empty() {
        return Err(Failure::Failed(format!(
            "there are no files in {}",
            root.display()
        )));
    }
    Ok(Walked {
        root: root.display().to_string(),
        files,
        skipped,
        seconds: since.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_found_once_and_nothing_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join(".hidden")).unwrap();
        for name in ["a", ".b", ".hidden/c", ".gitignore"] {
            std::fs::write(root.join(name), "*").unwrap();
        }
        std::os::unix::fs::symlink(&root, root.join("loop")).unwrap();
        let walked = walk(&root).unwrap();
        let mut paths: Vec<_> = walked.files.iter().map(|file| file.path.clone()).collect();
        paths.sort();
        let expected = [".b", ".gitignore", ".hidden/c", "a"];
        let expected = expected.map(|name| root.join(name).as_os_str().as_bytes().to_vec());
        assert_eq!(paths, expected);
        assert_eq!(walked.skipped, 0);
        assert!(walked.files[0].value().starts_with(r#"{"size":1,"mtime":"#));
    }

    #[test]
    fn a_path_without_files_is_named() {
        let root = tempfile::tempdir().unwrap();
        let empty = walk(root.path()).err().unwrap().to_string();
        assert!(empty.contains("no files in"), "{empty}");
        let missing = walk(&root.path().join("missing")).err().unwrap();
        assert!(
            missing.to_string().contains("missing: No such file"),
            "{missing}"
        );
    }
}
