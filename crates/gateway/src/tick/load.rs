//! What the steps of a tick may take, found before any of them is applied, and the reading of the
//! records that this needs.

use super::{END, REPLY, RoomRefusal, StepChain, Stored, TickSteps};
use crate::databases::Databases;
use crate::failure::Failure;
use crate::record::RecordBytes;
use crate::reply::Reply;
use crate::step::Weight;
use std::ops::Range;

impl<'r> TickSteps<'r> {
    /// Reads what chains ask for; whether there is room for all of them and what their steps take.
    pub(super) fn load_all(&mut self, databases: &mut Databases, numbers: &[u8]) -> bool {
        let before = self.taken;
        for number in numbers {
            let asks = |chain: &StepChain<'r>| {
                chain.database == *number && !self.pending[chain.first].step.is_blind()
            };
            let chains = self.chains.iter().enumerate();
            let chains = chains.filter(|(_, chain)| asks(chain));
            let asking: Vec<usize> = chains.map(|(chain, _)| chain).collect();
            self.read(databases, &asking, self.room.together);
        }
        let mut replies = vec![0; self.connections.len()];
        let (mut has_room, mut taken) = (true, 0);
        for chain in 0..self.chains.len() {
            has_room &= !matches!(self.chains[chain].stored, Stored::TooLarge);
            let mut weight = Weight::of(self.chains[chain].bytes());
            let mut at = self.chains[chain].first;
            while let Some(pending) = self.pending.get(at) {
                let reply = pending.step.weigh(&mut weight) + REPLY;
                replies[pending.by] += reply;
                taken += reply;
                at = pending.next;
            }
            taken += weight.copied;
        }
        for (connection, replies) in self.connections.iter().zip(&replies) {
            has_room &= *replies == 0 || connection.replies + replies <= self.room.replies;
        }
        has_room &= taken <= self.room.together.saturating_sub(self.taken);
        if has_room {
            self.taken += taken;
            for (connection, replies) in self.connections.iter_mut().zip(replies) {
                connection.replies += replies;
            }
        } else {
            self.taken = before;
        }
        has_room
    }

    /// Reads what requests ask for one after the other, and cuts them where the room ends; whether
    /// it did.
    pub(super) fn load_in_order(&mut self, databases: &mut Databases) -> bool {
        for chain in &mut self.chains {
            (chain.stored, chain.first) = (Stored::Unknown, END);
        }
        let mut weights: Vec<Weight> = vec![Weight::of(0); self.chains.len()];
        let mut is_full = false;
        for request in 0..self.requests.len() {
            let (by, steps) = (self.requests[request].by, self.steps_of(request));
            if self.connections[by].cut.is_some() {
                self.undo(steps);
                continue;
            }
            let fits = match is_full {
                true => Err(RoomRefusal::Now),
                false => self.load_one(databases, by, steps.clone(), &mut weights),
            };
            match fits {
                Ok(()) => {}
                Err(RoomRefusal::Now) => {
                    // Of one that has enough replies, or asks for what is long, the others need not
                    // wait.
                    let is_its_own = self.connections[by].replies >= self.room.replies;
                    is_full |= !is_its_own && !self.room.is_short;
                    self.connections[by].cut = Some(steps.start);
                    self.undo(steps);
                }
                Err(RoomRefusal::Ever(failure)) => {
                    // The first error is the reply to the request.
                    self.pending[steps.start].reply = Some(Reply::Error(failure));
                    self.undo(steps);
                }
            }
            self.has_done = true;
        }
        self.connections.iter().any(|of| of.cut.is_some())
    }

    fn undo(&mut self, steps: Range<usize>) {
        for pending in &mut self.pending[steps] {
            pending.is_undone = true;
        }
    }

    /// Reads what a request asks for, if there is room for that and what its steps take.
    fn load_one(
        &mut self,
        databases: &mut Databases,
        by: usize,
        steps: Range<usize>,
        weights: &mut [Weight],
    ) -> Result<(), RoomRefusal> {
        let is_first = !self.has_done;
        self.take(by, 0, 0, is_first)?;
        let before = self.taken;
        let mut asking: Vec<usize> = Vec::new();
        for pending in &self.pending[steps.clone()] {
            let chain = &self.chains[pending.chain];
            let is_unread = chain.first == END && matches!(chain.stored, Stored::Unknown);
            if is_unread && !pending.step.is_blind() {
                asking.push(pending.chain);
            }
        }
        asking.sort_unstable();
        asking.dedup();
        self.read(databases, &asking, self.limit(is_first));
        for chain in &asking {
            weights[*chain] = Weight::of(self.chains[*chain].bytes());
        }
        let is_read = |chain: &usize| !matches!(self.chains[*chain].stored, Stored::TooLarge);
        let has_room = asking.iter().all(is_read);
        let (mut reply, mut copied) = (0, 0);
        let mut after: Vec<(usize, Weight)> = Vec::new();
        for pending in &self.pending[steps.clone()] {
            let mut weight = weights[pending.chain];
            reply += pending.step.weigh(&mut weight) + REPLY;
            copied += weight.copied - weights[pending.chain].copied;
            after.push((pending.chain, weight));
        }
        let room = match has_room {
            true => self.take(by, reply, copied, is_first),
            false => self.take(by, usize::MAX, 0, is_first),
        };
        if room.is_err() {
            self.taken = before;
            for chain in asking {
                self.chains[chain].stored = Stored::Unknown;
            }
            return room;
        }
        for (step, (chain, weight)) in steps.zip(after) {
            weights[chain] = weight;
            if self.chains[chain].first == END {
                self.chains[chain].first = step;
            }
        }
        Ok(())
    }

    /// Reads again what others have written meanwhile; returns the chains for which there is room.
    pub(super) fn load_again(
        &mut self,
        databases: &mut Databases,
        chains: Vec<usize>,
    ) -> Vec<usize> {
        let before = self.taken;
        self.read(databases, &chains, self.room.alone);
        let (mut taken, mut left) = (0, Vec::new());
        for chain in chains {
            let mut weight = Weight::of(self.chains[chain].bytes());
            let mut all = 0;
            let mut at = self.chains[chain].first;
            while let Some(pending) = self.pending.get(at) {
                if !pending.is_undone {
                    all += pending.step.weigh(&mut weight) + REPLY;
                }
                at = pending.next;
            }
            taken += all + weight.copied;
            let is_too_large = matches!(self.chains[chain].stored, Stored::TooLarge);
            let limit = self.room.alone.saturating_sub(self.taken);
            if is_too_large || taken > limit {
                self.fail(chain, &Failure::LongReply { limit });
            } else if !self.chains[chain].has_failed() {
                left.push(chain);
            }
        }
        // What was read before is let go.
        self.taken = before;
        left
    }

    fn steps_of(&self, request: usize) -> Range<usize> {
        let next = self.requests.get(request + 1);
        self.requests[request].first..next.map_or(self.pending.len(), |next| next.first)
    }

    /// Reads the records of chains, of one database, for as long as the tick has not taken more
    /// than `limit`. A short tick does not read those again that were found to be long.
    fn read(&mut self, databases: &mut Databases, chains: &[usize], limit: usize) {
        let mut asking = chains.to_vec();
        if self.room.is_short && !self.by_key.long.is_empty() {
            asking.retain(|chain| {
                let StepChain { database, key, .. } = self.chains[*chain];
                let is_long = self.by_key.long.has((database, key), self.now);
                if is_long {
                    self.chains[*chain].stored = Stored::TooLarge;
                }
                !is_long
            });
        }
        let Some(first) = asking.first() else { return };
        let database = self.chains[*first].database;
        let longest = match self.room.is_short {
            true => self.room.replies,
            false => usize::MAX,
        };
        for may_be_gone in [true, false] {
            let table = match databases.existing(database) {
                Ok(Some(table)) => table,
                Ok(None) => {
                    for chain in &asking {
                        self.chains[*chain].stored = Stored::Absent;
                    }
                    return;
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    return asking.iter().for_each(|chain| self.fail(*chain, &failure));
                }
            };
            let keys: Vec<&[u8]> = asking.iter().map(|chain| self.chains[*chain].key).collect();
            let got = table.get_many(&keys, |number, answer| {
                let StepChain {
                    database,
                    key,
                    stored,
                    ..
                } = &mut self.chains[asking[number]];
                *stored = match answer {
                    Some(record) if record.len() > longest => {
                        self.by_key.long.add((*database, key), self.now);
                        Stored::TooLarge
                    }
                    None => Stored::Absent,
                    Some(record) if record.len() <= limit.saturating_sub(self.taken) => {
                        self.taken += record.len();
                        Stored::Record(RecordBytes::of([record]))
                    }
                    Some(_) => Stored::TooLarge,
                };
            });
            let asked = std::mem::take(&mut asking);
            for (number, error) in got.err().into_iter().flatten() {
                let chain = asked[number];
                if databases.is_gone(database, &error) && may_be_gone {
                    asking.push(chain);
                } else {
                    self.fail(chain, &error.into());
                }
            }
            if asking.is_empty() {
                return;
            }
        }
    }
}
