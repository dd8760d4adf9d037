//! Which process this is, and whether another process of this machine has ended.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// A process of one machine, distinct from later processes that get the same number.
///
/// Meaningful only among processes that share a kernel: PID namespaces of different machines can
/// have the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessId {
    pid: u32,
    /// When it started, in clock ticks since the machine did.
    started: u64,
    /// The inode of the PID namespace in which `pid` is its number.
    namespace: u64,
}

/// This process, once it was asked for: it is asked for whenever a client becomes a writer.
static OWN: Mutex<Option<ProcessId>> = Mutex::new(None);

impl ProcessId {
    /// This process; `None` if `/proc` does not tell.
    #[must_use]
    pub fn current() -> Option<Self> {
        let mut current = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id();
        // A child by `fork` has its parent's.
        if current.is_none_or(|current| current.pid != pid) {
            *current = Some(Self {
                pid,
                started: started(pid)?,
                namespace: std::fs::metadata("/proc/self/ns/pid").ok()?.ino(),
            });
        }
        *current
    }

    /// The same process from [`ProcessId::to_words`], or from any bytes.
    #[must_use]
    pub fn from_words([pid, started, namespace]: [u64; 3]) -> Option<Self> {
        Some(Self {
            pid: u32::try_from(pid).ok()?,
            started,
            namespace,
        })
    }

    /// As words to be kept where other processes of this machine find them.
    #[must_use]
    pub fn to_words(self) -> [u64; 3] {
        [u64::from(self.pid), self.started, self.namespace]
    }

    /// Its number in its PID namespace.
    #[must_use]
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Whether it still runs; a stopped process does, a zombie does not. `None` if that cannot be
    /// known: it is in another PID namespace, or the system does not tell. Never waits.
    #[must_use]
    pub fn is_running(self) -> Option<bool> {
        if Self::current()?.namespace != self.namespace {
            return None;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Some(false);
        };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            // The latter two: the number is that of a thread by now.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Some(false),
            Err(_) => return None,
        };
        // The number can have been given to another process before `process` was opened, or after
        // that one has ended. Both have a later start than this one.
        let started = started(self.pid);
        if started.is_some_and(|started| started != self.started) {
            return Some(false);
        }
        let mut polled = [PollFd::new(&process, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let has_ended = poll(&mut polled, Some(&at_once)).ok()? > 0;
        match (has_ended, started) {
            (true, _) => Some(false),
            (false, Some(_)) => Some(true),
            (false, None) => None,
        }
    }
}

/// When the process that has this number started, in clock ticks since the machine did.
fn started(pid: u32) -> Option<u64> {
    started_in(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field of `/proc/PID/stat`. The second is the program's name in parentheses, which may
/// have any bytes in it.
fn started_in(stat: &[u8]) -> Option<u64> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null()).spawn().unwrap()
    }

    fn id_of(child: &Child) -> ProcessId {
        ProcessId {
            pid: child.id(),
            started: started(child.id()).unwrap(),
            namespace: ProcessId::current().unwrap().namespace,
        }
    }

    fn pid_of(child: &Child) -> Pid {
        Pid::from_raw(child.id().cast_signed()).unwrap()
    }

    #[test]
    fn this_process_runs() {
        let current = ProcessId::current().unwrap();
        assert_eq!(current.pid(), std::process::id());
        assert_eq!(current.is_running(), Some(true));
        assert_eq!(ProcessId::from_words(current.to_words()), Some(current));
    }

    #[test]
    fn a_process_runs_until_it_has_ended_however_it_is_stopped() {
        let mut child = sleeper();
        let (id, pid) = (id_of(&child), pid_of(&child));
        assert_eq!(id.is_running(), Some(true));
        kill_process(pid, Signal::STOP).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        assert_eq!(id.is_running(), Some(true), "stopped");
        child.kill().unwrap();
        // Waits for its end and leaves it a zombie.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), end).unwrap();
        assert_eq!(id.is_running(), Some(false), "a zombie");
        child.wait().unwrap();
        assert_eq!(id.is_running(), Some(false), "gone");
    }

    #[test]
    fn a_number_that_another_process_has_now_says_nothing() {
        let current = ProcessId::current().unwrap();
        let before = ProcessId {
            started: current.started - 1,
            ..current
        };
        assert_eq!(before.is_running(), Some(false));
        for pid in [0, u32::MAX] {
            assert_eq!(ProcessId { pid, ..current }.is_running(), Some(false));
        }
    }

    #[test]
    fn a_process_of_another_namespace_is_unknown() {
        let current = ProcessId::current().unwrap();
        let namespace = current.namespace + 1;
        assert_eq!(
            ProcessId {
                namespace,
                ..current
            }
            .is_running(),
            None
        );
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        for name in ["a", "a) R 1 2", "(((", ""] {
            let stat = format!("77 ({name}) S {}\n", fields.join(" "));
            assert_eq!(started_in(stat.as_bytes()), Some(22), "{name:?}");
        }
        for stat in ["", "77 (a", "77 (a) S 1 2 3", "77 (a)"] {
            assert_eq!(started_in(stat.as_bytes()), None, "{stat:?}");
        }
    }
}
