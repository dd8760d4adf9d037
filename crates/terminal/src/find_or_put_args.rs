//! The options of a measurement of find-or-puts.

use crate::number;
use farslot_bench::find_or_put::{Mix, Options};

/// What all processes are told alike.
#[derive(clap::Args, Debug)]
pub struct WorkArgs {
    /// Mixes of found and inserted elements
    #[arg(
        long,
        value_name = "FOUND/NEW,..",
        value_delimiter = ',',
        default_value = "50/50,80/20,20/80"
    )]
    mix: Vec<Mix>,
    /// Load factors that the table has reached at the end of a measurement, rising
    #[arg(long, value_name = "FRACTION,..", value_delimiter = ',', default_values_t = Options::default().loads)]
    load: Vec<f64>,
    /// Slots of each table [default: 2^22; 2^18 over tcp, 2^16 in sim]
    #[arg(long, value_name = "N", value_parser = number::count)]
    slots: Option<u64>,
    /// Repetitions, of which the median counts
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = Options::default().repetitions)]
    repetitions: usize,
    /// What the elements derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl WorkArgs {
    /// The measurement that they ask for, of so many slots if they do not say.
    pub fn options(&self, slots: u64) -> Options {
        Options {
            mixes: self.mix.clone(),
            loads: self.load.clone(),
            slots: self.slots.unwrap_or(slots),
            repetitions: self.repetitions,
            seed: self.seed,
        }
    }
}
