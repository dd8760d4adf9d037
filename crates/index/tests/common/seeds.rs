//! Judging many seeds of each slot kind, any of which a command runs again: `FARSLOT_SEED=<n>
//! FARSLOT_SLOT=<slot>` is one run, and `FARSLOT_SEEDS=<count>` decides how many there are of each
//! slot kind.

use super::Slot;
use super::chaos::Tally;
use std::panic::{catch_unwind, resume_unwind};

fn env<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let parsed = value.parse().ok();
    Some(parsed.unwrap_or_else(|| panic!("{name}={value} is not usable")))
}

/// The runs of a test.
pub struct Runs {
    /// Its module, as `module_path!` names it: the test binary, then the module in it.
    pub module: &'static str,
    pub slots: &'static [Slot],
    /// How many of each slot kind, unless the environment says otherwise.
    pub seeds: u64,
    /// Runs a seed; panics if the run is not as it should be.
    pub run: fn(Slot, u64) -> Tally,
}

impl Runs {
    fn judge(&self, slot: Slot, seed: u64) -> Tally {
        catch_unwind(|| (self.run)(slot, seed)).unwrap_or_else(|panic| {
            let (test, module) = self.module.split_once("::").unwrap_or((self.module, ""));
            eprintln!(
                "seed {seed} of slot kind {slot} failed; this replays it:\n\
                 FARSLOT_SEED={seed} FARSLOT_SLOT={slot} cargo test -p farslot-index \
                 --test {test} {module}:: -- --nocapture",
                slot = slot.name,
            );
            resume_unwind(panic)
        })
    }

    /// Judges the seeds of a slot kind that the environment asks for, by default all. If it was
    /// all, or more, `worth_it` sees whether they were worth it.
    pub fn judge_all(&self, slot: Slot, worth_it: impl FnOnce(&Tally)) {
        if let Some(only) = env::<String>("FARSLOT_SLOT") {
            let known: Vec<_> = self.slots.iter().map(|slot| slot.name).collect();
            assert!(known.contains(&&*only), "FARSLOT_SLOT is one of {known:?}");
            if only != slot.name {
                return;
            }
        }
        if let Some(seed) = env("FARSLOT_SEED") {
            println!("{} {seed}: {:?}", slot.name, self.judge(slot, seed));
            return;
        }
        let mut total = Tally::default();
        for seed in 0..env("FARSLOT_SEEDS").unwrap_or(self.seeds) {
            total += self.judge(slot, seed);
        }
        println!("{}: {total:?}", slot.name);
        if total.runs >= self.seeds {
            worth_it(&total);
        }
    }

    /// Judges some seeds twice. Else the command that a failure prints would not replay it.
    pub fn are_repeatable(&self, seeds: u64) {
        for slot in self.slots {
            for seed in 0..seeds {
                let [first, second] = [(); 2].map(|()| self.judge(*slot, seed));
                assert_eq!(first, second, "{} {seed}", slot.name);
            }
        }
    }
}
