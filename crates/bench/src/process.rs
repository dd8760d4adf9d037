//! What the kernel knows of a process.

use crate::{BenchError, Result};

/// User and system time that a process has used so far, in seconds, to a tick of the kernel's
/// (mostly 10 ms).
///
/// # Errors
/// [`BenchError::Process`] if it has ended, or is none of this machine.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let unreadable = |reason: String| BenchError::Process { process, reason };
    let stat =
        std::fs::read_to_string(&path).map_err(|error| unreadable(format!("{path}: {error}")))?;
    let ticks =
        cpu_ticks(&stat).ok_or_else(|| unreadable(format!("{path} does not read as expected")))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time of a process, of the text of its `/proc/PID/stat` (proc(5)).
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The name is in parentheses and may have anything in it, parentheses too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// A field of a process's memory in `/proc/PID/status` (proc(5)), such as `VmRSS:`, in bytes;
/// nothing if the process has ended.
#[must_use]
pub fn memory_of(process: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 12 30 0 0 20 0 1 0 5 0 0";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a"), None);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        // Above the kernel's largest number of a process.
        assert!(matches!(
            cpu_seconds(u32::MAX),
            Err(BenchError::Process { .. })
        ));
    }

    #[test]
    fn a_process_has_memory() {
        let own = std::process::id();
        let (now, most) = (memory_of(own, "VmRSS:"), memory_of(own, "VmHWM:"));
        assert!(now > Some(1 << 20) && most >= now, "{now:?} of {most:?}");
        assert_eq!(memory_of(u32::MAX, "VmRSS:"), None);
    }
}
