//! The nodes of all diagrams, each once, and their union: one worker's way to them.

use super::cache::{Cache, DIFFERENCE, Operation, UNION};
use super::crew::{Arguments, Crew, StopReason, WorkHint};
use crate::error::ExploreError;
use farslot_set::{Outcome, PairSet};

/// The diagram of no marking.
pub(super) const EMPTY: u32 = 0;
/// Below the last level: the marking is in the set.
pub(super) const END: u32 = 1;
/// Numbers of nodes begin behind both.
const FIRST: u32 = 2;
/// Nodes, and cache entries, of each rank to begin with.
pub(super) const FEW: u64 = 1 << 14;
pub(super) const FEW_ENTRIES: u64 = 1 << 16;
/// Garbage is collected again once there are so many times as many nodes as were live.
const AGAIN: u64 = 2;
/// The cache takes up to this part of the memory.
pub(super) const PART_OF_CACHE: u64 = 3;
/// A worker asks whether the others are still there once in so many operations.
const ANYBODY_THERE: u64 = 1 << 14;
/// Bytes that a branch of a list in the making takes, where the list grows.
const BYTES_OF_BRANCH: u64 = 2 * size_of::<Branch>() as u64;

/// A node: markings with `value` tokens in its place are in `down`, those with more in `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) value: u32,
    pub(super) down: u32,
    pub(super) right: u32,
}

/// One value of a level and what is below it.
pub(super) type Branch = (u32, u32);

/// What making a diagram may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiagramLimits {
    /// Bytes for the nodes, the operation cache and lists in the making.
    pub(super) memory: u64,
    /// Steps of worker 0 ([`DiagramNodes::steps`]).
    pub(super) steps: u64,
    /// Branches of lists that are one step to pass, or to make nodes of.
    pub(super) branches: u64,
    /// Nodes below which garbage is not worth its collection.
    pub(super) garbage: u64,
}

/// Why a diagram could not be made.
#[derive(Debug)]
pub(super) enum Halt {
    /// After as many steps as were allowed.
    Steps,
    /// All workers stop, and what this one was doing is not kept.
    Stopped,
    Failed(ExploreError),
}

impl From<ExploreError> for Halt {
    fn from(error: ExploreError) -> Self {
        Self::Failed(error)
    }
}

impl From<Halt> for ExploreError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Failed(error) => error,
            Halt::Steps => unreachable!("steps are limited while markings are reached"),
            Halt::Stopped => unreachable!("worker 0 is stopped by nobody else but to grow"),
        }
    }
}

#[derive(Debug)]
pub(super) struct DiagramNodes {
    table: PairSet,
    pub(super) cache: Cache,
    pub(super) crew: Crew,
    limits: DiagramLimits,
    /// The order of the places, by its number.
    order: u64,
    /// Branches of the lists that are being made, those of the innermost last.
    branches: Vec<Branch>,
    /// Branches of all lists that were passed, and of those in the making elsewhere.
    passed: u64,
    held: u64,
    /// Garbage is collected where there are more nodes than this and it is safe.
    collect_above: u64,
    collections: u64,
}

impl DiagramNodes {
    pub(super) fn new(table: PairSet, cache: Cache, crew: Crew, limits: DiagramLimits) -> Self {
        Self {
            table,
            cache,
            crew,
            limits,
            order: 0,
            branches: Vec::new(),
            passed: 0,
            held: 0,
            collect_above: limits.garbage,
            collections: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, node: u32) -> Node {
        let [links, value] = self.table.get(node - FIRST);
        Node {
            value: value as u32,
            down: links as u32,
            right: (links >> 32) as u32,
        }
    }

    /// The branches of a list, from `node` on.
    #[inline]
    pub(super) fn list(&self, node: u32) -> List<'_> {
        List { nodes: self, node }
    }

    fn put(&mut self, node: Node) -> Result<u32, Halt> {
        let pair = [
            u64::from(node.down) | u64::from(node.right) << 32,
            u64::from(node.value),
        ];
        loop {
            match self.table.find_or_put(pair) {
                Outcome::Found(index) | Outcome::Inserted(index) => return Ok(index + FIRST),
                Outcome::Full => self.grow_table()?,
            }
        }
    }

    fn grow_table(&mut self) -> Result<(), Halt> {
        let (room, entries) = (self.table.room(), self.cache.entries());
        let wanted = (2 * room).min(self.table.most_room());
        let needed = self.bytes_with(wanted, entries);
        if wanted == room || needed > self.limits.memory {
            // Unless it is growing already.
            if self.crew.is_requested() {
                return self.follow();
            }
            return Err(Halt::Failed(ExploreError::OutOfMemory {
                needed: self.bytes_with(2 * room, entries),
                limit: self.limits.memory,
                states: self.table.len(),
            }));
        }
        self.grow(wanted, entries)
    }

    /// All workers use so much memory from now on, or what another has requested at the same time.
    fn grow(&mut self, room: u64, entries: u64) -> Result<(), Halt> {
        let arguments = Arguments {
            room,
            entries,
            ..self.arguments()
        };
        self.crew.request(StopReason::Grow, arguments);
        self.follow()
    }

    fn arguments(&self) -> Arguments {
        Arguments {
            order: self.order,
            memory: self.limits.memory,
            room: self.table.room(),
            entries: self.cache.entries(),
        }
    }

    /// Takes part in what all workers are to stop for. Goes on afterwards only if that was growth.
    #[cold]
    fn follow(&mut self) -> Result<(), Halt> {
        match self.crew.requested() {
            None => return Ok(()),
            Some(StopReason::Grow) => {}
            Some(_) => return Err(Halt::Stopped),
        }
        let (_, arguments) = self.crew.stop()?;
        let share = self.crew.share();
        if arguments.room != self.table.room() {
            self.table.forget_live(share);
            self.crew.barrier()?;
            self.table.mark_all(share);
            self.crew.barrier()?;
            let emptied = self.table.empty(share, arguments.room);
            emptied.map_err(ExploreError::from)?;
            self.crew.barrier()?;
            let refilled = self.table.refill(share, false);
            refilled.map_err(ExploreError::from)?;
        }
        self.cache.grow(share, arguments.entries);
        self.crew.barrier()?;
        Ok(())
    }

    /// The list with these branches, in ascending order of values. Branches to nothing are left
    /// out.
    pub(super) fn make(&mut self, branches: &[Branch]) -> Result<u32, Halt> {
        self.passed += branches.len() as u64;
        let mut right = EMPTY;
        for &(value, down) in branches.iter().rev() {
            if down != EMPTY {
                right = self.put(Node { value, down, right })?;
            }
        }
        Ok(right)
    }

    /// The markings of both. With `hints`, a number of levels, others are told of the unions in so
    /// many levels below.
    pub(super) fn union(&mut self, one: u32, two: u32, hints: usize) -> Result<u32, Halt> {
        if one == two || two == EMPTY {
            return Ok(one);
        }
        if one == EMPTY {
            return Ok(two);
        }
        let operation = Operation {
            kind: UNION,
            one: one.min(two),
            two: one.max(two),
        };
        if let Some(result) = self.cache.get(operation) {
            return Ok(result);
        }
        let listed = self.crew.listed();
        if hints > 0 {
            self.list_unions(one, two);
        }
        let start = self.branches.len();
        let (mut left, mut other) = (one, two);
        while left != EMPTY && other != EMPTY {
            let (left_node, right_node) = (self.get(left), self.get(other));
            let branch = match left_node.value.cmp(&right_node.value) {
                std::cmp::Ordering::Less => {
                    left = left_node.right;
                    (left_node.value, left_node.down)
                }
                std::cmp::Ordering::Greater => {
                    other = right_node.right;
                    (right_node.value, right_node.down)
                }
                std::cmp::Ordering::Equal => {
                    (left, other) = (left_node.right, right_node.right);
                    let below =
                        self.union(left_node.down, right_node.down, hints.saturating_sub(1))?;
                    (left_node.value, below)
                }
            };
            self.branches.push(branch);
        }
        if hints > 0 {
            self.crew.unlist(listed);
        }
        self.passed += (self.branches.len() - start) as u64;
        // What is left of one of them stands behind all others as it is.
        let mut result = if left == EMPTY { other } else { left };
        while self.branches.len() > start {
            let (value, down) = self.branches[self.branches.len() - 1];
            let right = result;
            result = self.put(Node { value, down, right })?;
            self.branches.pop();
        }
        self.remember(operation, result)
    }

    /// The markings of the first without those of the second.
    pub(super) fn difference(&mut self, one: u32, two: u32) -> Result<u32, Halt> {
        if one == two || one == EMPTY {
            return Ok(EMPTY);
        }
        if two == EMPTY {
            return Ok(one);
        }
        let operation = Operation {
            kind: DIFFERENCE,
            one,
            two,
        };
        if let Some(result) = self.cache.get(operation) {
            return Ok(result);
        }
        let mut branches: Vec<Branch> = self.list(one).collect();
        self.hold(branches.len())?;
        let mut other = two;
        for (value, down) in &mut branches {
            while other != EMPTY && self.get(other).value < *value {
                other = self.get(other).right;
            }
            if other == EMPTY {
                break;
            }
            let node = self.get(other);
            if node.value == *value {
                *down = self.difference(*down, node.down)?;
            }
        }
        let result = self.make(&branches)?;
        self.release(branches.len());
        self.remember(operation, result)
    }

    /// Whether a diagram has a marking, given as the tokens at each level.
    pub(super) fn contains(&self, root: u32, marking: &[u32]) -> bool {
        let mut node = root;
        for tokens in marking {
            let branch = self.list(node).find(|(value, _)| value >= tokens);
            match branch {
                Some((value, down)) if value == *tokens => node = down,
                _ => return false,
            }
        }
        node == END
    }

    /// Lists the unions that that of two lists needs, but for the first one.
    fn list_unions(&self, mut one: u32, mut two: u32) {
        let mut is_first = true;
        while one != EMPTY && two != EMPTY {
            let (left_node, right_node) = (self.get(one), self.get(two));
            if left_node.value == right_node.value && left_node.down != right_node.down {
                if !is_first {
                    self.crew.list(WorkHint::Union {
                        one: left_node.down,
                        two: right_node.down,
                    });
                }
                is_first = false;
            }
            if left_node.value <= right_node.value {
                one = left_node.right;
            }
            if right_node.value <= left_node.value {
                two = right_node.right;
            }
        }
    }

    /// Puts the result of an operation into the cache, and returns it, unless this worker is to
    /// stop.
    #[inline]
    pub(super) fn remember(&mut self, operation: Operation, result: u32) -> Result<u32, Halt> {
        self.cache.put(operation, result);
        self.pass(0)?;
        if self.crew.is_requested() {
            self.follow()?;
        } else if self.cache.writes().is_multiple_of(ANYBODY_THERE) {
            self.look_round()?;
        }
        Ok(result)
    }

    /// How much this worker has done: operations that were not in the cache, and branches of lists
    /// that it has passed, many of which are one step.
    #[inline]
    pub(super) fn steps(&self) -> u64 {
        self.cache.writes() + self.passed / self.limits.branches
    }

    /// Counts branches of a list that are passed.
    #[inline]
    pub(super) fn pass(&mut self, branches: usize) -> Result<(), Halt> {
        self.passed += branches as u64;
        match self.steps() > self.limits.steps {
            true => Err(Halt::Steps),
            false => Ok(()),
        }
    }

    /// Counts branches that a list in the making has got: they are in no node yet.
    #[inline]
    pub(super) fn hold(&mut self, branches: usize) -> Result<(), Halt> {
        self.held += branches as u64;
        self.check_memory(0)
    }

    /// Fails if there is no memory for so many bytes beside nodes, cache and lists in the making.
    #[inline]
    pub(super) fn check_memory(&self, bytes: u64) -> Result<(), Halt> {
        let needed = self.bytes() + self.held * BYTES_OF_BRANCH + bytes;
        if needed <= self.limits.memory {
            return Ok(());
        }
        Err(Halt::Failed(ExploreError::OutOfMemory {
            needed,
            limit: self.limits.memory,
            states: self.table.len(),
        }))
    }

    /// The branches of a list are in nodes, or not needed any more.
    #[inline]
    pub(super) fn release(&mut self, branches: usize) {
        self.held = self.held.saturating_sub(branches as u64);
    }

    /// What is to be done once in many operations.
    #[cold]
    fn look_round(&mut self) -> Result<(), Halt> {
        self.crew.check_all()?;
        let Some(entries) = self.cache.wanted() else {
            return Ok(());
        };
        let room = self.table.room();
        let of_cache = self.cache.bytes_with(entries);
        if of_cache > self.limits.memory / PART_OF_CACHE
            || self.bytes_with(room, entries) > self.limits.memory
        {
            self.cache.be_content();
            return Ok(());
        }
        self.grow(room, entries)
    }

    /// Whether there are so many nodes that garbage should be collected.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.table.len() > self.collect_above
    }

    /// Drops all nodes that the diagrams of `roots` do not have, and what the cache says of them.
    /// Worker 0 calls it, and has no other diagram in use, nor in the making.
    pub(super) fn collect(&mut self, roots: &[u32]) -> Result<(), Halt> {
        while !self.crew.request(StopReason::Collect, self.arguments()) {
            self.follow()?;
        }
        let (_, arguments) = self.crew.stop()?;
        self.clean(arguments, roots)?;
        self.collect_above = self.limits.garbage.max(AGAIN * self.table.len());
        self.collections += 1;
        Ok(())
    }

    /// Forgets all diagrams, to begin anew within these limits, with another order of the places.
    /// Worker 0 calls it.
    pub(super) fn restart(&mut self, order: u64, limits: DiagramLimits) -> Result<(), Halt> {
        let arguments = Arguments {
            order,
            memory: limits.memory,
            room: FEW.min(self.table.most_room()),
            entries: FEW_ENTRIES,
        };
        while !self.crew.request(StopReason::Restart, arguments) {
            self.follow()?;
        }
        self.limits = limits;
        self.cache.forget_writes();
        (self.passed, self.held) = (0, 0);
        self.collect_above = limits.garbage;
        let (_, arguments) = self.crew.stop()?;
        Ok(self.clean(arguments, &[])?)
    }

    /// Lets all other workers end. Worker 0 calls it, whatever has happened before.
    pub(super) fn end(&mut self) {
        while !self.crew.request(StopReason::End, self.arguments()) {
            if self.follow().is_err() {
                // The others learn of it by the failure that this one has met.
                self.crew.fail();
                return;
            }
        }
    }

    /// Forgets what this worker has left behind when it gave up a task half way.
    pub(super) fn give_up(&mut self) {
        self.branches.clear();
        self.held = 0;
        self.crew.unlist(0);
    }

    /// Another worker than 0: takes part in a stop, between two of its tasks. The number of the
    /// order of the places from then on; none at the end.
    pub(super) fn stop(&mut self) -> Result<Option<u64>, ExploreError> {
        match self.crew.requested() {
            Some(StopReason::End) => return Ok(None),
            Some(StopReason::Grow) => match self.follow() {
                Err(Halt::Failed(error)) => return Err(error),
                _ => return Ok(Some(self.order)),
            },
            Some(StopReason::Collect | StopReason::Restart) => {}
            None => return Ok(Some(self.order)),
        }
        let (_, arguments) = self.crew.stop()?;
        self.clean(arguments, &[])?;
        Ok(Some(self.order))
    }

    /// Drops all that is not in the diagrams of `roots`: all workers together.
    fn clean(&mut self, arguments: Arguments, roots: &[u32]) -> Result<(), ExploreError> {
        self.order = arguments.order;
        self.limits.memory = arguments.memory;
        self.branches.clear();
        self.crew.unlist_all();
        let share = self.crew.share();
        self.table.forget_live(share);
        self.crew.barrier()?;
        self.mark(roots);
        self.crew.barrier()?;
        let table = &self.table;
        self.cache.retain(share, arguments.entries, |node| {
            node < FIRST || table.is_live(node - FIRST)
        });
        self.table.empty(share, arguments.room)?;
        self.crew.barrier()?;
        self.table.refill(share, true)?;
        self.crew.barrier()?;
        if share.worker == 0 {
            self.table.free_dead();
        }
        self.crew.barrier()
    }

    /// Says of all nodes of these diagrams that they are live.
    fn mark(&self, roots: &[u32]) {
        let mut next = roots.to_vec();
        while let Some(node) = next.pop() {
            if node >= FIRST && self.table.mark(node - FIRST) {
                let Node { down, right, .. } = self.get(node);
                next.extend([down, right]);
            }
        }
    }

    /// How often garbage was collected.
    #[cfg(test)]
    pub(super) fn collections(&self) -> u64 {
        self.collections
    }

    /// Sets the limits of worker 0 anew.
    pub(super) fn allow(&mut self, limits: DiagramLimits) {
        self.limits = limits;
    }

    fn bytes_with(&self, room: u64, entries: u64) -> u64 {
        self.table.bytes_with(room) + self.cache.bytes_with(entries)
    }

    /// Bytes of nodes and cache that are in use.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_with(self.table.room(), self.cache.entries())
    }
}

/// The branches of a list.
#[derive(Debug)]
pub(super) struct List<'n> {
    nodes: &'n DiagramNodes,
    node: u32,
}

impl Iterator for List<'_> {
    type Item = Branch;

    #[inline]
    fn next(&mut self) -> Option<Branch> {
        if self.node == EMPTY {
            return None;
        }
        let node = self.nodes.get(self.node);
        self.node = node.right;
        Some((node.value, node.down))
    }
}
