//! One rank of an exploration: how levels are expanded together.

use super::super::journal::LevelJournal;
use super::super::level::Blocks;
use super::super::options::Options;
use super::super::worker::Totals;
use super::intake::Intake;
use super::owner::{SentLately, hash_of, owner_of};
use super::ring::{Exchange, Kind};
use super::sums::{Outcome, RankTotals};
use super::table::{RoundPreparation, Table};
use crate::error::{ExploreError, RankError};
use crate::model::{Model, Successors};
use std::rc::Rc;

/// States that are expanded before their successors go where they belong.
const STATES: usize = 64;

/// What one rank has and does.
pub(super) struct RankSearch<'m, 'x, M> {
    pub(super) model: &'m M,
    pub(super) options: &'m Options,
    pub(super) exchange: &'x mut Exchange,
    pub(super) intake: Intake,
    successors: Successors,
    /// States that are to be sent, for each rank.
    outbox: Vec<Vec<u64>>,
    sent_lately: SentLately,
    /// States sent to each rank, and received from each, in this level.
    sent: Vec<u64>,
    received: Vec<u64>,
    /// What each rank says that it has sent in this level, once it has sent all.
    ended: Vec<Option<u64>>,
    /// The frame that was received last.
    frame: Vec<u64>,
    sums: RankTotals,
    /// The code of a state of this rank's that violates the invariant.
    pub(super) violation: Option<u64>,
    /// In place of sets at each rank.
    table: Option<Table>,
}

impl<'m, 'x, M: Model> RankSearch<'m, 'x, M> {
    pub(super) fn new(
        model: &'m M,
        options: &'m Options,
        exchange: &'x mut Exchange,
    ) -> Result<Self, ExploreError> {
        let (ranks, words) = (exchange.ranks(), model.bits().div_ceil(64));
        let memory = exchange.table.take();
        let table = memory.map(|memory| {
            let endpoint = Rc::clone(exchange.endpoint());
            Table::new(endpoint, exchange.rank(), memory, model.bits())
        });
        let table = table.transpose()?;
        let limit = exchange.shape().most_payload() - 2;
        if words > limit {
            return Err(RankError::LongState { words, limit }.into());
        }
        Ok(Self {
            model,
            options,
            exchange,
            intake: Intake::new(model.bits(), options.memory)?,
            successors: Successors::new(words),
            outbox: vec![Vec::new(); ranks],
            sent_lately: SentLately::new(words),
            sent: vec![0; ranks],
            received: vec![0; ranks],
            ended: vec![None; ranks],
            frame: Vec::new(),
            sums: RankTotals::default(),
            violation: None,
            table,
        })
    }

    /// Whether all ranks share one table.
    pub(super) fn shares_table(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn words(&self) -> usize {
        self.model.bits().div_ceil(64)
    }

    /// Inserts the initial states that are this rank's; returns what is found of level 0.
    pub(super) async fn begin(&mut self) -> Result<Blocks, ExploreError> {
        if self.shares_table() {
            // No rank touches what another has not cleared yet.
            self.gather(&[]).await?;
        }
        for state in self.model.initial() {
            if owner_of(hash_of(&state), self.exchange.ranks()) != self.exchange.rank() {
                continue;
            }
            match &mut self.table {
                Some(table) => {
                    let intake = &mut self.intake;
                    table.put(&state, |code| intake.inserted(code)).await?;
                }
                None => self.intake.take(&state),
            }
        }
        Ok(self.intake.finish())
    }

    /// Appends its part of a level to a journal. What fails is told at the end of the next level.
    pub(super) fn record(&mut self, journal: &mut LevelJournal, level: &Blocks, depth: u64) {
        let totals = Totals {
            states: self.intake.states,
            transitions: self.sums.transitions,
            deadlocks: self.sums.deadlocks,
            depth,
            tokens: self.sums.tokens,
            violation: None,
        };
        let (words, Intake { store, coder, .. }) = (self.words(), &mut self.intake);
        let appended = journal.append(level, &totals, words, |code, state| {
            Ok(store.decode(coder, code, state)?)
        });
        if let Err(error) = appended {
            self.intake.failed.get_or_insert(error);
        }
    }

    /// Inserts the states of a journal, of which each rank has as many levels as the others.
    /// Returns this rank's part of the last level, and its depth; nothing where there is no level.
    pub(super) async fn replay(
        &mut self,
        journal: &mut LevelJournal,
        levels: &mut Vec<Blocks>,
    ) -> Result<Option<(Blocks, u64)>, ExploreError> {
        let mut least = u64::MAX;
        for (rank, part) in self.gather(&[journal.levels()]).await?.iter().enumerate() {
            let [levels] = part[..] else {
                return Err(RankError::malformed(rank, "no number of levels").into());
            };
            least = least.min(levels);
        }
        journal.keep(least);
        if least == 0 {
            return Ok(None);
        }
        let (words, intake) = (self.words(), &mut self.intake);
        let keeps = self.options.check_invariant;
        let insert = |states: &[u64]| {
            intake.take(states);
            let level = intake.finish();
            intake.failed.take().map_or(Ok(level), Err)
        };
        let earlier = |level| {
            if keeps {
                levels.push(level);
            }
        };
        match journal.replay(words, insert, earlier) {
            Ok(Some((totals, last))) => {
                self.sums.transitions = totals.transitions;
                self.sums.deadlocks = totals.deadlocks;
                self.sums.tokens = totals.tokens;
                Ok(Some((last, least - 1)))
            }
            Ok(None) => Ok(None),
            // Told at the end of the level, so that no other rank waits.
            Err(error) => {
                self.intake.failed.get_or_insert(error);
                Ok(Some((Blocks::default(), least - 1)))
            }
        }
    }

    /// Expands this rank's part of a level, and takes in what the others find of the next one that
    /// is this rank's. All of that has come when it returns.
    pub(super) async fn expand(&mut self, level: &Blocks) -> Result<(), ExploreError> {
        if self.shares_table() {
            return self.expand_in_rounds(level).await;
        }
        self.sent.fill(0);
        self.received.fill(0);
        self.ended.fill(None);
        let mut state = vec![0; self.words()];
        'blocks: for number in 0.. {
            let Some(block) = level.block(number) else {
                break;
            };
            for states in block.chunks(STATES) {
                // Only what has failed is left out: the level goes to its end, so that nobody
                // waits.
                if let Err(error) = self.expand_states(states, &mut state) {
                    self.intake.failed.get_or_insert(error);
                }
                self.route().await?;
                if self.intake.failed.is_some() {
                    break 'blocks;
                }
            }
            self.receive()?;
        }
        for to in self.exchange.other_ranks() {
            self.flush(to).await?;
            let sent = self.sent[to];
            self.send(to, Kind::End, &[sent]).await?;
        }
        while self
            .exchange
            .other_ranks()
            .any(|from| self.ended[from].is_none())
        {
            if !self.receive()? {
                self.exchange.idle().await?;
            }
        }
        Ok(())
    }

    /// Expands this rank's part of a level where all ranks share one table: in rounds, between
    /// which that may grow.
    async fn expand_in_rounds(&mut self, level: &Blocks) -> Result<(), ExploreError> {
        let blocks = (0..).map_while(|number| level.block(number));
        let mut batches = blocks.flat_map(|block| block.chunks(STATES)).peekable();
        loop {
            // Only what has failed is left out, and told at the level's end, so that nobody waits.
            if let Err(error) = self.expand_some(&mut batches).await {
                self.intake.failed.get_or_insert(error);
            }
            let has_more = batches.peek().is_some();
            let Some(table) = &mut self.table else {
                return Ok(());
            };
            let words = [
                self.intake.states,
                has_more.into(),
                table.is_crowded().into(),
                table.has_refused().into(),
                self.intake.failed.is_some().into(),
            ];
            let mut all = [0u64; 5];
            for (rank, part) in self.gather(&words).await?.iter().enumerate() {
                let part: &[u64; 5] = part[..]
                    .try_into()
                    .map_err(|_| RankError::malformed(rank, "no numbers of a round"))?;
                for (sum, number) in all.iter_mut().zip(part) {
                    *sum = sum.saturating_add(*number);
                }
            }
            let [states, more, crowded, refused, failed] = all;
            if failed > 0 {
                return Ok(());
            }
            let Some(table) = &mut self.table else {
                return Ok(());
            };
            if more == 0 && refused == 0 {
                return Ok(());
            }
            match table.next_round(states, crowded > 0, refused > 0) {
                Ok(RoundPreparation::Nothing) => {}
                Ok(RoundPreparation::Growth) => {
                    table.grow(states).await?;
                    self.gather(&[]).await?;
                }
                // All ranks come to it.
                Err(error) => {
                    self.intake.failed.get_or_insert(error);
                    return Ok(());
                }
            }
        }
    }

    /// Expands batches of states until the table is crowded or there are no more.
    async fn expand_some<'l>(
        &mut self,
        batches: &mut impl Iterator<Item = &'l [u64]>,
    ) -> Result<(), ExploreError> {
        let mut state = vec![0; self.words()];
        let mut successors = Vec::new();
        if let Some(table) = &mut self.table {
            let intake = &mut self.intake;
            table.put_refused(|code| intake.inserted(code)).await?;
        }
        while let Some(table) = &mut self.table
            && !(table.is_crowded() || table.has_refused())
            && let Some(codes) = batches.next()
        {
            let ended = self.expand_states(codes, &mut state);
            successors.clear();
            for state in self.successors.states() {
                let state_words = std::slice::from_ref(state);
                if !self.sent_lately.note(hash_of(state_words), state_words) {
                    successors.push(*state);
                }
            }
            self.successors.clear();
            if let Some(table) = &mut self.table {
                let intake = &mut self.intake;
                table.put(&successors, |code| intake.inserted(code)).await?;
            }
            ended?;
        }
        Ok(())
    }

    fn expand_states(&mut self, codes: &[u64], state: &mut [u64]) -> Result<(), ExploreError> {
        for &code in codes {
            self.intake
                .store
                .decode(&mut self.intake.coder, code, state)?;
            if let Some(tokens) = self.model.tokens(state) {
                let before = self.sums.tokens.unwrap_or_default();
                self.sums.tokens = Some(before.max(tokens));
            }
            if self.options.check_invariant && !self.model.invariant(state) {
                let first = self.violation.map_or(code, |other| other.min(code));
                self.violation = Some(first);
            }
            let before = self.successors.len();
            self.model.successors(state, &mut self.successors)?;
            let new = self.successors.len() - before;
            self.sums.deadlocks += u64::from(new == 0);
            self.sums.transitions += new as u64;
        }
        Ok(())
    }

    /// Gives every successor to its owner.
    async fn route(&mut self) -> Result<(), RankError> {
        let (words, ranks) = (self.words(), self.exchange.ranks());
        let successors = std::mem::replace(&mut self.successors, Successors::new(words));
        if ranks == 1 {
            self.intake.take(successors.states());
        } else {
            let most = self.exchange.shape().most_payload() - words;
            for state in successors.states().chunks_exact(words) {
                let hash = hash_of(state);
                let owner = owner_of(hash, ranks);
                if owner == self.exchange.rank() {
                    self.intake.take(state);
                } else if !self.sent_lately.note(hash, state) {
                    self.outbox[owner].extend_from_slice(state);
                    if self.outbox[owner].len() > most {
                        self.flush(owner).await?;
                    }
                }
            }
        }
        self.successors = successors;
        self.successors.clear();
        Ok(())
    }

    /// Sends what waits for a rank.
    async fn flush(&mut self, to: usize) -> Result<(), RankError> {
        let mut states = std::mem::take(&mut self.outbox[to]);
        if !states.is_empty() {
            self.send(to, Kind::States, &states).await?;
            self.sent[to] += (states.len() / self.words()) as u64;
        }
        states.clear();
        self.outbox[to] = states;
        Ok(())
    }

    /// Sends a frame. While the other's ring is full, what others have sent is taken in: of ranks
    /// that wait for each other none waits for ever.
    async fn send(&mut self, to: usize, kind: Kind, payload: &[u64]) -> Result<(), RankError> {
        while !self.exchange.send(to, kind, payload).await? {
            if !self.receive()? {
                self.exchange.idle().await?;
            }
        }
        Ok(())
    }

    /// Takes in what has come, of every rank up to the end of its level. Returns whether anything
    /// had.
    fn receive(&mut self) -> Result<bool, RankError> {
        let mut came = false;
        for from in self.exchange.other_ranks() {
            while self.ended[from].is_none() {
                let Some(kind) = self.exchange.next_frame(from, &mut self.frame)? else {
                    break;
                };
                came = true;
                match kind {
                    Kind::States if self.intake.are_states(&self.frame) => {
                        self.received[from] += (self.frame.len() / self.words()) as u64;
                        self.intake.take(&self.frame);
                    }
                    Kind::End if self.frame.len() == 1 => self.ended[from] = Some(self.frame[0]),
                    _ => return Err(RankError::malformed(from, "no states where they belong")),
                }
            }
        }
        Ok(came)
    }

    /// Checks that all states of the level came that were sent to this rank.
    pub(super) fn check_counts(&self) -> Result<(), RankError> {
        for rank in self.exchange.other_ranks() {
            let (sent, received) = (self.ended[rank].unwrap_or_default(), self.received[rank]);
            if sent != received {
                return Err(RankError::Miscounted {
                    rank,
                    sent,
                    received,
                });
            }
        }
        Ok(())
    }

    /// What all ranks have found so far, and the first of them that has found a violation.
    pub(super) async fn sum(
        &mut self,
        next: &Blocks,
    ) -> Result<(RankTotals, Option<usize>), ExploreError> {
        let totals = RankTotals {
            states: self.intake.states,
            next: next.len(),
            bytes: match &self.table {
                Some(table) => table.bytes(),
                None => self.intake.store.bytes(),
            },
            violated: self.violation.is_some(),
            outcome: match &self.intake.failed {
                None => Outcome::Well,
                Some(ExploreError::NoRoom(no_room)) => Outcome::NoRoom(*no_room),
                Some(_) => Outcome::Failed,
            },
            ..self.sums
        };
        let parts = self.gather(&totals.to_words()).await?;
        match self.intake.failed.take() {
            // With whatever another has: what is wrong here is better told than that somebody gave
            // up.
            Some(error) if totals.outcome == Outcome::Failed => Err(error),
            _ => RankTotals::over(&parts),
        }
    }

    /// Gives every rank what each has given, in the order of the ranks.
    pub(super) async fn gather(&mut self, part: &[u64]) -> Result<Vec<Vec<u64>>, RankError> {
        for to in self.exchange.other_ranks() {
            self.send(to, Kind::Part, part).await?;
        }
        let mut parts = vec![part.to_vec(); self.exchange.ranks()];
        for from in self.exchange.other_ranks() {
            loop {
                match self.exchange.next_frame(from, &mut parts[from])? {
                    Some(Kind::Part) => break,
                    Some(_) => return Err(RankError::malformed(from, "states behind their end")),
                    None => self.exchange.idle().await?,
                }
            }
        }
        Ok(parts)
    }
}

impl<M> Drop for RankSearch<'_, '_, M> {
    /// The table's memory is there for the next exploration over the same exchange.
    fn drop(&mut self) {
        self.exchange.table = self.table.take().map(Table::into_memory);
    }
}
