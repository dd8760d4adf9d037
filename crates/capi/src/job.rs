//! Processes that start together.

use crate::error::{Failure, FsKind, made, note, noted};
use crate::input::text;
use farslot_set::job::{Job, Launch};
use std::ffi::c_char;

/// A process among those that have started together.
#[derive(Debug)]
pub struct JobHandle(pub(crate) Job);

fn joined(launch: Launch) -> Result<JobHandle, Failure> {
    let job = Job::join(launch);
    job.map(JobHandle)
        .map_err(|error| Failure::new(FsKind::FS_KIND_OTHER, error))
}

/// Joins a job as process `rank` of `ranks`, all of which call this; rank 0 listens at
/// `rendezvous`, "HOST:PORT", which may be null for a process alone. Null if that fails. To be
/// freed by fs_job_free.
///
/// # Safety
/// `rendezvous` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_join(
    rank: u32,
    ranks: u32,
    rendezvous: *const c_char,
) -> *mut JobHandle {
    made(|| {
        // SAFETY: as the caller says.
        let rendezvous = unsafe { text(rendezvous) }?;
        joined(Launch {
            rank,
            ranks,
            rendezvous: rendezvous.map(str::to_owned),
            ..Launch::alone()
        })
    })
}

/// The same with rank and number of ranks from the environment that mpirun or srun sets; a process
/// alone without one.
///
/// # Safety
/// As of fs_job_join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_join_launched(rendezvous: *const c_char) -> *mut JobHandle {
    made(|| {
        // SAFETY: as the caller says.
        let rendezvous = unsafe { text(rendezvous) }?.map(str::to_owned);
        joined(Launch::from_environment(rendezvous).map_err(Failure::bad)?)
    })
}

/// This process's rank; 0 of null.
///
/// # Safety
/// `job` is null or a job that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_rank(job: *const JobHandle) -> u32 {
    // SAFETY: as the caller says.
    unsafe { job.as_ref() }.map_or(0, |job| job.0.rank())
}

/// How many processes there are; 0 of null.
///
/// # Safety
/// `job` is null or a job that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_ranks(job: *const JobHandle) -> u32 {
    // SAFETY: as the caller says.
    unsafe { job.as_ref() }.map_or(0, |job| job.0.ranks())
}

/// Waits until all processes of the job have called it. Returns whether they have: false, with a
/// message, if one has died.
///
/// # Safety
/// `job` is null or a job that was not freed, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_barrier(job: *mut JobHandle) -> bool {
    // SAFETY: as the caller says.
    match unsafe { job.as_mut() } {
        Some(job) => noted(job.0.barrier()).is_some(),
        None => {
            note("no job");
            false
        }
    }
}

/// Leaves a job. Null is no job, and nothing happens.
///
/// # Safety
/// `job` is null or a job that was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_job_free(job: *mut JobHandle) {
    if !job.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        drop(unsafe { Box::from_raw(job) });
    }
}
