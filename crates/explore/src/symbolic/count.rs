//! What a diagram holds: markings, transitions enabled in them, most tokens.

use super::nodes::{EMPTY, END};
use super::saturate::{LevelEffect, Saturation};
use crate::model::Tokens;
use num_bigint::BigUint;
use std::collections::HashMap;

/// The lists of a diagram, level by level, and how many markings pass each.
#[derive(Debug)]
pub(super) struct Counts {
    /// For each list of each level: how many ways lead to it from above.
    above: Vec<HashMap<u32, BigUint>>,
    /// For each list: how many markings it has; [`END`] has one, and a missing one none.
    below: HashMap<u32, BigUint>,
    root: u32,
}

impl Counts {
    pub(super) fn of(saturation: &Saturation<'_>, root: u32) -> Self {
        let nodes = saturation.nodes();
        let mut above: Vec<HashMap<u32, BigUint>> = vec![HashMap::new(); saturation.levels()];
        if let Some(first) = above.first_mut()
            && root != EMPTY
        {
            first.insert(root, BigUint::from(1_u8));
        }
        for level in 1..above.len() {
            let (done, rest) = above.split_at_mut(level);
            for (&list, ways) in &done[level - 1] {
                for (_, down) in nodes.list(list) {
                    *rest[0].entry(down).or_default() += ways;
                }
            }
        }
        let mut below = HashMap::from([(END, BigUint::from(1_u8))]);
        for lists in above.iter().rev() {
            for &list in lists.keys() {
                let sum = nodes.list(list).map(|(_, down)| &below[&down]).sum();
                below.insert(list, sum);
            }
        }
        Self { above, below, root }
    }

    pub(super) fn states(&self) -> BigUint {
        self.below.get(&self.root).cloned().unwrap_or_default()
    }

    /// Nodes of the diagram: a list that is the end of another is counted once.
    pub(super) fn nodes(&self, saturation: &Saturation<'_>) -> u64 {
        let mut seen = std::collections::HashSet::new();
        for &list in self.above.iter().flat_map(HashMap::keys) {
            let mut node = list;
            while node != EMPTY && seen.insert(node) {
                node = saturation.nodes().get(node).right;
            }
        }
        seen.len() as u64
    }

    /// How often transitions are enabled, summed over all markings and transitions.
    pub(super) fn transitions(&self, saturation: &Saturation<'_>) -> BigUint {
        let effects = saturation.effects().iter();
        effects
            .map(|effects| self.enabled(saturation, effects))
            .sum()
    }

    /// In how many markings a transition is enabled: only the levels between its first and last
    /// need are looked at.
    fn enabled(&self, saturation: &Saturation<'_>, effects: &[LevelEffect]) -> BigUint {
        let needs = effects.iter().filter(|effect| effect.is_need());
        let needs: Vec<LevelEffect> = needs.copied().collect();
        let (Some(first), Some(last)) = (needs.first(), needs.last()) else {
            return self.states();
        };
        let mut enabled: HashMap<u32, BigUint> = HashMap::new();
        for level in (first.level..=last.level).rev() {
            let here = needs.iter().find(|need| need.level == level);
            let counted = self.above[level].keys().map(|&list| {
                let branches = saturation
                    .nodes()
                    .list(list)
                    .filter(|branch| here.is_none_or(|need| need.allows(branch.0)));
                let counts = branches.filter_map(|(_, down)| {
                    let below = if level == last.level {
                        &self.below
                    } else {
                        &enabled
                    };
                    below.get(&down)
                });
                (list, counts.sum())
            });
            enabled = counted.collect();
        }
        let lists = self.above[first.level].iter();
        lists.map(|(list, ways)| ways * &enabled[list]).sum()
    }

    pub(super) fn tokens(&self, saturation: &Saturation<'_>) -> Tokens {
        let mut in_place = 0;
        let mut most: HashMap<u32, u64> = HashMap::from([(END, 0)]);
        for (level, lists) in self.above.iter().enumerate().rev() {
            let is_group = saturation.is_group(level);
            for &list in lists.keys() {
                let branches = saturation.nodes().list(list);
                let sums = branches.map(|(value, down)| {
                    let tokens = if is_group { 1 } else { u64::from(value) };
                    in_place = in_place.max(tokens);
                    tokens + most[&down]
                });
                let sum = sums.max().unwrap_or_default();
                most.insert(list, sum);
            }
        }
        Tokens {
            in_place,
            in_state: most.get(&self.root).copied().unwrap_or_default(),
        }
    }
}
