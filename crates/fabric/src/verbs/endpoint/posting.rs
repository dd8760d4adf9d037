//! Verbs become work requests: checked, and added to the list of the next doorbell.

use super::calls::{QueuedCall, check_lengths};
use super::common::{PeerContext, local};
use super::peer::{NUMBER_BITS, PendingVerb, RemoteAccess, VerbsPeer};
use crate::memory::mailbox;
use crate::net::{Answer, Slots};
use crate::verb::{check_access, check_aligned, gathered_len};
use crate::verbs::work::{KeyedAddress, ScatterGatherEntry};
use crate::{Buffer, FabricError, RemoteAddr, Result, Rights, Verb};

impl VerbsPeer {
    /// A checked access, as the NIC is told it.
    #[inline]
    fn remote(&self, at: RemoteAddr, len: usize, needed: Rights) -> Result<KeyedAddress> {
        let index = usize::from(at.region.0);
        let (Some(info), Some(areas)) = (self.info.regions.get(index), self.regions.get(index))
        else {
            return Err(FabricError::UnknownRegion {
                node: at.node,
                region: at.region,
                regions: self.info.regions.len(),
            });
        };
        check_access(at, len as u64, needed, info)?;
        if len > self.largest {
            return Err(FabricError::BufferTooLarge {
                requested: len,
                limit: self.largest,
            });
        }
        let behind = areas.partition_point(|area| area.offset <= at.offset);
        let (granted, remote) = match behind.checked_sub(1).map(|index| &areas[index]) {
            Some(area) if at.offset + len as u64 - area.offset <= area.bytes => {
                let remote = KeyedAddress {
                    address: area.address.wrapping_add(at.offset - area.offset),
                    key: area.key,
                };
                (area.rights, remote)
            }
            // Of no bytes the NIC checks nothing.
            _ if len == 0 => (info.rights, KeyedAddress { address: 0, key: 0 }),
            _ => (Rights::NONE, KeyedAddress { address: 0, key: 0 }),
        };
        if !granted.allow(needed) {
            return Err(FabricError::AccessDenied {
                at,
                needed,
                granted,
            });
        }
        Ok(remote)
    }

    /// The identity of the next request.
    #[inline]
    fn next_id(&mut self) -> u64 {
        let number = self.next_request & ((1 << NUMBER_BITS) - 1);
        self.next_request += 1;
        u64::from(self.node.0) << NUMBER_BITS | number
    }

    #[inline]
    fn note(&mut self, slot: u32, requests: usize, found: Option<u32>, access: RemoteAccess) {
        self.pending.push_back(PendingVerb {
            last: self.next_request - 1,
            requests: requests as u32,
            slot,
            found,
            access,
        });
    }

    /// Adds a READ to the list of the next doorbell of a peer that is open; returns its slot.
    #[inline]
    pub(super) fn put_read(
        &mut self,
        from: RemoteAddr,
        into: Buffer,
        slots: &Slots,
    ) -> Result<u32> {
        let bytes = into.len();
        let remote = self.remote(from, bytes, Rights::READ)?;
        let local = local(&into, 0, bytes);
        let slot = slots.take(Answer::Bytes(0), Some(into));
        let id = self.next_id();
        self.work.read(id, remote, local);
        let access = RemoteAccess {
            at: from,
            bytes,
            needed: Rights::READ,
        };
        self.note(slot, 1, None, access);
        Ok(slot)
    }

    /// Adds a verb to the list of the next doorbell of a peer that is open; returns its slot.
    pub(super) fn put(&mut self, verb: Verb, common: &PeerContext<'_>) -> Result<u32> {
        let needed = verb.needs();
        let slots = common.slots;
        match verb {
            Verb::Read { from, into } => self.put_read(from, into, slots),
            Verb::ReadMany { pieces, into } => {
                let requested = gathered_len(&pieces);
                if requested > into.len() {
                    return Err(FabricError::BufferTooLarge {
                        requested,
                        limit: into.len(),
                    });
                }
                let remotes = pieces
                    .iter()
                    .map(|piece| self.remote(piece.from, piece.len, needed))
                    .collect::<Result<smallvec::SmallVec<[KeyedAddress; 4]>>>()?;
                let mut start = 0;
                for (piece, remote) in pieces.iter().zip(remotes) {
                    let id = self.next_id();
                    self.work.read(id, remote, local(&into, start, piece.len));
                    start += piece.len.next_multiple_of(8);
                }
                let slot = slots.take(Answer::Bytes(0), Some(into));
                let access = RemoteAccess {
                    at: pieces[0].from,
                    bytes: pieces[0].len,
                    needed,
                };
                self.note(slot, pieces.len(), None, access);
                Ok(slot)
            }
            Verb::Write { to, data } => {
                let remote = self.remote(to, data.len(), needed)?;
                let (id, inline) = (self.next_id(), self.inline_bytes());
                self.work
                    .write(id, remote, local(&data, 0, data.len()), inline);
                let access = RemoteAccess {
                    at: to,
                    bytes: data.len(),
                    needed,
                };
                let slot = slots.take(Answer::Placed, Some(data));
                self.note(slot, 1, None, access);
                Ok(slot)
            }
            Verb::Call {
                node,
                region,
                request,
                reply,
            } => {
                let regions = self.info.regions.len();
                if usize::from(region.0) >= regions {
                    return Err(FabricError::UnknownRegion {
                        node,
                        region,
                        regions,
                    });
                }
                check_lengths(request.len(), reply.len())?;
                let reply_bytes = reply.len();
                let slot = slots.take(Answer::Reply(reply_bytes as u32), Some(reply));
                self.calls.put(QueuedCall {
                    slot,
                    region,
                    request,
                    reply_bytes,
                });
                Ok(slot)
            }
            Verb::WriteImm { to, data, imm } => {
                if data.len() > mailbox::LONGEST {
                    return Err(FabricError::BufferTooLarge {
                        requested: data.len(),
                        limit: mailbox::LONGEST,
                    });
                }
                let remote = self.remote(to, data.len(), needed)?;
                let (id, inline) = (self.next_id(), self.inline_bytes());
                let bytes = local(&data, 0, data.len());
                self.work.write_imm(id, remote, &[bytes], inline, imm);
                let access = RemoteAccess {
                    at: to,
                    bytes: data.len(),
                    needed,
                };
                let slot = slots.take(Answer::Placed, Some(data));
                self.note(slot, 1, None, access);
                Ok(slot)
            }
            Verb::CompareSwap { at, expected, new } => {
                let (remote, found, into) = self.atomic(at, common)?;
                let id = self.next_id();
                self.work.compare_swap(id, remote, into, expected, new);
                Ok(self.note_atomic(at, found, slots))
            }
            Verb::FetchAdd { at, add } => {
                let (remote, found, into) = self.atomic(at, common)?;
                let id = self.next_id();
                self.work.fetch_add(id, remote, into, add);
                Ok(self.note_atomic(at, found, slots))
            }
        }
    }

    #[inline]
    fn inline_bytes(&self) -> u32 {
        self.queue_pair().map_or(0, |pair| pair.inline_bytes)
    }

    /// A checked atomic, and the word where the NIC leaves what it found.
    #[inline]
    fn atomic(
        &self,
        at: RemoteAddr,
        common: &PeerContext<'_>,
    ) -> Result<(KeyedAddress, u32, ScatterGatherEntry)> {
        check_aligned(at)?;
        let remote = self.remote(at, 8, Rights::ATOMIC)?;
        let (number, address, key) = common.found.take()?;
        let into = ScatterGatherEntry {
            address,
            bytes: 8,
            key,
        };
        Ok((remote, number, into))
    }

    #[inline]
    fn note_atomic(&mut self, at: RemoteAddr, found: u32, slots: &Slots) -> u32 {
        let slot = slots.take(Answer::Word, None);
        let access = RemoteAccess {
            at,
            bytes: 8,
            needed: Rights::ATOMIC,
        };
        self.note(slot, 1, Some(found), access);
        slot
    }
}
