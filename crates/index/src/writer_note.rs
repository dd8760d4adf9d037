//! Which process a table's only writer is: a note beside the word that names the writer, for those
//! who would take over from it.
//!
//! ```text
//! process | its start | its PID namespace | checksum, which depends on the writer's mark
//! ```
//! Only writers that map the table's memory leave one, and only clients that map it go by it: they
//! share a kernel. The writer's word decides who the writer is. A note that does not fit to that
//! word says nothing: it is an earlier writer's, there was never one, or the writer has not written
//! it yet.

use crate::hash::checksum;
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, Piece, ProcessId, RemoteAddr, Rights};

/// Bytes of a note.
const BYTES: usize = 32;

/// Leaves the note of this process at `at`, where the memory is mapped, once it is the writer with
/// this mark.
pub(crate) fn leave(endpoint: &impl Endpoint, at: RemoteAddr, mark: u64) {
    let Some(view) = endpoint.in_place(at, Rights::READ.and(Rights::WRITE)) else {
        return;
    };
    let piece = Piece {
        from: at,
        len: BYTES,
    };
    let (Some(offset), Some(process)) = (view.offset_of(piece), ProcessId::current()) else {
        return;
    };
    let note = note(process, mark);
    let words = view.words(offset);
    // An owner that executes calls becomes the writer again with each.
    if (0..note.len()).any(|word| words(word) != note[word]) {
        view.write(offset, BYTES, &note);
    }
}

/// Refuses to take over from the writer with this mark, if the note at `at` says that it is another
/// process than this one, and it runs. Never does so where the memory is not mapped.
///
/// # Errors
/// [`IndexError::WriterAlive`].
pub(crate) fn check_ended(endpoint: &impl Endpoint, at: RemoteAddr, writer: u64) -> Result<()> {
    match running_process(endpoint, at, writer) {
        Some(pid) => Err(IndexError::WriterAlive { writer, pid }),
        None => Ok(()),
    }
}

/// The number of that process.
fn running_process(endpoint: &impl Endpoint, at: RemoteAddr, mark: u64) -> Option<u32> {
    let view = endpoint.in_place(at, Rights::READ)?;
    let words = view.words(view.offset_of(Piece {
        from: at,
        len: BYTES,
    })?);
    let process = ProcessId::from_words([words(0), words(1), words(2)])?;
    let is_other = words(3) == note(process, mark)[3] && ProcessId::current() != Some(process);
    (is_other && process.is_running() == Some(true)).then_some(process.pid())
}

fn note(process: ProcessId, mark: u64) -> [u64; 4] {
    let [pid, started, namespace] = process.to_words();
    let sum = checksum(bytemuck::cast_slice(&[pid, started, namespace]), mark);
    [pid, started, namespace, u64::from(sum)]
}
