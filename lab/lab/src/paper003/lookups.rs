//! What figures 4 and 5 measure: lookups of systems, each on several numbers of machines.

use super::common::{MachineRate, rate};
use super::fits::fit;
use super::systems::{DataplaneSystem, Fits, PAPERS_THREADS};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproRow, Result, threads};

/// Lookups of a few systems on a few numbers of machines.
pub(super) struct Lookups<const SYSTEMS: usize> {
    pub(super) fits: Fits,
    systems: [DataplaneSystem; SYSTEMS],
    machines: [u32; 4],
    /// The rates of each number of machines, one after the other.
    rates: Vec<MachineRate>,
}

impl<const SYSTEMS: usize> Lookups<SYSTEMS> {
    /// Measures all; a lookup of FaRM's takes so many READs.
    pub(super) fn measure(
        scale: &Scale,
        systems: [DataplaneSystem; SYSTEMS],
        machines: [u32; 4],
        farm_reads: f64,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let fits = fit()?;
        let rates = threads::in_order(machines.len() * SYSTEMS, |number| {
            let machines = machines[number / SYSTEMS];
            let system = systems[number % SYSTEMS];
            progress(&format!("{}, {machines} machines", system.name()));
            rate(
                scale,
                (system, &fits, farm_reads),
                (machines, PAPERS_THREADS),
            )
        })?;
        Ok(Self {
            fits,
            systems,
            machines,
            rates,
        })
    }

    fn at(&self, machines: usize, system: usize) -> &MachineRate {
        &self.rates[machines * SYSTEMS + system]
    }

    /// The rates of the systems on the most machines.
    pub(super) fn of_most_machines(&self) -> [&MachineRate; SYSTEMS] {
        std::array::from_fn(|system| self.at(self.machines.len() - 1, system))
    }

    /// All rates, as rows.
    pub(super) fn rows(&self) -> Vec<ReproRow> {
        let of = |(number, machines): (usize, &u32)| {
            let row = |(column, system): (usize, &DataplaneSystem)| {
                let name = system.name();
                let cell = format!("M lookups/s of a machine, {name}, {machines} machines");
                self.at(number, column).row(cell, system.basis())
            };
            let systems = self.systems.iter().enumerate();
            systems.map(row).collect::<Vec<_>>()
        };
        self.machines.iter().enumerate().flat_map(of).collect()
    }

    /// All rates, a line for each system.
    pub(super) fn plot(&self) -> Plot {
        let line = |(column, system): (usize, &DataplaneSystem)| {
            let points = self.machines.iter().enumerate();
            let points = points.map(|(number, machines)| {
                (f64::from(*machines), self.at(number, column).measured.rate)
            });
            Line::ours(system.name(), points.collect())
        };
        Plot {
            title: "Lookups by machines".into(),
            x: Axis::linear("machines"),
            y: Axis::linear("M lookups/s of a machine"),
            lines: self.systems.iter().enumerate().map(line).collect(),
        }
    }
}
