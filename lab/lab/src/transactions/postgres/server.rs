//! A PostgreSQL server for a measurement: in a directory of its own, trusting this host, on
//! loopback.

use super::connection::Connection;
use super::failure::{PEER, failure};
use crate::ycsb::{find_program, free_port};
use crate::{LabError, Result};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server on a busy machine may need this long until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that was started here, and ends with this.
pub(super) struct Server {
    child: Child,
    pub address: SocketAddr,
    directory: PathBuf,
}

/// Settings beside the defaults: what is committed is not waited for on the disk, and transactions
/// are serializable as those of the others are.
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "synchronous_commit=off",
    "default_transaction_isolation=serializable",
    "shared_buffers=512MB",
    "max_wal_size=4GB",
    "max_pred_locks_per_transaction=1024",
];

impl Server {
    pub(super) fn start() -> Result<Self> {
        let programs = programs().ok_or(LabError::NotInstalled {
            peer: PEER,
            program: "postgresql",
        })?;
        let address = free_port()?;
        let name = format!("farslot-postgres-{}-{}", std::process::id(), address.port());
        let directory = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| failure(address, error.to_string());
        let made = as_nobody_special(&programs.join("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--no-instructions",
                "-D",
            ])
            .arg(&directory)
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .map_err(failed)?;
        if !made.status.success() {
            let reason = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            // A directory that was begun is of no use.
            let _ = fs::remove_dir_all(&directory);
            return Err(failure(address, format!("initdb failed: {reason}")));
        }
        let mut command = as_nobody_special(&programs.join("postgres"));
        command
            .arg("-D")
            .arg(&directory)
            .args(["-p", &address.port().to_string()]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(failed)?;
        let mut server = Self {
            child,
            address,
            directory,
        };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let since = Instant::now();
        loop {
            let Err(error) = Connection::open(self.address) else {
                return Ok(());
            };
            let ended = self.child.try_wait().is_ok_and(|end| end.is_some());
            if ended || since.elapsed() > PATIENCE {
                return Err(failure(self.address, format!("it did not start: {error}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The number of its first process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, but with its shared memory given back.
        if let Some(process) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(process, Signal::QUIT);
        }
        let since = Instant::now();
        while self.child.try_wait().is_ok_and(|end| end.is_none()) {
            if since.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A program that must not run as root: as the user that the package makes, if this is root.
fn as_nobody_special(program: &Path) -> Command {
    match find_program("setpriv").filter(|_| geteuid().is_root()) {
        None => Command::new(program),
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--",
            ]);
            command.arg(program);
            command
        }
    }
}

/// Where the newest version's programs are: in the PATH, or where Debian puts them.
fn programs() -> Option<PathBuf> {
    if let Some(initdb) = find_program("initdb") {
        return Some(initdb.parent()?.into());
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let versions = versions.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut versions: Vec<u32> = versions.filter_map(|name| name.parse().ok()).collect();
    versions.sort_unstable();
    let folders = versions
        .iter()
        .rev()
        .map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").is_file())
}

/// Whether a server could be started.
pub(crate) fn is_installed() -> bool {
    programs().is_some()
}

/// Processor seconds that a server has used: of its first process, of those that it has, and of
/// those that have ended.
pub(super) fn cpu_seconds(server: u32) -> Result<f64> {
    let unreadable = |error: std::io::Error| farslot_bench::BenchError::Process {
        process: server,
        reason: error.to_string(),
    };
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile is among the first one's children that have.
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if let Some((parent, own, ended)) = times(&stat) {
            if process == server {
                ticks += own + ended;
            } else if parent == server {
                ticks += own;
            }
        }
    }
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A process' parent, its own ticks, and those of its children that have ended, of its
/// `/proc/PID/stat` (proc(5)).
fn times(stat: &str) -> Option<(u32, u64, u64)> {
    // The name is in parentheses and may have anything in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((
        fields.get(1)?.parse().ok()?,
        ticks(11)? + ticks(12)?,
        ticks(13)? + ticks(14)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_a_process_and_its_children() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194304 100 0 0 0 12 30 5 6 20 0 1 0 5 0 0";
        assert_eq!(times(stat), Some((3, 42, 11)));
        assert_eq!(times("7 (a"), None);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }
}
