//! A marking of a diagram that does not meet a condition: a walk that passes each list once with
//! each value of what is known of the condition there.

use super::nodes::{DiagramNodes, EMPTY, END, Halt};
use crate::formula::{Formula, PartialTruth, Stepwise};
use std::collections::{HashMap, HashSet};

/// Bytes that an entry of each table takes, with its share of what is free.
const BYTES_OF_FAILED: u64 = 20;
const BYTES_OF_PARTIAL: u64 = 40;

/// A search for markings that violate a condition.
#[derive(Debug)]
pub(super) struct ViolationSearch {
    stepwise: Stepwise,
    /// What may be known of the condition, by its number, and the other way round.
    partials: Vec<PartialTruth>,
    numbers: HashMap<PartialTruth, u32>,
    /// Lists below which no marking is found, with the number of what is known before.
    failed: HashSet<(u32, u32)>,
    bytes_of_partials: u64,
}

impl ViolationSearch {
    /// For the markings of diagrams whose levels have these places.
    pub(super) fn new<'n>(condition: &Formula, levels: impl Iterator<Item = &'n [usize]>) -> Self {
        Self {
            stepwise: Stepwise::new(condition, levels),
            partials: Vec::new(),
            numbers: HashMap::new(),
            failed: HashSet::new(),
            bytes_of_partials: 0,
        }
    }

    /// The first marking of a diagram that violates the condition, as the value of each level.
    pub(super) fn find(
        &mut self,
        nodes: &DiagramNodes,
        root: u32,
    ) -> Result<Option<Vec<u32>>, Halt> {
        if root == EMPTY {
            return Ok(None);
        }
        let start = self.stepwise.start();
        let start = self.number(start);
        let mut marking = Vec::new();
        let found = self.walk(nodes, root, start, &mut marking);
        // Nodes may be others by the time of the next search.
        self.failed.clear();
        Ok(found?.then_some(marking))
    }

    fn number(&mut self, partial: PartialTruth) -> u32 {
        if let Some(number) = self.numbers.get(&partial) {
            return *number;
        }
        let number = self.partials.len() as u32;
        self.bytes_of_partials += 2 * partial.bytes() + BYTES_OF_PARTIAL;
        self.partials.push(partial.clone());
        self.numbers.insert(partial, number);
        number
    }

    /// Looks below a list, with what is known before it. `marking` has the values that lead there,
    /// and in the end, where there is one, those of the whole marking.
    fn walk(
        &mut self,
        nodes: &DiagramNodes,
        list: u32,
        known: u32,
        marking: &mut Vec<u32>,
    ) -> Result<bool, Halt> {
        match self.partials[known as usize].holds() {
            Some(true) => return Ok(false),
            Some(false) => {
                // Any marking will do: no list leads nowhere.
                let mut node = list;
                while node != END {
                    let first = nodes.get(node);
                    marking.push(first.value);
                    node = first.down;
                }
                return Ok(true);
            }
            None => {}
        }
        if self.failed.contains(&(list, known)) {
            return Ok(false);
        }
        let level = marking.len();
        for (value, down) in nodes.list(list) {
            let next = match self.stepwise.asks(level) {
                true => {
                    let told = &self.partials[known as usize];
                    let told = self.stepwise.told(told, level, value);
                    self.number(told)
                }
                false => known,
            };
            marking.push(value);
            if self.walk(nodes, down, next, marking)? {
                return Ok(true);
            }
            marking.pop();
        }
        self.failed.insert((list, known));
        let bytes = self.failed.len() as u64 * BYTES_OF_FAILED + self.bytes_of_partials;
        nodes.check_memory(bytes)?;
        Ok(false)
    }
}
