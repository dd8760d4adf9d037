//! Putting all files into the table.

use super::crew::{TABLE, bar, in_threads};
use super::walk::File;
use farslot::Store;
use farslot_terminal::failure::Result;

/// Records that are put side by side.
const BATCH: usize = 256;

/// How the putting went.
#[derive(Clone, Copy, Debug)]
pub struct FillReport {
    /// Records that were put.
    pub records: u64,
    /// Records that the table said it had, although nobody had put them.
    pub wrong: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Puts every file, from several threads.
///
/// # Errors
/// The first that the table could not take.
pub fn fill(store: &Store, files: &[File], threads: usize) -> Result<FillReport> {
    let bar = bar("putting", files.len() as u64);
    let (wrong, seconds) = in_threads(files, threads, |_, part| {
        let table = store.table(TABLE)?;
        let mut wrong = 0;
        for batch in part.chunks(BATCH) {
            let values: Vec<String> = batch.iter().map(File::value).collect();
            let records: Vec<(&[u8], &[u8])> = batch
                .iter()
                .zip(&values)
                .map(|(file, value)| (&file.path[..], value.as_bytes()))
                .collect();
            table.put_many(&records, |_, new| wrong += u64::from(!new))?;
            bar.inc(batch.len() as u64);
        }
        Ok(wrong)
    })?;
    bar.finish_and_clear();
    Ok(FillReport {
        records: files.len() as u64,
        wrong: wrong.iter().sum(),
        seconds,
    })
}
