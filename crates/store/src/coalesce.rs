//! Coalesced writes: of several writes of one key in a batch, one is enough.
//!
//! All operations of a batch are under way together, so that those on one key may take effect in
//! any order. Where all writes of a key are puts and updates, with values of one length, one order
//! has a put behind all of them, or an update if there is no put, and the gets behind that: then
//! that one write is all that the table need be asked for. The others would have cost a round trip
//! each, or several, as they met each other at the key's slot.

use crate::{Operation, Outcome, Result};
use farslot_index::Value;
use foldhash::fast::RandomState;
use std::cell::RefCell;
use std::collections::HashMap;

/// A batch in which one write stands for all that is done to its key.
pub(crate) struct Coalesced<'o, 'r> {
    all: &'o [Operation<'r>],
    /// The numbers of the operations that are run.
    run: Vec<usize>,
    /// Those that another stands for: that one's number, and their own, sorted.
    led: Vec<(usize, usize)>,
}

/// Whether a write answers for an operation on its key: for another write only if that fails or
/// fits as it does, by the length of its value.
fn is_led(operation: &Operation<'_>, leader: &Operation<'_>) -> bool {
    match (operation.value(), leader.value()) {
        (Some(led), Some(leading)) => led.len() == leading.len(),
        _ => true,
    }
}

/// What is done to a key.
#[derive(Default)]
struct Uses {
    last_put: Option<usize>,
    last_update: Option<usize>,
    /// Whether it is used otherwise as well.
    otherwise: bool,
}

impl Uses {
    /// The number of the write that stands for all.
    fn leader(&self) -> Option<usize> {
        self.last_put
            .or(self.last_update)
            .filter(|_| !self.otherwise)
    }
}

impl<'o, 'r> Coalesced<'o, 'r> {
    /// The batch, unless no operation of it can stand for another.
    pub(crate) fn of(all: &'o [Operation<'r>]) -> Option<Self> {
        let leads = |operation: &Operation<'_>| {
            matches!(operation, Operation::Put(..) | Operation::Update(..))
        };
        if all.len() < 2 || !all.iter().any(leads) {
            return None;
        }
        let mut places: HashMap<&[u8], usize, RandomState> =
            HashMap::with_capacity_and_hasher(all.len(), RandomState::default());
        let mut keys: Vec<Uses> = Vec::with_capacity(all.len());
        let mut key_of = Vec::with_capacity(all.len());
        for (number, operation) in all.iter().enumerate() {
            let place = *places.entry(operation.key()).or_insert(keys.len());
            key_of.push(place);
            if place == keys.len() {
                keys.push(Uses::default());
            }
            let uses = &mut keys[place];
            match operation {
                Operation::Get(_) => {}
                Operation::Put(..) => uses.last_put = Some(number),
                Operation::Update(..) => uses.last_update = Some(number),
                Operation::GetAll(_)
                | Operation::FindOrPut(..)
                | Operation::Replace(..)
                | Operation::Remove(_)
                | Operation::RemoveIf(..) => {
                    uses.otherwise = true;
                }
            }
        }
        if keys.len() == all.len() {
            return None;
        }
        let (mut run, mut led) = (Vec::with_capacity(all.len()), Vec::new());
        for (number, operation) in all.iter().enumerate() {
            match keys[key_of[number]].leader() {
                Some(leader) if leader != number && is_led(operation, &all[leader]) => {
                    led.push((leader, number));
                }
                _ => run.push(number),
            }
        }
        led.sort_unstable();
        (!led.is_empty()).then_some(Self { all, run, led })
    }

    /// Runs the batch by `session`; `done` gets all answers. Where a put fails, those that it
    /// stands for are run after it, by themselves.
    pub(crate) fn run(
        &self,
        session: impl Fn(&[Operation<'r>], &mut dyn FnMut(usize, Result<Outcome>)),
        done: &mut dyn FnMut(usize, Result<Outcome>),
    ) {
        let again = RefCell::new(Vec::new());
        session(&self.operations(&self.run), &mut |at, outcome| {
            let number = self.run[at];
            let led = self.led_by(number).iter().map(|(_, number)| *number);
            match outcome {
                Ok(Outcome::Changed(new)) => self.tell(number, led, new, done),
                Ok(outcome) => done(number, Ok(outcome)),
                Err(error) => {
                    again.borrow_mut().extend(led);
                    done(number, Err(error));
                }
            }
        });
        let again = again.into_inner();
        if !again.is_empty() {
            let mut tell = |at: usize, outcome: Result<Outcome>| done(again[at], outcome);
            session(&self.operations(&again), &mut tell);
        }
    }

    /// Tells what a write did, and those that it stands for: other puts, then updates, then the
    /// write itself, then gets.
    fn tell(
        &self,
        number: usize,
        led: impl Iterator<Item = usize> + Clone,
        changed: bool,
        done: &mut dyn FnMut(usize, Result<Outcome>),
    ) {
        let is_put = |number: usize| matches!(self.all[number], Operation::Put(..));
        let value = match self.all[number] {
            Operation::Put(_, value) => Some(value),
            Operation::Update(_, value) => changed.then_some(value),
            _ => None,
        };
        // Whether the key was there at first, and whether the updates met it.
        let present = changed != is_put(number);
        let met = present || led.clone().any(is_put);
        let mut new = !present;
        let mut telling = |number: usize| match self.all[number] {
            Operation::Get(_) => done(number, Ok(Outcome::Value(value.map(Value::from)))),
            Operation::Put(..) => done(number, Ok(Outcome::Changed(std::mem::take(&mut new)))),
            _ => done(number, Ok(Outcome::Changed(met))),
        };
        led.for_each(&mut telling);
        telling(number);
    }

    fn led_by(&self, number: usize) -> &[(usize, usize)] {
        let first = self.led.partition_point(|(leader, _)| *leader < number);
        let end = self.led.partition_point(|(leader, _)| *leader <= number);
        &self.led[first..end]
    }

    fn operations(&self, numbers: &[usize]) -> Vec<Operation<'r>> {
        numbers.iter().map(|number| self.all[*number]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    const VALUES: [&[u8]; 4] = [b"0", b"1", b"2", b"long"];

    fn operation() -> impl Strategy<Value = Operation<'static>> {
        (0..7, 0..KEYS.len(), 0..VALUES.len()).prop_map(|(kind, key, value)| {
            let (key, value) = (KEYS[key], VALUES[value]);
            match kind {
                0 | 1 => Operation::Put(key, value),
                2 => Operation::FindOrPut(key, value),
                3 => Operation::Update(key, value),
                4 => Operation::Remove(key),
                5 => Operation::GetAll(key),
                _ => Operation::Get(key),
            }
        })
    }

    type Map<'r> = BTreeMap<&'r [u8], &'r [u8]>;

    /// Does an operation to a map.
    fn apply<'r>(map: &mut Map<'r>, operation: Operation<'r>) -> Outcome {
        match operation {
            Operation::Get(key) => Outcome::Value(map.get(key).copied().map(Value::from)),
            Operation::GetAll(key) => {
                Outcome::Values(map.get(key).copied().map(Value::from).into_iter().collect())
            }
            Operation::Put(key, value) => Outcome::Changed(map.insert(key, value).is_none()),
            Operation::FindOrPut(key, value) => {
                let present = map.get(key).copied();
                if present.is_none() {
                    map.insert(key, value);
                }
                Outcome::Value(present.map(Value::from))
            }
            Operation::Update(key, value) => {
                Outcome::Changed(map.get_mut(key).map(|present| *present = value).is_some())
            }
            Operation::Replace(key, expected, value) => {
                let present = map.get_mut(key).filter(|present| **present == expected);
                Outcome::Changed(present.map(|present| *present = value).is_some())
            }
            Operation::Remove(key) => Outcome::Changed(map.remove(key).is_some()),
            Operation::RemoveIf(key, expected) => {
                let is_there = map.get(key).is_some_and(|present| *present == expected);
                Outcome::Changed(is_there && map.remove(key).is_some())
            }
        }
    }

    /// Whether some order of the operations on a key has these outcomes, and leaves `end`.
    fn is_explained<'r>(
        map: &mut Map<'r>,
        left: &mut Vec<(Operation<'r>, &Outcome)>,
        key: &[u8],
        end: Option<&[u8]>,
    ) -> bool {
        if left.is_empty() {
            return map.get(key).copied() == end;
        }
        (0..left.len()).any(|next| {
            let (operation, expected) = left.remove(next);
            let before = map.clone();
            let fits = apply(map, operation) == *expected && is_explained(map, left, key, end);
            *map = before;
            left.insert(next, (operation, expected));
            fits
        })
    }

    proptest! {
        #[test]
        fn some_order_of_the_operations_on_a_key_explains_all_answers(
            present in proptest::collection::btree_map(0..KEYS.len(), 0..VALUES.len(), 0..3),
            operations in proptest::collection::vec(operation(), 0..7),
            failing in 0_usize..8,
        ) {
            let map: Map<'_> = present.iter().map(|(key, value)| (KEYS[*key], VALUES[*value])).collect();
            let table = RefCell::new(map.clone());
            let calls = std::cell::Cell::new(0);
            let session = |run: &[Operation<'static>], done: &mut dyn FnMut(usize, Result<Outcome>)| {
                for (number, operation) in run.iter().enumerate() {
                    calls.set(calls.get() + 1);
                    // Values of one byte fit.
                    let fits = operation.value().is_none_or(|value| value.len() == 1);
                    if calls.get() == failing || !fits {
                        done(number, Err(StoreError::NotBuildable { scheme: "a test's" }));
                    } else {
                        done(number, Ok(apply(&mut table.borrow_mut(), *operation)));
                    }
                }
            };
            let mut outcomes: Vec<Option<Option<Outcome>>> = vec![None; operations.len()];
            let mut keep = |number: usize, outcome: Result<Outcome>| {
                assert!(outcomes[number].replace(outcome.ok()).is_none());
            };
            match Coalesced::of(&operations) {
                Some(combined) => combined.run(session, &mut keep),
                None => session(&operations, &mut keep),
            }
            for (operation, outcome) in operations.iter().zip(&outcomes) {
                let fits = operation.value().is_none_or(|value| value.len() == 1);
                prop_assert!(fits || outcome == &Some(None), "{operation:?}: {outcome:?}");
            }
            for key in KEYS {
                let of_key = operations.iter().zip(&outcomes).filter(|(of, _)| of.key() == key);
                let answered = of_key.map(|(of, outcome)| (*of, outcome.as_ref().unwrap()));
                // One that failed has done nothing.
                let mut left: Vec<_> = answered
                    .filter_map(|(of, outcome)| Some((of, outcome.as_ref()?)))
                    .collect();
                let end = table.borrow().get(key).copied();
                prop_assert!(is_explained(&mut map.clone(), &mut left, key, end), "{operations:?}");
            }
        }
    }

    #[test]
    fn of_puts_updates_and_gets_of_one_key_the_last_put_is_run() {
        let put = |value| Operation::Put(b"a", value);
        let batch = [
            Operation::Get(b"a"),
            put(b"1"),
            Operation::Get(b"b"),
            put(b"2"),
            Operation::Update(b"a", b"3"),
        ];
        let combined = Coalesced::of(&batch).unwrap();
        assert_eq!(combined.run, [2, 3]);
        assert_eq!(combined.led, [(3, 0), (3, 1), (3, 4)]);
        assert!(Coalesced::of(&batch[..1]).is_none());
        let updates = [Operation::Update(b"a", b"1"), Operation::Update(b"a", b"2")];
        assert_eq!(Coalesced::of(&updates).unwrap().run, [1]);
        let removed = [put(b"1"), put(b"2"), Operation::Remove(b"a")];
        assert!(Coalesced::of(&removed).is_none());
    }
}
