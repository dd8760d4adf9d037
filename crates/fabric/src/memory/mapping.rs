//! Memory from the kernel: anonymous or a sealed memfd, in large pages where the machine has them.

use crate::error::os;
use crate::{FabricError, Result};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Regions and the first region's start are multiples of this: a large page of most machines.
pub(crate) const LARGE_PAGE: u64 = 2 << 20;

/// A mapping of whole words, unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    bytes: usize,
    /// Size of the pages asked for and got; 4096 where the kernel decides.
    pub(crate) page_bytes: u64,
    /// Whether its words may be stored to.
    pub(crate) writable: bool,
    /// What says for as long as it is mapped that it is.
    claim: Option<OwnedFd>,
}

// SAFETY: the mapping is owned, stays at its address until the drop, and is only reached through
// `words`, as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above: all shared access goes through `&[AtomicU64]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// All words of the mapping. Those of one that is not [`writable`](Self::writable) may only be
    /// loaded, and relaxed: a store or a read-modify-write would fault.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `start` is a live mapping of `bytes` bytes, aligned to a page; it was sealed
        // against shrinking or is anonymous, so every page stays backed; zeroed words are valid
        // atomics; and all processes that share it access it as atomics only. Words of a mapping
        // that is not writable are only loaded: `attach` maps read-only where it was asked for
        // neither WRITE nor ATOMIC and then masks both out of the rights of every region, which all
        // verbs that store are checked against; and `Node::take_message` looks at `writable` before
        // it touches the mailbox.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes / 8) }
    }

    /// Private memory of this process. In 2 MiB pages if it is as much and the machine has set
    /// enough aside.
    pub(crate) fn anonymous(bytes: u64) -> Result<Self> {
        let length = check_memory(bytes)?;
        if bytes > 0 && bytes.is_multiple_of(LARGE_PAGE) {
            // They are reserved here and now: who has the mapping has the pages.
            let large = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
            let start = unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, large)
            };
            if let Ok(start) = start {
                return Self::adopt(start, length, LARGE_PAGE, true);
            }
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(os("mmap"))?;
        Self::adopt(start, length, page_size(), true)
    }

    /// Maps a file whole.
    pub(crate) fn of_file(file: BorrowedFd<'_>, writable: bool, page_bytes: u64) -> Result<Self> {
        let status = rustix::fs::fstat(file).map_err(os("fstat"))?;
        let bytes = u64::try_from(status.st_size).unwrap_or(0);
        let length = usize::try_from(bytes).map_err(|_| FabricError::Memory {
            requested: bytes,
            limit: usize::MAX as u64,
        })?;
        let protection = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing in this
        // process; other processes access the file as atomics only.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )
        }
        .map_err(os("mmap"))?;
        Self::adopt(start, length, page_bytes, writable)
    }

    fn adopt(
        start: *mut std::ffi::c_void,
        bytes: usize,
        page_bytes: u64,
        writable: bool,
    ) -> Result<Self> {
        if page_bytes < LARGE_PAGE {
            // SAFETY: advice on a mapping of ours changes no content. A refusal costs only speed.
            let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxHugepage) };
        }
        let start = NonNull::new(start.cast()).ok_or(FabricError::Os {
            call: "mmap",
            error: "mapped at address 0".into(),
        })?;
        Ok(Self {
            start,
            bytes,
            page_bytes,
            writable,
            claim: None,
        })
    }

    /// The same mapping, which keeps this file open.
    pub(crate) fn with_claim(mut self, claim: Option<OwnedFd>) -> Self {
        self.claim = claim;
        self
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and `self` was the only way to reach it. A failure would leak
        // it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A memfd of `bytes` bytes that can neither shrink nor grow, so that nobody who maps it can be
/// killed by a page that has gone. In 2 MiB pages if the machine has set enough aside.
pub(crate) fn sealed_memfd(bytes: u64) -> Result<(OwnedFd, u64)> {
    check_memory(bytes)?;
    let large = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    if let Ok(file) = memfd_with(bytes, large) {
        // Large pages are reserved when the file is mapped: only that tells whether there are
        // enough.
        if reserve(file.as_fd(), bytes) {
            return Ok((file, LARGE_PAGE));
        }
    }
    Ok((memfd_with(bytes, MemfdFlags::empty())?, page_size()))
}

/// As [`sealed_memfd`], in pages of the usual size.
pub(crate) fn sealed_file(bytes: u64) -> Result<OwnedFd> {
    check_memory(bytes)?;
    memfd_with(bytes, MemfdFlags::empty())
}

fn memfd_with(bytes: u64, flags: MemfdFlags) -> Result<OwnedFd> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("farslot", flags).map_err(os("memfd_create"))?;
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(os("fchmod"))?;
    rustix::fs::ftruncate(&file, bytes).map_err(os("ftruncate"))?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(os("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

fn reserve(file: BorrowedFd<'_>, bytes: u64) -> bool {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes).is_ok()
}

/// Refuses a file that could shrink under its readers.
pub(crate) fn check_sealed(file: BorrowedFd<'_>, subject: &str) -> Result<()> {
    let reason = match rustix::fs::fcntl_get_seals(file) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => return Ok(()),
        Ok(_) => "it is not sealed against shrinking".into(),
        Err(error) => format!("it is no memory that can be sealed: {error}"),
    };
    Err(FabricError::DamagedHeader {
        subject: subject.into(),
        reason,
    })
}

/// The same file, without the right to write to it.
pub(crate) fn read_only(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    opened_again(file, OFlags::RDONLY)
}

/// The same file, opened once more: with locks of its own.
pub(crate) fn opened_again(file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(os("open(/proc/self/fd)"))
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Refuses more than the machine can back now: what is available, not what it has in all.
fn check_memory(bytes: u64) -> Result<usize> {
    let limit = available_memory();
    match usize::try_from(bytes) {
        Ok(length) if bytes <= limit => Ok(length),
        _ => Err(FabricError::Memory {
            requested: bytes,
            limit,
        }),
    }
}

/// Bytes that the machine can give without swapping, and that the control groups of this process
/// (those of a container, or of a service) have left; all of the machine's memory where it does not
/// say. The limit of every node's memory.
#[must_use]
pub fn available_memory() -> u64 {
    let kib = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemAvailable:"))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        });
    let info = rustix::system::sysinfo();
    let of_machine = kib.map_or(info.totalram as u64 * u64::from(info.mem_unit), |kib| {
        kib * 1024
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    left_in_groups(Path::new("/sys/fs/cgroup"), &groups)
        .map_or(of_machine, |left| left.min(of_machine))
}

/// How a version of control groups says what a group has of memory.
struct GroupFiles {
    /// Where its groups are, beneath the directory of all.
    root: &'static str,
    /// The limit, what is in use, and how much of that are files that nothing has used of late.
    max: &'static str,
    current: &'static str,
    idle: &'static str,
}

const VERSION_2: GroupFiles = GroupFiles {
    root: "",
    max: "memory.max",
    current: "memory.current",
    idle: "inactive_file ",
};

const VERSION_1: GroupFiles = GroupFiles {
    root: "memory",
    max: "memory.limit_in_bytes",
    current: "memory.usage_in_bytes",
    idle: "total_inactive_file ",
};

/// Bytes left in a process's control groups and in those above them, where one has a limit.
/// `groups` is what the kernel says of the process's groups, and `root` the directory of all.
fn left_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let left = groups.lines().filter_map(|line| {
        let (_, of) = line.split_once(':')?;
        let (controllers, group) = of.split_once(":/")?;
        let files = match controllers {
            "" => VERSION_2,
            _ if controllers.split(',').any(|of| of == "memory") => VERSION_1,
            _ => return None,
        };
        let root = root.join(files.root);
        // A container sees its own group as the root, and in version 1 also by the name it has
        // outside.
        let group = root.join(group);
        let groups = group.ancestors();
        let groups = groups.take_while(|group| group.starts_with(&root));
        let left = groups.filter_map(|group| {
            let read = |file| std::fs::read_to_string(group.join(file)).ok();
            let [max, current] = [read(files.max)?, read(files.current)?];
            left_in_group(&max, &current, &read("memory.stat")?, files.idle)
        });
        left.min()
    });
    left.min()
}

/// Bytes left in a control group, by three of its files. Files that are cached there and that
/// nothing has used of late make room first, so they count as left.
fn left_in_group(max: &str, current: &str, stat: &str, idle: &str) -> Option<u64> {
    // "max" where there is no limit; in version 1 more than any machine has.
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let idle = stat.lines().find_map(|line| line.strip_prefix(idle))?;
    let idle: u64 = idle.trim().parse().ok()?;
    Some(max.saturating_sub(current.saturating_sub(idle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_has_left_what_its_limit_and_its_use_say() {
        let stat = "anon 4096\nfile 300\ninactive_anon 7\ninactive_file 200\nactive_file 100\n";
        let left_in_group = |max: &str, current: &str, stat: &str| {
            super::left_in_group(max, current, stat, VERSION_2.idle)
        };
        assert_eq!(left_in_group("max\n", "5000\n", stat), None);
        assert_eq!(left_in_group("9000\n", "5000\n", stat), Some(4200));
        assert_eq!(left_in_group("4000\n", "5000\n", stat), Some(0));
        assert_eq!(left_in_group("9000\n", "100\n", stat), Some(9000));
        assert_eq!(left_in_group("9000\n", "5000\n", "anon 4096\n"), None);
    }

    #[test]
    fn the_group_with_the_least_left_counts_of_all_above_a_process() {
        let root = std::env::temp_dir().join(format!("farslot-groups-{}", std::process::id()));
        let write = |group: &str, max: &str| {
            let group = root.join(group);
            std::fs::create_dir_all(&group).unwrap();
            let files = [
                ("memory.max", max),
                ("memory.current", "100"),
                ("memory.stat", "inactive_file 0\n"),
            ];
            for (file, text) in files {
                std::fs::write(group.join(file), text).unwrap();
            }
        };
        // What is above the root does not count.
        write("", "101");
        write("all", "max");
        write("all/slice", "1000");
        write("all/slice/service", "3000");
        let left = |groups| left_in_groups(&root.join("all"), groups);
        let found = [
            left("4:memory:/other\n0::/slice/service\n"),
            left("0::/slice"),
            left("0::/"),
            left("0::/absent/service"),
            left("4:memory:/slice\n"),
            left(""),
        ];
        // Version 1 beside version 2, by the name outside of a container and without a limit.
        let memory = root.join("all/memory");
        std::fs::create_dir_all(&memory).unwrap();
        let limited = |limit: &str| {
            for (file, text) in [
                ("memory.limit_in_bytes", limit),
                ("memory.usage_in_bytes", "100"),
                ("memory.stat", "inactive_file 1\ntotal_inactive_file 50\n"),
            ] {
                std::fs::write(memory.join(file), text).unwrap();
            }
            left("5:cpu,memory:/docker/7f3a\n4:pids:/slice\n0::/slice\n")
        };
        let of_version_1 = [limited("500"), limited("9223372036854771712")];
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Some(900), Some(900), None, None, None, None]);
        assert_eq!(of_version_1, [Some(450), Some(900)]);
    }

    #[test]
    fn no_node_has_more_memory_than_is_available() {
        let available = available_memory();
        assert!(available > 1 << 20, "{available}");
        let error = check_memory(u64::MAX).unwrap_err();
        assert!(matches!(error, FabricError::Memory { .. }), "{error}");
    }
}
