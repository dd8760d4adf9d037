//! Read sizes looked up by load factor, for a client that must choose one on every lookup.

use crate::drops::DropExtent;
use crate::probe::Builder;
use crate::{ModelError, ReadSizeModel, TableLoad, Workload};

/// The grid: the share of empty slots, u = 1 - load, in 32 equal cells per factor of two: the
/// float's exponent and the top bits of its mantissa. Cells are at most 1/64 of load wide up to
/// load 0.5, 1/128 up to 0.75, 1/256 up to 0.875 and so on: as fine as the best read size needs,
/// about 1 / u^2.
const CELL_BITS: u32 = 5;
/// u from 1 down to 2^-8: the last cell ends at load 0.9961, and stands for fuller tables too.
const OCTAVES: usize = 8;
pub(crate) const CELLS: usize = OCTAVES << CELL_BITS;

/// The best read size for every load factor, precomputed: [`ReadSizeTable::read_size`] is a few
/// instructions and one load from 1 KiB.
///
/// A load factor is rounded to the middle of a cell of a grid that gets finer toward 1. The cost is
/// so flat about its optimum that this loses less than 0.1 % of it; ask [`ReadSizeModel::choose`]
/// for an exact answer.
#[derive(Debug, Clone)]
pub struct ReadSizeTable {
    read_sizes: Box<[u32]>,
}

impl ReadSizeTable {
    /// Evaluates `model` over the whole grid, for a table of `capacity` slots and lookups as
    /// `workload`.
    ///
    /// Takes 10 to 40 ms with READs of up to 16 KiB in release builds: do it when a table is
    /// opened. Small capacities have shorter clusters, and so smaller reads, than large ones; above
    /// about 2^20 slots, capacity makes no difference below load 0.98.
    ///
    /// # Errors
    /// [`ModelError::NoSlots`] or [`ModelError::TooManySlots`] for a bad `capacity`.
    pub fn new(
        model: &ReadSizeModel,
        capacity: u64,
        workload: Workload,
    ) -> Result<Self, ModelError> {
        let mut builder = Builder::to_extent(extent(1));
        let mut read_sizes = Vec::with_capacity(CELLS);
        let largest = u32::try_from(model.max_read_slots()).unwrap_or(u32::MAX);
        let mut last = None;
        for cell in 0..CELLS {
            let table = cell_table(cell, capacity)?;
            // A small table has fewer fills than the grid has cells; and the best read size grows
            // with the load, so once at its limit it stays there.
            let read_size = match last {
                Some((same, read_size)) if same == table || read_size == largest => read_size,
                _ => {
                    builder.set_extent(extent(last.map_or(1, |(_, read_size)| read_size)));
                    let distances = builder.lookup(table, workload)?;
                    model.choose(&distances).read_size as u32
                }
            };
            last = Some((table, read_size));
            read_sizes.push(read_size);
        }
        Ok(Self {
            read_sizes: read_sizes.into_boxed_slice(),
        })
    }

    /// The read size for a table filled to `load`, in slots.
    ///
    /// A load below 0 counts as 0, one above the grid's end (0.9961) as the end, and so does a NaN.
    pub fn read_size(&self, load: f64) -> usize {
        self.read_sizes[cell_of(load)] as usize
    }
}

/// Enough of a distribution to choose a read size that is a little above the last cell's.
///
/// The mass of longer distances is kept as a tail with the right mean, and that is all that the
/// number of READs depends on where they are short against it.
pub(crate) fn extent(last_read_size: u32) -> DropExtent {
    DropExtent {
        max_len: (last_read_size as usize * 4).clamp(1 << 11, 1 << 16),
        negligible: 1e-9,
    }
}

pub(crate) fn cell_of(load: f64) -> usize {
    // `max` takes a NaN to the other operand, and so to the last cell.
    let empty = (1.0 - load).max(0.0).clamp(f64::MIN_POSITIVE, 1.0);
    let below_one = 1f64.to_bits() - empty.to_bits();
    let cell = (below_one >> (f64::MANTISSA_DIGITS - 1 - CELL_BITS)) as usize;
    cell.min(CELLS - 1)
}

/// The middle of a cell.
pub(crate) fn cell_load(cell: usize) -> f64 {
    let shift = f64::MANTISSA_DIGITS - 1 - CELL_BITS;
    let half = 1u64 << (shift - 1);
    1.0 - f64::from_bits(1f64.to_bits() - ((cell as u64) << shift) - half)
}

pub(crate) fn cell_table(cell: usize, capacity: u64) -> Result<TableLoad, ModelError> {
    let table = TableLoad::from_load(capacity, cell_load(cell))?;
    // A hit needs a key, also in the cell of the empty table.
    TableLoad::new(capacity, table.occupied().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HitPolicy, NicModel, Objective, ProbeDistribution};

    const LARGE: u64 = 1 << 27;

    fn model(objective: Objective) -> ReadSizeModel {
        ReadSizeModel::new(8, objective, NicModel::connectx5_edr())
            .and_then(|model| model.with_max_read_bytes(16 << 10))
            .unwrap()
    }

    #[test]
    fn cells_cover_all_loads_in_order() {
        for cell in 0..CELLS {
            assert_eq!(cell_of(cell_load(cell)), cell);
        }
        assert_eq!(cell_of(0.0), 0);
        assert_eq!(cell_of(-3.0), 0);
        for full in [1.0, 7.0, f64::NAN, f64::INFINITY] {
            assert_eq!(cell_of(full), CELLS - 1);
        }
        let width = |load: f64| cell_load(cell_of(load) + 1) - cell_load(cell_of(load));
        assert!(
            width(0.1) <= 1.0 / 64.0 && width(0.6) <= 1.0 / 128.0 && width(0.95) < 1.0 / 1000.0
        );
    }

    #[test]
    fn rounding_the_load_costs_next_to_nothing() {
        let workloads = [
            Workload::misses(),
            Workload::hits(HitPolicy::StopAtMatch),
            Workload::new(0.7, HitPolicy::AllMatches).unwrap(),
        ];
        for objective in [Objective::Latency, Objective::Throughput] {
            for workload in workloads {
                check_loss(&model(objective), workload);
            }
        }
    }

    fn check_loss(model: &ReadSizeModel, workload: Workload) {
        let table = ReadSizeTable::new(model, LARGE, workload).unwrap();
        for load in [
            0.01, 0.1, 0.24, 0.49, 0.5, 0.65, 0.79, 0.9, 0.95, 0.97, 0.985, 0.995,
        ] {
            let fill = TableLoad::from_load(LARGE, load).unwrap();
            let distances = ProbeDistribution::lookup(fill, workload).unwrap();
            let best = model.choose(&distances);
            let rounded = model.cost(&distances, table.read_size(load));
            let loss = rounded.cost_ns / best.cost_ns - 1.0;
            assert!(loss < 1e-3, "{workload:?} at {load}: {best:?}, {rounded:?}");
        }
    }

    #[test]
    fn the_largest_read_is_respected() {
        let table = ReadSizeTable::new(&model(Objective::Latency), LARGE, Workload::misses());
        let table = table.unwrap();
        assert!(table.read_size(0.0) <= 2);
        assert_eq!(table.read_size(1.0), 2048);
        let sizes: Vec<_> = (0..1000)
            .map(|i| table.read_size(f64::from(i) / 1000.0))
            .collect();
        assert!(sizes.is_sorted());
    }

    #[test]
    fn tiny_tables_have_a_read_size() {
        for capacity in 1..20 {
            for policy in [HitPolicy::AllMatches, HitPolicy::StopAtMatch] {
                let workload = Workload::new(0.5, policy).unwrap();
                let table = ReadSizeTable::new(&model(Objective::Latency), capacity, workload);
                let size = table.unwrap().read_size(0.5);
                assert!((1..=capacity as usize).contains(&size));
            }
        }
        assert!(ReadSizeTable::new(&model(Objective::Latency), 0, Workload::misses()).is_err());
    }
}
