//! What filling and looking up share: the table, threads over the files, a progress bar.

use super::walk::File;
use farslot_terminal::failure::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

/// The table's name.
pub(super) const TABLE: &str = "files";

/// A progress bar on standard error; none where that is no terminal.
pub(super) fn bar(doing: &'static str, length: u64) -> ProgressBar {
    let template = "{msg:>9} {wide_bar} {human_pos}/{human_len} {per_sec} {elapsed}";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(doing)
}

/// Runs `work` on every part of `files`, each in a thread of its own.
pub(super) fn in_threads<T: Send>(
    files: &[File],
    threads: usize,
    work: impl Fn(usize, &[File]) -> Result<T> + Sync,
) -> Result<(Vec<T>, f64)> {
    let since = Instant::now();
    let part = files.len().div_ceil(threads).max(1);
    let results = std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let from = (thread * part).min(files.len());
                let to = (from + part).min(files.len());
                scope.spawn(move || work(thread, &files[from..to]))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Result<Vec<T>>>()
    })?;
    Ok((results, since.elapsed().as_secs_f64()))
}
