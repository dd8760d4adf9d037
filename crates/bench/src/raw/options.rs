//! What the benchmark may vary, and what READs are held against.

use crate::{BenchError, Result};
use farslot::fabric::shm::LINE;
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;

/// The fabrics whose READs are measured bare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Memory of a process of this host, through a mapping.
    Shm,
    /// Memory behind an agent, over loopback.
    Tcp,
    /// Memory of this process, through this machine's RDMA NIC.
    Verbs,
}

/// What the benchmark may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the memory is.
    pub fabric: Fabric,
    /// Whether READs over TCP are under TLS.
    pub tls: bool,
    /// Bytes of the memory that is read from, at random places.
    pub memory: u64,
    /// Bytes of a READ, a multiple of 8, and of a cache line over shared memory.
    pub read_bytes: usize,
    /// READs under way at once.
    pub outstanding: usize,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// READs of one repetition, with so many under way.
    pub operations: usize,
    /// READs of one repetition that are timed one by one, with no other under way.
    pub single_reads: usize,
    /// What the places derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fabric: Fabric::Tcp,
            tls: false,
            memory: 256 << 20,
            read_bytes: 64,
            outstanding: 64,
            repetitions: 7,
            operations: 1 << 21,
            single_reads: 1 << 15,
            seed: 0,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        let bad =
            |option, value: usize, limit: &str| Err(BenchError::bad(option, value as u64, limit));
        if self.tls && self.fabric != Fabric::Tcp {
            return bad("TLS", 1, "over TCP alone");
        }
        let (unit, limit) = match self.fabric {
            Fabric::Tcp | Fabric::Verbs => (8, "a multiple of 8 up to 1 MiB"),
            // What plain loads are of.
            Fabric::Shm => (LINE, "a multiple of 64 up to 1 MiB over shared memory"),
        };
        if self.read_bytes == 0
            || !self.read_bytes.is_multiple_of(unit)
            || self.read_bytes > 1 << 20
        {
            return bad("read bytes", self.read_bytes, limit);
        }
        if !(1..=4096).contains(&self.outstanding) {
            return bad("outstanding", self.outstanding, "from 1 to 4096");
        }
        if self.memory < 1 << 20 || self.memory < self.read_bytes as u64 {
            return Err(BenchError::bad("memory", self.memory, "at least 1 MiB"));
        }
        for (option, value) in [
            ("repetitions", self.repetitions),
            ("operations", self.operations),
            ("single reads", self.single_reads),
        ] {
            if value == 0 {
                return bad(option, 0, "at least 1");
            }
        }
        Ok(())
    }
}

/// What READs are held against: the same bytes, and nothing around them.
pub(super) trait Ceiling {
    /// What is done where READs are many at once.
    fn many(&self, options: &Options) -> String;

    /// What is done where READs are one by one.
    fn one(&self, options: &Options) -> String;

    /// READs/s that it stands for, with [`Options::outstanding`] under way.
    fn rate(&self, options: &Options, random: &mut ChaCha8Rng) -> Result<f64>;

    /// Times it one by one, the clock's own time included.
    fn latency(
        &self,
        options: &Options,
        random: &mut ChaCha8Rng,
        latency: &mut Histogram<u64>,
    ) -> Result<()>;
}
