//! What one READ costs: latency, occupancy of the NIC, and the bandwidth bound on its size.

use crate::ModelError;

/// The cost parameters of a NIC and its link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NicModel {
    /// c of paper 000, Eq. 3: the latency of an unloaded READ of 0 bytes, in ns.
    pub read_latency_ns: f64,
    /// alpha of paper 000, Eq. 3: the latency added by each byte of payload, in ns.
    pub latency_ns_per_byte: f64,
    /// How long a saturated NIC is busy with a READ of 0 bytes, in ns.
    pub read_occupancy_ns: f64,
    /// How much longer for each byte of payload, in ns.
    pub occupancy_ns_per_byte: f64,
    /// rho_0 of paper 000, section 3.1: the peak rate of READs of 0 bytes, in READs per second.
    pub peak_reads_per_second: f64,
    /// h of paper 000, section 3.1: the size of a READ of 0 bytes on the wire, in bytes.
    pub header_bytes: f64,
    /// l of paper 000, Eq. 2: the link's bandwidth, in bytes per second.
    pub bandwidth_bytes_per_second: f64,
}

impl NicModel {
    /// A Mellanox ConnectX-5 on 100 Gbit/s EDR InfiniBand.
    ///
    /// From paper 000, section 5.1, measured by its authors: 1290 ns per READ, 87.17 million
    /// READs/s. From the same section, given by the link: 12.5 GB/s, and its reciprocal, 0.08 ns
    /// per byte. From section 3.1, given by the InfiniBand specification: a header of 30 bytes.
    ///
    /// The occupancy, 15.0 ns + 0.0713 ns per byte, is not in the paper: it is fitted on the nine
    /// throughputs of its Table 2 (28 queue pairs, saturated). It reproduces those within 7 %, and
    /// predicts without further fitting the paper's cuckoo lookups (3 READs of 32 bytes: 19.3
    /// million lookups/s) and fixed READs of 256 bytes (30 million/s), which give its ratios of 2.8
    /// and 1.7.
    pub const fn connectx5_edr() -> Self {
        Self {
            read_latency_ns: 1290.0,
            latency_ns_per_byte: 0.08,
            read_occupancy_ns: 15.0,
            occupancy_ns_per_byte: 0.0713,
            peak_reads_per_second: 87.17e6,
            header_bytes: 30.0,
            bandwidth_bytes_per_second: 12.5e9,
        }
    }

    /// The memory of the same host, read by loads that were prefetched: a cache line costs about as
    /// much as the work around it. Occupancies fitted on one machine (AMD EPYC, 1 GiB table, reads
    /// of 64 to 192 B, batches of lookups); the optimum is flat, so that others are served well
    /// enough. On 2026-11-22 `farslot calibrate shm://NAME` found 261 ns + 0.10 ns per byte there,
    /// and two threads busy for 15.8 ns + 0.10 ns per byte with a bare READ, so that one is for
    /// twice as long: the work around a READ of a lookup is little beside it.
    pub const fn shared_memory() -> Self {
        Self {
            read_latency_ns: 260.0,
            latency_ns_per_byte: 0.2,
            read_occupancy_ns: 30.0,
            occupancy_ns_per_byte: 0.15,
            peak_reads_per_second: 33e6,
            header_bytes: 64.0,
            bandwidth_bytes_per_second: 3.5e9,
        }
    }

    /// TCP over loopback, both ends on one machine: one client thread and one agent thread.
    ///
    /// Measured on 2026-11-22 by `farslot calibrate tcp://127.0.0.1:7391 --threads 1` on two
    /// virtual cores of an AMD EPYC, client and node on a core each, and rounded; the simulator's
    /// profile `tcp-loopback` is the same measurement. The header was not measured: nothing there
    /// depends on it. A calibration of the machine at hand is better.
    pub const fn tcp_loopback() -> Self {
        Self {
            read_latency_ns: 8_500.0,
            latency_ns_per_byte: 0.26,
            read_occupancy_ns: 240.0,
            occupancy_ns_per_byte: 0.29,
            peak_reads_per_second: 4.0e6,
            header_bytes: 64.0,
            bandwidth_bytes_per_second: 3.0e9,
        }
    }

    /// T of paper 000, Eq. 3: the latency of an unloaded READ of `bytes` bytes, in ns.
    pub fn latency_ns(&self, bytes: usize) -> f64 {
        self.read_latency_ns + self.latency_ns_per_byte * bytes as f64
    }

    /// The time for which a READ of `bytes` bytes occupies a saturated NIC, in ns.
    pub fn occupancy_ns(&self, bytes: usize) -> f64 {
        self.read_occupancy_ns + self.occupancy_ns_per_byte * bytes as f64
    }

    /// rho of paper 000, section 3.1, rho_0 h / (h + w): the READ rate expected for slots of
    /// `slot_bytes` bytes, in READs per second.
    pub fn reads_per_second(&self, slot_bytes: usize) -> f64 {
        let header = self.header_bytes;
        self.peak_reads_per_second * header / (header + slot_bytes as f64)
    }

    /// The largest read size under the bandwidth constraint R w rho <= l (paper 000, Eq. 2), in
    /// slots of w = `slot_bytes` bytes; at least 1.
    ///
    /// Rounded to the *nearest* slot, not down: so it gives the paper's own 23, 9 and 6 slots of 8,
    /// 32 and 128 bytes (its Tables 1 and 3), where the bound is 22.7, 9.3 and 5.9.
    pub fn bandwidth_cap(&self, slot_bytes: usize) -> usize {
        let bytes_per_second_per_slot = self.reads_per_second(slot_bytes) * slot_bytes as f64;
        // A float to integer cast saturates, and takes a NaN to 0.
        let slots = (self.bandwidth_bytes_per_second / bytes_per_second_per_slot).round() as usize;
        slots.max(1)
    }

    /// Checks that a cost can be computed: every field finite, none negative, rates above zero.
    ///
    /// # Errors
    /// [`ModelError::Nic`] with the first field that is out of range.
    pub fn validate(&self) -> Result<(), ModelError> {
        let costs = [
            ("read_latency_ns", self.read_latency_ns),
            ("latency_ns_per_byte", self.latency_ns_per_byte),
            ("read_occupancy_ns", self.read_occupancy_ns),
            ("occupancy_ns_per_byte", self.occupancy_ns_per_byte),
        ];
        let rates = [
            ("peak_reads_per_second", self.peak_reads_per_second),
            ("header_bytes", self.header_bytes),
            (
                "bandwidth_bytes_per_second",
                self.bandwidth_bytes_per_second,
            ),
        ];
        check(&costs, |value| value >= 0.0)?;
        check(&rates, |value| value > 0.0)
    }
}

fn check(fields: &[(&'static str, f64)], in_range: fn(f64) -> bool) -> Result<(), ModelError> {
    for &(name, value) in fields {
        if !value.is_finite() || !in_range(value) {
            return Err(ModelError::Nic { name, value });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: NicModel = NicModel::connectx5_edr();

    #[test]
    fn the_caps_are_those_of_the_papers_tables() {
        let caps = [8, 32, 128, 5].map(|slot_bytes| NIC.bandwidth_cap(slot_bytes));
        assert_eq!(caps, [23, 9, 6, 33]);
    }

    #[test]
    fn a_cap_is_never_zero() {
        assert_eq!(NIC.bandwidth_cap(0), usize::MAX);
        assert!(NIC.bandwidth_cap(usize::MAX) >= 1);
        let slow = NicModel {
            bandwidth_bytes_per_second: 1.0,
            ..NIC
        };
        assert_eq!(slow.bandwidth_cap(8), 1);
    }

    #[test]
    fn the_occupancy_predicts_the_papers_baselines() {
        let cuckoo = 1e3 / (3.0 * NIC.occupancy_ns(32));
        let fixed = 1e3 / NIC.occupancy_ns(256);
        assert!((cuckoo - 19.3).abs() < 0.05, "{cuckoo}");
        assert!((fixed - 30.0).abs() < 0.2, "{fixed}");
    }

    #[test]
    fn a_nic_that_cannot_be_costed_is_refused() {
        assert_eq!(NIC.validate(), Ok(()));
        let backwards = NicModel {
            latency_ns_per_byte: -1.0,
            ..NIC
        };
        assert!(backwards.validate().is_err());
        let silent = NicModel {
            peak_reads_per_second: 0.0,
            ..NIC
        };
        assert!(silent.validate().is_err());
        let unknown = NicModel {
            read_latency_ns: f64::NAN,
            ..NIC
        };
        assert!(unknown.validate().is_err());
    }
}
