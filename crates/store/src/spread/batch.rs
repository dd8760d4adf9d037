//! Batches: each partition's share at once, in one task, so that the verbs of a turn leave for all nodes together.

use super::opening::Opener;
use super::{Entry, MOST_ATTEMPTS, Spread, met_another};
use crate::share::Share;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, window};
use farslot_index::Write;
use std::cell::RefCell;

/// An item of a batch: it goes to the partition of its key.
pub(super) trait Keyed: Copy {
    fn key(&self) -> &[u8];
}

impl Keyed for &[u8] {
    fn key(&self) -> &[u8] {
        self
    }
}

impl Keyed for (&[u8], &[u8]) {
    fn key(&self) -> &[u8] {
        self.0
    }
}

impl Keyed for Write<'_> {
    fn key(&self) -> &[u8] {
        Write::key(self)
    }
}

impl<E: Endpoint, O: Opener<E>> Spread<E, O> {
    /// Gives each partition's client its share of the items; `done` gets each answer with the item's number.
    /// Without a partition, `empty` answers.
    pub(super) async fn batch<I: Keyed, T>(
        &self,
        items: &[I],
        empty: impl Fn(StoreError) -> Result<T>,
        done: impl FnMut(usize, Result<T>),
        run: impl AsyncFn(&O::Client, &[I], &mut dyn FnMut(usize, Result<T>)),
    ) {
        let mut shares: Vec<(u16, Share<I>)> = self
            .numbers()
            .map(|partition| (partition, Share::default()))
            .collect();
        for (number, item) in items.iter().enumerate() {
            let partition = self.partition_of(item.key());
            shares[usize::from(partition)].1.push(number, *item);
        }
        shares.retain(|(_, share)| !share.items.is_empty());
        // Nobody else borrows it while it is called: a callback that uses the table begins a batch of its own.
        let done = RefCell::new(done);
        let tell = |number, answer| (done.borrow_mut())(number, answer);
        let (empty, run, tell) = (&empty, &run, &tell);
        let width = shares.len();
        let jobs = shares
            .into_iter()
            .map(|(partition, share)| self.run_share(partition, share, empty, tell, run));
        window(width, jobs, |_, ()| ()).await;
    }

    async fn run_share<I: Keyed, T>(
        &self,
        partition: u16,
        mut share: Share<I>,
        empty: &impl Fn(StoreError) -> Result<T>,
        tell: &impl Fn(usize, Result<T>),
        run: &impl AsyncFn(&O::Client, &[I], &mut dyn FnMut(usize, Result<T>)),
    ) {
        let mut attempts = 0;
        while !share.items.is_empty() {
            attempts += 1;
            let held = match self.enter(partition).await {
                Ok(Entry::Open(held)) => held,
                Ok(Entry::Empty(error)) => {
                    return share
                        .numbers
                        .iter()
                        .for_each(|number| tell(*number, empty(error.clone())));
                }
                Err(error) => {
                    let fail = |number: &usize| tell(*number, Err(error.clone()));
                    return share.numbers.iter().for_each(fail);
                }
            };
            let mut again = Share::default();
            let mut restarted = false;
            let mut answer = |at: usize, outcome: Result<T>| {
                let number = share.numbers[at];
                match outcome {
                    Err(error) if met_another(&error) => {
                        restarted = true;
                        if attempts < MOST_ATTEMPTS {
                            again.push(number, share.items[at]);
                        } else {
                            tell(number, Err(self.named(partition, error)));
                        }
                    }
                    outcome => tell(
                        number,
                        outcome.map_err(|error| self.named(partition, error)),
                    ),
                }
            };
            run(&held.client, &share.items, &mut answer).await;
            if restarted {
                held.give_up();
            }
            share = again;
        }
    }
}
