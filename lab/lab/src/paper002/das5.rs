//! The machines of paper 002, section 4: DAS-5, with a 48 Gb/s InfiniBand network, under Berkeley
//! UPC.

use farslot::fabric::sim::NicProfile;
use farslot::model::NicModel;

/// What the paper's network costs, with the UPC runtime above it.
///
/// Given by the paper: 48 Gb/s. Fitted on two cells of its table 1, the latencies at load 0.5 with
/// C = 8 and C = 128 (3.69 and 4.50 us), as simulated: a find-or-put takes a chunk, 1.04 of them
/// with C = 8, and a compare-and-swap, behind a chunk that is requested ahead. That gives 1.750 us
/// a verb and 0.673 ns a byte. These latencies are taken for those of
/// find-or-puts in the other machine's memory: only so can two machines have the throughput of the
/// same table. What a verb occupies in the NIC, a ConnectX-3, is what paper 003 measures of that
/// generation (its section 3.3); everything else is that of [`NicProfile::connectx5_edr`].
pub(super) fn profile() -> NicProfile {
    let of_its_kind = NicProfile::connectx3_roce();
    NicProfile {
        name: "das5-upc".into(),
        read_latency_ns: 1750.0,
        latency_per_byte_ns: 0.673,
        link_bytes_per_ns: 6.0,
        requester_ns: of_its_kind.requester_ns,
        responder_ns: of_its_kind.responder_ns,
        ..NicProfile::connectx5_edr()
    }
}

/// The same for the model that chooses chunks.
pub(super) fn model() -> NicModel {
    let profile = profile();
    NicModel {
        read_latency_ns: profile.read_latency_ns,
        latency_ns_per_byte: profile.latency_per_byte_ns,
        read_occupancy_ns: profile.responder_ns.per_message,
        occupancy_ns_per_byte: profile.responder_ns.per_byte,
        bandwidth_bytes_per_second: profile.link_bytes_per_ns * 1e9,
        ..NicModel::connectx5_edr()
    }
}
