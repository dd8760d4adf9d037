//! Finding files: several threads, every file of one file system, nothing followed.

use crate::failure::{Failure, Result};
use crate::output;
use ignore::{DirEntry, WalkBuilder, WalkState};
use indicatif::ProgressBar;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

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

    fn of(entry: &DirEntry) -> std::result::Result<Self, ignore::Error> {
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
pub fn walk(path: &Path, threads: usize) -> Result<Walked> {
    let root = path
        .canonicalize()
        .map_err(Failure::io(path.display().to_string()))?;
    let spinner = ProgressBar::new_spinner().with_message("walking");
    spinner.enable_steady_tick(Duration::from_millis(100));
    let since = Instant::now();
    let skipped = AtomicU64::new(0);
    let (sender, found) = channel();
    WalkBuilder::new(&root)
        .standard_filters(false)
        .follow_links(false)
        .same_file_system(true)
        .threads(threads)
        .build_parallel()
        .run(|| {
            let mut mine = Mine::new(sender.clone(), &spinner);
            let skipped = &skipped;
            Box::new(move |entry| {
                if !mine.take(entry) {
                    skipped.fetch_add(1, Ordering::Relaxed);
                }
                WalkState::Continue
            })
        });
    drop(sender);
    spinner.finish_and_clear();
    let files: Vec<File> = found.into_iter().flatten().collect();
    if files.is_empty() {
        return Err(Failure::Failed(format!(
            "there are no files in {}",
            root.display()
        )));
    }
    Ok(Walked {
        root: root.display().to_string(),
        files,
        skipped: skipped.into_inner(),
        seconds: since.elapsed().as_secs_f64(),
    })
}

/// What one thread has found; told when the thread ends.
struct Mine<'s> {
    files: Vec<File>,
    sender: Sender<Vec<File>>,
    spinner: &'s ProgressBar,
}

impl<'s> Mine<'s> {
    fn new(sender: Sender<Vec<File>>, spinner: &'s ProgressBar) -> Self {
        Self {
            files: Vec::new(),
            sender,
            spinner,
        }
    }

    /// Takes a file; false for what could not be looked at.
    fn take(&mut self, entry: std::result::Result<DirEntry, ignore::Error>) -> bool {
        let Ok(entry) = entry else {
            return false;
        };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            return true;
        }
        let Ok(file) = File::of(&entry) else {
            return false;
        };
        self.files.push(file);
        if self.files.len().is_multiple_of(1024) {
            self.spinner.inc(1024);
            let found = output::grouped(self.spinner.position());
            self.spinner.set_message(format!("walking: {found} files"));
        }
        true
    }
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        // The receiver waits for all threads.
        let _ = self.sender.send(std::mem::take(&mut self.files));
    }
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
        let walked = walk(&root, 3).unwrap();
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
        let empty = walk(root.path(), 1).err().unwrap().to_string();
        assert!(empty.contains("no files in"), "{empty}");
        let missing = walk(&root.path().join("missing"), 1).err().unwrap();
        assert!(
            missing.to_string().contains("missing: No such file"),
            "{missing}"
        );
    }
}
