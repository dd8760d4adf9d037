//! The memory node: this program once more, as a process of its own that serves memory. A program
//! that starts one has a command `serve` with the options that are passed here.

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
        Self::start_at(&format!("shm://{purpose}-{}", std::process::id()), bytes, 1)
    }

    /// Starts one that serves over TCP, at any port of this host that is free, by so many threads.
    ///
    /// # Errors
    /// As [`MemoryNode::start`].
    pub fn start_tcp(bytes: u64, threads: usize) -> Result<Self> {
        Self::start_at("tcp://127.0.0.1:0", bytes, threads)
    }

    /// Starts one that this machine's RDMA NIC serves, at any port of this host that is free.
    ///
    /// # Errors
    /// As [`MemoryNode::start`].
    pub fn start_verbs(bytes: u64) -> Result<Self> {
        Self::start_at("verbs://127.0.0.1:0", bytes, 1)
    }

    fn start_at(address: &str, bytes: u64, threads: usize) -> Result<Self> {
        let failed = || Failure::io("the memory node");
        let program = std::env::current_exe().map_err(failed())?;
        let process = Command::new(program)
            .args([
                "serve",
                address,
                "--memory",
                &bytes.to_string(),
                "--threads",
                &threads.to_string(),
                "--while-stdin",
                "--json",
            ])
            .env_remove("FARSLOT_ADDRESS")
            .env_remove("FARSLOT_GRANT")
            .env_remove("FARSLOT_SECRET")
            .env_remove("FARSLOT_SECRET_FILE")
            .env_remove("FARSLOT_TLS_CERT")
            .env_remove("FARSLOT_TLS_KEY")
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

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Processor time that it has used so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(farslot_bench::process::cpu_seconds(self.process())?)
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
