//! A client's set-up connection at the agent: it creates the client's queue pair, and says why a
//! verb was refused.

use super::owner::{Owner, Pairs, Slot};
use super::permitted::Permitted;
use super::registration::Registration;
use crate::error::{Carrier, Malformed, Refusal};
use crate::net::admission::Issued;
use crate::net::agent::{Client, ExecutionPause, Quota, Serve, ServedNode, Tell, VerbService};
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::{FrameKind, Header, encode_failure};
use crate::verbs::path::{self, ASK_WORDS, PAIR_WORDS, QueuePairAddress, RefusedVerb};
use crate::verbs::resource::{QueuePair, QueuePairCapacity};
use crate::verbs::rooms::{self, CALLS_WORDS, Half};
use crate::{FabricError, NodeId, RemoteAddr, Rights};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Gives every client that is admitted a queue pair.
pub(super) struct Pairing(pub(super) Arc<Owner>);

impl VerbService for Pairing {
    fn carrier(&self) -> Carrier {
        Carrier::Rdma
    }

    fn admit(&self, client: Client<'_>) -> Box<dyn Serve> {
        // Whatever the client still has on its way by its last queue pair is done by now, or never.
        let last = self.0.queue_pairs().remove(&client.last_session);
        if let Some(last) = last {
            end(&last, &self.0);
        }
        let pairs = Slot::default();
        let slot = Arc::clone(&pairs);
        self.0.queue_pairs().insert(client.session, slot);
        Box::new(ClientPairing {
            session: client.session,
            owner: Arc::clone(&self.0),
            registration: self.0.registration(&client.grant),
            permitted: Arc::new(Permitted {
                grant: client.grant,
                peer: client.peer,
                regions: client.regions.to_vec(),
            }),
            receiver_wait: client.receiver_wait,
            pairs,
        })
    }
}

/// The end that only receives.
const NOTHING_SENT: QueuePairCapacity = QueuePairCapacity {
    sends: 1,
    pieces: 1,
    receives: 0,
    inline_bytes: 0,
};

fn look_into(slot: &Slot) -> MutexGuard<'_, Pairs> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a client's queue pairs, and keeps the messages that came. A call that a handler is at ends
/// before.
fn end(slot: &Slot, owner: &Owner) {
    let Pairs { verbs, calls } = std::mem::take(&mut *look_into(slot));
    if let Some(channel) = calls {
        owner.calls.end(&channel);
    }
    if let Some(queue_pair) = verbs {
        // Some NICs forget what came by a queue pair that goes: nothing may come any more, and what
        // has come is taken. A queue pair that cannot be stopped is about to go all the same.
        let _ = path::stop(&queue_pair);
        owner.messages.collect();
    }
}

struct ClientPairing {
    session: u64,
    pairs: Slot,
    owner: Arc<Owner>,
    permitted: Arc<Permitted>,
    /// Nothing if the grant was revoked meanwhile.
    registration: Option<Arc<Registration>>,
    receiver_wait: Duration,
}

impl Serve for ClientPairing {
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
        _: &Waker,
    ) -> Result<ExecutionPause, Malformed> {
        if self.permitted.grant.is_revoked() {
            return Ok(ExecutionPause::Refused(Refusal::GrantRevoked));
        }
        if self.has_lost_calls() {
            return Err(Malformed::Handshake {
                reason: "its calls have ended",
            });
        }
        loop {
            let words = input.words();
            let Some(&first) = words.first() else {
                return Ok(ExecutionPause::Hungry(1));
            };
            if quota.work == 0 {
                return Ok(ExecutionPause::Spent);
            }
            let header = Header::decode(first)?;
            let length = match header.kind {
                FrameKind::Pair if !self.has_queue_pair() => PAIR_WORDS,
                FrameKind::Ask if self.has_queue_pair() => ASK_WORDS,
                FrameKind::Calls if self.has_queue_pair() && !self.has_calls() => CALLS_WORDS,
                kind => return Err(Malformed::Kind { found: kind as u8 }),
            };
            if header.words as usize != length {
                return Err(Malformed::Length {
                    words: header.words,
                    limit: length as u32,
                });
            }
            let Some(frame) = words.get(..length) else {
                return Ok(ExecutionPause::Hungry(length));
            };
            if header.kind == FrameKind::Calls {
                // As long as its kind has to be.
                let frame = frame.first_chunk().copied().unwrap_or_default();
                let called = self.open_calls(frame, served)?;
                out.frame(FrameKind::Completions, &called);
            } else if let Some(pair) = frame.first_chunk::<PAIR_WORDS>() {
                let client = path::decode_pair(*pair)?;
                match self.pair(&client) {
                    Ok(paired) => out.frame(FrameKind::Completions, &paired),
                    Err(refusal) => return Ok(ExecutionPause::Refused(refusal)),
                }
            } else if let Some(ask) = frame.first_chunk::<ASK_WORDS>() {
                let error = self.why_refused(&path::decode_ask(*ask));
                tell(&self.permitted.grant.name, &error);
                out.frame(FrameKind::Completions, &encode_failure(&error));
            }
            input.consume(length);
            quota.spend(Quota::REFUSED);
        }
    }

    /// Its calls are answered by another connection's thread.
    fn held_bytes(&self) -> usize {
        0
    }

    fn grant(&self) -> &Arc<Issued> {
        &self.permitted.grant
    }
}

impl ClientPairing {
    fn has_queue_pair(&self) -> bool {
        look_into(&self.pairs).verbs.is_some()
    }

    fn has_calls(&self) -> bool {
        look_into(&self.pairs).calls.is_some()
    }

    /// Whether its calls have ended while it is served: it makes no sense, or its NIC does not
    /// answer.
    fn has_lost_calls(&self) -> bool {
        let pairs = look_into(&self.pairs);
        pairs
            .calls
            .as_ref()
            .is_some_and(|channel| channel.has_ended())
    }

    /// Makes the queue pair for calls; returns the CALLED.
    fn open_calls(
        &self,
        calls: [u64; CALLS_WORDS],
        served: &ServedNode,
    ) -> Result<[u64; CALLS_WORDS], Malformed> {
        let no_slots = Malformed::Handshake {
            reason: "a client asks for calls without slots",
        };
        let client = Half::decode(calls)?.ok_or(no_slots)?;
        let opened =
            self.owner
                .calls
                .open(&client, &self.permitted, self.receiver_wait, &served.totals);
        Ok(match opened {
            Ok((channel, half)) => {
                look_into(&self.pairs).calls = Some(channel);
                half.encode(FrameKind::Called)
            }
            Err(error) => {
                log::warn!("a client gets no queue pair for calls: {error}");
                rooms::no_calls()
            }
        })
    }

    /// Makes the queue pair that receives what the client's sends; returns the PAIRED.
    fn pair(&mut self, client: &QueuePairAddress) -> Result<Vec<u64>, Refusal> {
        let Some(registration) = &self.registration else {
            return Err(Refusal::GrantRevoked);
        };
        let device = &self.owner.device;
        let most = device.attributes.max_qp_rd_atom;
        let reads_at_once = most.min(client.reads_at_once.into());
        let messages = &self.owner.messages;
        let room_timer = path::room_timer(self.receiver_wait.as_nanos() as u64);
        let all = self.permitted.regions.iter();
        let rights = all.fold(Rights::NONE, |all, region| all.and(region.rights));
        let made = || {
            let receives = Some(Arc::clone(&messages.receives));
            let domain = &registration.domain;
            let queue_pair = QueuePair::new(domain, &messages.completions, receives, NOTHING_SENT)?;
            let end = QueuePairAddress::of(&queue_pair, device, reads_at_once);
            path::initialise(&queue_pair, device, rights)?;
            path::receive(&queue_pair, device, client, end.reads_at_once, room_timer)?;
            Ok((queue_pair, end))
        };
        let (queue_pair, end) = made().map_err(|error: FabricError| {
            log::warn!("a client gets no queue pair: {error}");
            match error {
                FabricError::NoQueuePair { limit, .. } => Refusal::NoQueuePair { limit },
                _ => Refusal::NoPath,
            }
        })?;
        look_into(&self.pairs).verbs = Some(queue_pair);
        Ok(path::paired(&end, &registration.opened))
    }

    /// Why the NIC refused a verb while the grant is in force. An endpoint checks its verbs itself,
    /// so that mostly only the key is left.
    fn why_refused(&self, verb: &RefusedVerb) -> FabricError {
        let at = RemoteAddr {
            node: NodeId(0),
            region: verb.region,
            offset: verb.offset,
        };
        self.permitted
            .check(at, verb.bytes.into(), verb.needed)
            .err()
            .unwrap_or(FabricError::WrongKey { at })
    }
}

impl Drop for ClientPairing {
    fn drop(&mut self) {
        self.owner.queue_pairs().remove(&self.session);
        end(&self.pairs, &self.owner);
    }
}
