//! Saturation: the diagram of all reachable markings; and of those without an enabled transition.

use super::cache::Operation;
use super::crew::WorkHint;
use super::nodes::{Branch, DiagramNodes, EMPTY, END, Halt};
use crate::error::{ExploreError, TokenLimit};
use crate::explicit::Progress;
use crate::net::Net;
use crate::variables::Variables;

/// Different numbers of tokens in one place, at most.
const MOST_VALUES: usize = 1 << 24;
/// Operations of transition t: firing with all that follows is kind 3 t, leaving out where it is
/// enabled 3 t + 1, and firing it once 3 t + 2.
const KINDS: u32 = 3;
/// Operations on diagrams of so many levels are done sooner than another worker is told of them.
const SHALLOW: usize = 3;
/// A list with so many branches, or a power of 2 above, is looked at for growth without end.
const LONG: usize = 32;
/// Branches that are moved aside in a list in the time in which one is passed.
const MOVED: usize = 16;

/// What a transition does at one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct LevelEffect {
    pub(super) level: usize,
    /// The values with which the transition is enabled.
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) change: i64,
}

impl LevelEffect {
    /// Whether a value allows the transition.
    #[inline]
    pub(super) fn allows(&self, value: u32) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// Whether some value does not.
    pub(super) fn is_need(&self) -> bool {
        self.least > 0 || self.most < u32::MAX
    }
}

#[derive(Debug)]
pub(super) struct Saturation<'n> {
    net: &'n Net,
    variables: &'n Variables,
    order: &'n [usize],
    nodes: DiagramNodes,
    /// Each transition's effects, from its first level down.
    effects: Vec<Vec<LevelEffect>>,
    /// The transitions that begin at each level and change something.
    beginning: Vec<Vec<u32>>,
    /// For each transition that takes no tokens away and brings some: the level of a place that
    /// grows with each of its firings.
    growing: Vec<Option<usize>>,
    /// The most tokens that firings have led to, at each level.
    most: Vec<u32>,
    progress: &'n Progress,
    /// The level whose list is being saturated by nobody's order but the first one's: between two
    /// of its firings, no other list is in use.
    outermost: Option<usize>,
}

impl<'n> Saturation<'n> {
    /// `order` has the variable of each level.
    pub(super) fn new(
        net: &'n Net,
        variables: &'n Variables,
        order: &'n [usize],
        nodes: DiagramNodes,
        progress: &'n Progress,
    ) -> Self {
        let mut level_of = vec![0; order.len()];
        for (level, &variable) in order.iter().enumerate() {
            level_of[variable] = level;
        }
        let mut beginning = vec![Vec::new(); order.len()];
        let mut effects = Vec::with_capacity(net.transitions().len());
        let mut growing = Vec::with_capacity(net.transitions().len());
        for (number, transition) in net.transitions().iter().enumerate() {
            let here = variables.effects(transition).into_iter();
            let here = here.map(|effect| LevelEffect {
                level: level_of[effect.variable],
                least: effect.least,
                most: effect.most,
                change: effect.change,
            });
            let mut here: Vec<LevelEffect> = here.collect();
            here.sort_by_key(|effect| effect.level);
            if here.iter().any(|effect| effect.change != 0) {
                beginning[here[0].level].push(number as u32);
            }
            // What is taken from a place of a group is no less of the group's value.
            let is_own = |effect: &&LevelEffect| !variables.is_group(order[effect.level]);
            let takes_none = here.iter().all(|effect| match is_own(&effect) {
                true => effect.change >= 0,
                false => effect.change == 0,
            });
            let own = here.iter().filter(is_own);
            let mut brings = own.filter(|effect| effect.change > 0);
            let brings = brings.next().filter(|_| takes_none);
            growing.push(brings.map(|effect| effect.level));
            effects.push(here);
        }
        Self {
            net,
            variables,
            order,
            nodes,
            effects,
            beginning,
            growing,
            most: vec![0; order.len()],
            progress,
            outermost: None,
        }
    }

    pub(super) fn levels(&self) -> usize {
        self.order.len()
    }

    pub(super) fn nodes(&self) -> &DiagramNodes {
        &self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> &mut DiagramNodes {
        &mut self.nodes
    }

    /// The most tokens that firings have led to, and their place, where that is in no group.
    pub(super) fn most(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let levels = self.order.iter().zip(self.most.iter());
        let own = levels.filter(|(variable, _)| !self.variables.is_group(**variable));
        own.map(|(variable, most)| (self.variables.places(*variable)[0], *most))
    }

    /// The places of each level: one, whose tokens are its value, or several, of which the value
    /// says which one has a token.
    pub(super) fn places(&self) -> impl Iterator<Item = &'n [usize]> + use<'n> {
        let (order, variables) = (self.order, self.variables);
        order.iter().map(|variable| variables.places(*variable))
    }

    /// Whether a level's value says which of several places has a token.
    pub(super) fn is_group(&self, level: usize) -> bool {
        self.variables.is_group(self.order[level])
    }

    /// The tokens of each place, from the value of each level.
    pub(super) fn marking(&self, values: &[u32]) -> Vec<u32> {
        let values = self.order.iter().copied().zip(values.iter().copied());
        self.variables.marking(values)
    }

    /// The nodes, for an exploration with another order of the places.
    pub(super) fn into_nodes(self) -> DiagramNodes {
        self.nodes
    }

    /// Levels from this one on in whose operations other workers may help.
    #[inline]
    fn hints(&self, level: usize) -> usize {
        if self.nodes.crew.is_alone() {
            return 0;
        }
        (self.levels() - level).saturating_sub(SHALLOW)
    }

    /// Does an operation that another worker is going to need.
    pub(super) fn help(&mut self, hint: WorkHint) -> Result<(), Halt> {
        match hint {
            WorkHint::Fire { transition, node } => {
                let effects = self.effects.get(transition as usize);
                let (Some(effects), Some(level)) = (effects, self.level_of(node)) else {
                    return Ok(());
                };
                let next = effects.partition_point(|effect| effect.level < level);
                self.fire(transition, next, node, level)?;
            }
            WorkHint::Union { one, two } => {
                if let Some(level) = self.level_of(one) {
                    self.nodes.union(one, two, self.hints(level))?;
                }
            }
        }
        Ok(())
    }

    /// The level of a list; none for what is no list.
    fn level_of(&self, mut node: u32) -> Option<usize> {
        for level in (0..=self.levels()).rev() {
            match node {
                EMPTY => return None,
                END => return Some(level),
                _ => node = self.nodes.get(node).down,
            }
        }
        None
    }

    pub(super) fn effects(&self) -> &[Vec<LevelEffect>] {
        &self.effects
    }

    pub(super) fn bytes(&self) -> u64 {
        self.nodes.bytes()
    }

    /// The initial value of each level.
    pub(super) fn initial(&self) -> Vec<u32> {
        let initial = self.variables.initial(self.net);
        let order = self.order.iter();
        order.map(|&variable| initial[variable]).collect()
    }

    /// The diagram of all reachable markings.
    pub(super) fn reachable(&mut self) -> Result<u32, Halt> {
        let mut below = END;
        for (level, value) in self.initial().into_iter().enumerate().rev() {
            self.outermost = Some(level);
            self.nodes.hold(1)?;
            below = self.saturated(vec![(value, below)], level)?;
            self.outermost = None;
            self.progress
                .at_level((self.levels() - level) as u64, self.bytes());
        }
        Ok(below)
    }

    /// Saturates the list of these branches, which are saturated below.
    fn saturated(&mut self, mut branches: Vec<Branch>, level: usize) -> Result<u32, Halt> {
        let all = branches.len();
        branches.retain(|(_, down)| *down != EMPTY);
        self.nodes.release(all - branches.len());
        if branches.is_empty() {
            return Ok(EMPTY);
        }
        let transitions = std::mem::take(&mut self.beginning[level]);
        let result = self.fire_all(&transitions, &mut branches, level);
        self.beginning[level] = transitions;
        result?;
        let list = self.nodes.make(&branches)?;
        self.nodes.release(branches.len());
        Ok(list)
    }

    /// Fires transitions until the branches have all that they lead to.
    fn fire_all(
        &mut self,
        transitions: &[u32],
        branches: &mut Vec<Branch>,
        level: usize,
    ) -> Result<(), Halt> {
        // Transitions fired in a row without anything new.
        let mut quiet = 0;
        for &transition in transitions.iter().cycle() {
            if quiet == transitions.len() {
                break;
            }
            quiet += 1;
            if self.fire_top(transition, branches, level)? {
                quiet = 0;
            }
        }
        Ok(())
    }

    /// Fires a transition that begins at this level, from every branch. The branches are taken in
    /// the direction in which it changes the tokens, so that one pass follows a whole chain of
    /// firings. Says whether there is anything new.
    fn fire_top(
        &mut self,
        transition: u32,
        branches: &mut Vec<Branch>,
        level: usize,
    ) -> Result<bool, Halt> {
        let effect = self.effects[transition as usize][0];
        let mut changed = false;
        let mut at = if effect.change > 0 {
            branches.partition_point(|(value, _)| *value < effect.least)
        } else {
            let behind = branches.partition_point(|(value, _)| *value <= effect.most);
            behind.wrapping_sub(1)
        };
        while let Some(&(value, down)) = branches.get(at).filter(|(at, _)| effect.allows(*at)) {
            self.nodes.pass(1)?;
            let below = self.fire(transition, 1, down, level + 1)?;
            if self.outermost == Some(level) && self.nodes.is_due() {
                let lists = branches.iter().map(|branch| branch.1).chain([below]);
                self.nodes.collect(&lists.collect::<Vec<_>>())?;
            }
            if below != EMPTY {
                let is_longest = branches.len() >= LONG
                    && branches.len().is_power_of_two()
                    && at + 1 == branches.len();
                self.check_growth(transition, [down, below], is_longest)?;
                let value = self.changed(value, effect, level)?;
                let new = self.join(branches, value, below, level)?;
                changed |= new;
                if new && effect.change == 0 {
                    continue;
                }
            }
            // A new branch is behind this one, in the direction of the pass, unless it is at this
            // place.
            let here = branches.binary_search_by_key(&value, |branch| branch.0);
            at = here.unwrap_or_else(|at| at);
            at = match effect.change > 0 {
                true => at + 1,
                false => at.wrapping_sub(1),
            };
        }
        Ok(changed)
    }

    /// Fails where a firing, at its first level and in all markings of a node, shows that a place
    /// can get any number of tokens: each of the markings in `before` that the levels below had is
    /// reached again from one of them, if they are all in `after`. As they are not infinitely many,
    /// one is reached again from itself, with more tokens at the first level.
    fn check_growth(
        &mut self,
        transition: u32,
        [before, after]: [u32; 2],
        is_longest: bool,
    ) -> Result<(), Halt> {
        let effect = self.effects[transition as usize][0];
        let grown = match self.growing[transition as usize] {
            Some(level) => Some(level),
            None if effect.change <= 0 || effect.most < u32::MAX => None,
            None if before == after => Some(effect.level),
            None if is_longest => {
                let both = self
                    .nodes
                    .union(before, after, self.hints(effect.level + 1))?;
                (both == after).then_some(effect.level)
            }
            None => None,
        };
        let Some(level) = grown else { return Ok(()) };
        let place = self.place(level);
        Err(ExploreError::Unbounded { place }.into())
    }

    /// Adds a branch. Says whether there is anything new.
    fn join(
        &mut self,
        branches: &mut Vec<Branch>,
        value: u32,
        below: u32,
        level: usize,
    ) -> Result<bool, Halt> {
        match branches.binary_search_by_key(&value, |branch| branch.0) {
            Ok(at) => {
                let before = branches[at].1;
                branches[at].1 = self.nodes.union(before, below, self.hints(level + 1))?;
                Ok(branches[at].1 != before)
            }
            Err(at) => {
                if branches.len() >= MOST_VALUES {
                    let limit = TokenLimit::Numbers(MOST_VALUES as u64);
                    return Err(self.above(level, limit).into());
                }
                self.nodes.pass((branches.len() - at) / MOVED)?;
                self.nodes.hold(1)?;
                branches.insert(at, (value, below));
                Ok(true)
            }
        }
    }

    /// Fires a transition in the markings of `node`, at its effects from number `next` on;
    /// saturates what it leads to.
    fn fire(&mut self, transition: u32, next: usize, node: u32, level: usize) -> Result<u32, Halt> {
        let Some(&effect) = self.effects[transition as usize].get(next) else {
            return Ok(node);
        };
        let operation = Operation {
            kind: transition * KINDS,
            one: node,
            two: END,
        };
        if let Some(result) = self.nodes.cache.get(operation) {
            return Ok(result);
        }
        let mut branches = self.held_branches(node, effect, level)?;
        let listed = self.nodes.crew.listed();
        let hints = self.hints(level);
        if hints > 0 {
            for &(_, node) in branches.iter().skip(1).rev() {
                self.nodes.crew.list(WorkHint::Fire { transition, node });
            }
        }
        if level < effect.level {
            for branch in &mut branches {
                branch.1 = self.fire(transition, next, branch.1, level + 1)?;
            }
        } else {
            for branch in &mut branches {
                branch.1 = self.fire(transition, next + 1, branch.1, level + 1)?;
                if branch.1 != EMPTY {
                    branch.0 = self.changed(branch.0, effect, level)?;
                }
            }
        }
        if hints > 0 {
            self.nodes.crew.unlist(listed);
        }
        let result = self.saturated(branches, level)?;
        self.nodes.remember(operation, result)
    }

    /// The markings that one firing of a transition leads to from those of `node`, at its effects
    /// from number `next` on.
    pub(super) fn fire_once(
        &mut self,
        transition: u32,
        next: usize,
        node: u32,
        level: usize,
    ) -> Result<u32, Halt> {
        let Some(&effect) = self.effects[transition as usize].get(next) else {
            return Ok(node);
        };
        let operation = Operation {
            kind: transition * KINDS + 2,
            one: node,
            two: END,
        };
        if let Some(result) = self.nodes.cache.get(operation) {
            return Ok(result);
        }
        let mut branches = self.held_branches(node, effect, level)?;
        let held = branches.len();
        let next = next + usize::from(level == effect.level);
        for branch in &mut branches {
            branch.1 = self.fire_once(transition, next, branch.1, level + 1)?;
            if level == effect.level && branch.1 != EMPTY {
                branch.0 = self.changed(branch.0, effect, level)?;
            }
        }
        let result = self.nodes.make(&branches)?;
        self.nodes.release(held);
        self.nodes.remember(operation, result)
    }

    /// The branches of a list in which a transition may fire whose next effect this is.
    fn held_branches(
        &mut self,
        node: u32,
        effect: LevelEffect,
        level: usize,
    ) -> Result<Vec<Branch>, Halt> {
        let mut branches: Vec<Branch> = self.nodes.list(node).collect();
        if level == effect.level {
            branches.retain(|(value, _)| effect.allows(*value));
        }
        self.nodes.pass(branches.len())?;
        self.nodes.hold(branches.len())?;
        Ok(branches)
    }

    /// What a firing leaves of so many tokens.
    fn changed(&mut self, value: u32, effect: LevelEffect, level: usize) -> Result<u32, Halt> {
        let Ok(value) = u32::try_from(i64::from(value) + effect.change) else {
            let limit = TokenLimit::Tokens(u32::MAX.into());
            return Err(self.above(level, limit).into());
        };
        self.most[level] = self.most[level].max(value);
        Ok(value)
    }

    fn above(&self, level: usize, limit: TokenLimit) -> ExploreError {
        let place = self.place(level);
        ExploreError::AboveLimit { place, limit }
    }

    /// The id of a level's place, or of its first one.
    fn place(&self, level: usize) -> String {
        let place = self.variables.places(self.order[level])[0];
        self.net.places()[place].id.clone()
    }

    /// Of the markings of a diagram, those in which no transition is enabled.
    pub(super) fn disabled(&mut self, node: u32) -> Result<u32, Halt> {
        let mut left = node;
        for transition in 0..self.effects.len() {
            left = self.without_enabled(transition as u32, 0, left, 0)?;
        }
        Ok(left)
    }

    /// Of the markings of a node, those in which one of a transition's needs from number `next` on
    /// is not met.
    fn without_enabled(
        &mut self,
        transition: u32,
        next: usize,
        node: u32,
        level: usize,
    ) -> Result<u32, Halt> {
        if node == EMPTY {
            return Ok(EMPTY);
        }
        let effects = &self.effects[transition as usize];
        let needing = effects[next..].iter().position(LevelEffect::is_need);
        let Some(next) = needing.map(|ahead| next + ahead) else {
            return Ok(EMPTY);
        };
        let effect = effects[next];
        let operation = Operation {
            kind: transition * KINDS + 1,
            one: node,
            two: END,
        };
        if let Some(result) = self.nodes.cache.get(operation) {
            return Ok(result);
        }
        let mut branches: Vec<Branch> = self.nodes.list(node).collect();
        for (value, down) in &mut branches {
            if level < effect.level {
                *down = self.without_enabled(transition, next, *down, level + 1)?;
            } else if effect.allows(*value) {
                *down = self.without_enabled(transition, next + 1, *down, level + 1)?;
            }
        }
        let result = self.nodes.make(&branches)?;
        self.nodes.remember(operation, result)
    }
}
