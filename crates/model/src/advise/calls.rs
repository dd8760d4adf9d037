//! Operations that the owner of the memory executes when it is called.

use super::work::{VerbCosts, Work};

/// An operation by call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalledOperation {
    /// Bytes of its part of the request.
    pub request_bytes: f64,
    /// Bytes of its part of the reply.
    pub reply_bytes: f64,
    /// How long it occupies the owner's processor, in ns, beside what the message does.
    pub owner_ns: f64,
    /// Operations that a call carries; at least 1. They share the message, and each waits for its
    /// round trip.
    pub together: u32,
}

impl VerbCosts {
    /// An operation by call, where processors execute verbs and calls alike: what occupies the
    /// owner's processor is what occupies its NIC otherwise. Where a NIC executes verbs, the
    /// owner's processor is none of these stations.
    #[must_use]
    pub fn call(&self, operation: CalledOperation) -> Work {
        let CalledOperation {
            request_bytes,
            reply_bytes,
            owner_ns,
            together,
        } = operation;
        let share = 1.0 / f64::from(together.max(1));
        let bytes = request_bytes + reply_bytes;
        let message = self.transfer(bytes);
        // Each way has a link of its own.
        let link = self.transfer(request_bytes.max(reply_bytes)).link_ns;
        let header = self.transfer(0.0).link_ns;
        Work {
            verbs: share,
            messages_ns: message.messages_ns * share + owner_ns,
            link_ns: link - header * (1.0 - share),
            requester_ns: message.requester_ns * share,
            client_ns: message.client_ns * share,
            latency_ns: message.latency_ns + owner_ns,
            ..message
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::COSTS;
    use super::*;

    const GET: CalledOperation = CalledOperation {
        request_bytes: 48.0,
        reply_bytes: 116.0,
        owner_ns: 300.0,
        together: 1,
    };

    #[test]
    fn a_call_alone_is_a_message_and_the_owner_s_work() {
        let (call, read) = (COSTS.call(GET), COSTS.transfer(164.0));
        assert_eq!(
            (call.verbs, call.round_trips, call.bytes),
            (1.0, 1.0, 164.0)
        );
        assert!((call.latency_ns - read.latency_ns - 300.0).abs() < 1e-9);
        assert!((call.node_ns() - read.node_ns() - 300.0).abs() < 1e-9);
        assert!((call.link_ns - COSTS.transfer(116.0).link_ns).abs() < 1e-9);
    }

    #[test]
    fn many_share_the_message_and_nothing_else() {
        let (alone, shared) = (
            COSTS.call(GET),
            COSTS.call(CalledOperation {
                together: 32,
                ..GET
            }),
        );
        assert_eq!(shared.verbs * 32.0, 1.0);
        assert_eq!((shared.round_trips, shared.bytes), (1.0, alone.bytes));
        assert_eq!(shared.latency_ns, alone.latency_ns);
        let message = COSTS.nic.read_occupancy_ns * (1.0 - 1.0 / 32.0);
        assert!((alone.node_ns() - shared.node_ns() - message).abs() < 1e-9);
        assert!(shared.link_ns < alone.link_ns && shared.link_ns > 0.0);
    }

    #[test]
    fn a_call_is_dearer_than_a_read_and_cheaper_than_three_messages() {
        let owner_ns = COSTS.nic.read_occupancy_ns;
        let call = COSTS.call(CalledOperation {
            owner_ns,
            together: 32,
            ..GET
        });
        let read = COSTS.transfer(100.0);
        assert!(call.capacity().per_second < read.capacity().per_second);
        let chain = read + COSTS.transfer(8.0) + COSTS.atomic();
        assert!(call.capacity().per_second > chain.capacity().per_second);
        assert!(call.latency_ns < chain.latency_ns);
    }
}
