//! The machines of paper 002, section 4: DAS-5, with a 48 Gb/s InfiniBand network, under Berkeley UPC.

use farslot::fabric::sim::NicProfile;
use farslot::model::NicModel;

/// What the paper's network costs, with the UPC runtime above it.
///
/// Given by the paper: 48 Gb/s. Fitted on two cells of its table 1, the latencies at load 0.5 with C = 8
/// and C = 128 (3.69 and 4.50 us): there half of the find-or-puts are of the process's own memory, the others take one
/// chunk and one compare-and-swap. So 3.636 us a verb and 1.69 ns a byte; everything else is that of
/// [`NicProfile::connectx5_edr`].
pub(super) fn profile() -> NicProfile {
    NicProfile {
        name: "das5-upc".into(),
        read_latency_ns: 3636.0,
        latency_per_byte_ns: 1.69,
        link_bytes_per_ns: 6.0,
        ..NicProfile::connectx5_edr()
    }
}

/// The same for the model that chooses chunks.
pub(super) fn model() -> NicModel {
    let profile = profile();
    NicModel {
        read_latency_ns: profile.read_latency_ns,
        latency_ns_per_byte: profile.latency_per_byte_ns,
        bandwidth_bytes_per_second: profile.link_bytes_per_ns * 1e9,
        ..NicModel::connectx5_edr()
    }
}

/// What verbs to another machine cost there, if the latencies of the paper's table 1 are those of find-or-puts in the other
/// machine's memory: half as much as [`profile`] has, of which half of the find-or-puts take none.
///
/// Only so two machines reach the paper's throughput. What a verb occupies in the NIC, a ConnectX-3, is what paper 003
/// measures of that generation (its section 3.3).
pub(super) fn verbs() -> NicProfile {
    let nic = profile();
    let of_its_kind = NicProfile::connectx3_roce();
    NicProfile {
        name: "das5-verbs".into(),
        read_latency_ns: nic.read_latency_ns / 2.0,
        latency_per_byte_ns: nic.latency_per_byte_ns / 2.0,
        requester_ns: of_its_kind.requester_ns,
        responder_ns: of_its_kind.responder_ns,
        ..nic
    }
}
