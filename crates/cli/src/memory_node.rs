//! The memory node: this program once more, as a process of its own that serves memory.

use crate::failure::{Failure, Result};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that serves memory. It ends with this, and however this process ends: its standard
/// input closes then.
pub struct MemoryNode {
    process: Child,
    address: String,
}

impl MemoryNode {
    /// Starts one for `purpose` and waits until it serves.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it serves.
    pub fn start(purpose: &str, bytes: u64) -> Result<Self> {
        Self::start_at(&format!("shm://{purpose}-{}", std::process::id()), bytes)
    }

    /// Starts one that serves over TCP, at any port of this host that is free.
    ///
    /// # Errors
    /// As [`MemoryNode::start`].
    pub fn start_tcp(bytes: u64) -> Result<Self> {
        Self::start_at("tcp://127.0.0.1:0", bytes)
    }

    fn start_at(address: &str, bytes: u64) -> Result<Self> {
        let failed = || Failure::io("the memory node");
        let program = std::env::current_exe().map_err(failed())?;
        let process = Command::new(program)
            .args([
                "serve",
                address,
                "--memory",
                &bytes.to_string(),
                "--while-stdin",
                "--json",
            ])
            .env_remove("FARSLOT_ADDRESS")
            .env_remove("FARSLOT_SECRET")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        let mut node = Self {
            process,
            address: address.into(),
        };
        let mut ready = String::new();
        if let Some(output) = node.process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut ready)
                .map_err(failed())?;
        }
        let ready: serde_json::Value = serde_json::from_str(&ready)
            .map_err(|_| Failure::Failed("the memory node did not start".into()))?;
        if let Some(address) = ready["address"].as_str() {
            node.address = address.into();
        }
        Ok(node)
    }

    /// Where it serves.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A failure of the store, with the node's address.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.address.parse() {
            Ok(address) => failure.at(&address),
            Err(_) => failure,
        }
    }

    /// Processor time that it has used so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(&path).map_err(Failure::io(path.clone()))?;
        let ticks = cpu_ticks(&stat)
            .ok_or_else(|| Failure::Failed(format!("{path} does not read as expected")))?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It would end by itself now. Killing it makes sure that waiting for it ends.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 12 30 0 0 20 0 1 0 5 0 0";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a"), None);
    }
}
