//! The sliding puzzle: tiles on a board with one gap, into which a tile beside it may slide.

use super::bits::{get, set};
use super::size::{SizeError, check_size};
use crate::model::{Model, StateOverflow, Successors};

/// Bits of a cell.
const CELL: u32 = 4;
/// Cells of a board, so that four bits say which tile is on one.
const MOST_CELLS: usize = 16;

/// The sliding puzzle of some rows and columns, from its solved position. Half of all permutations
/// are reachable: 181,440 of the 3 x 3 puzzle, in at most 31 moves.
#[derive(Debug, Clone, Hash)]
pub struct Puzzle {
    rows: usize,
    columns: usize,
}

impl Puzzle {
    /// A board of at most 16 cells.
    ///
    /// # Errors
    /// [`SizeError`].
    pub fn new(rows: usize, columns: usize) -> Result<Self, SizeError> {
        check_size("the number of rows", rows, 1, MOST_CELLS)?;
        check_size("the number of columns", columns, 1, MOST_CELLS)?;
        check_size("the number of cells", rows * columns, 2, MOST_CELLS)?;
        Ok(Self { rows, columns })
    }

    fn cells(&self) -> usize {
        self.rows * self.columns
    }
}

impl Model for Puzzle {
    fn bits(&self) -> usize {
        self.cells() * CELL as usize
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        let mut state = vec![0];
        for cell in 0..self.cells() - 1 {
            set(&mut state, cell * CELL as usize, CELL, cell as u64 + 1);
        }
        vec![state]
    }

    #[inline]
    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        let cells = 0..self.cells();
        let gap = cells
            .clone()
            .find(|cell| get(state, cell * CELL as usize, CELL) == 0);
        let gap = gap.unwrap_or_default();
        let (row, column) = (gap / self.columns, gap % self.columns);
        let neighbours = [
            (row > 0, gap.wrapping_sub(self.columns)),
            (row + 1 < self.rows, gap + self.columns),
            (column > 0, gap.wrapping_sub(1)),
            (column + 1 < self.columns, gap + 1),
        ];
        for (action, (exists, cell)) in neighbours.into_iter().enumerate() {
            if exists {
                let tile = get(state, cell * CELL as usize, CELL);
                let next = out.push(action as u32, state);
                set(next, gap * CELL as usize, CELL, tile);
                set(next, cell * CELL as usize, CELL, 0);
            }
        }
        Ok(())
    }

    fn action(&self, action: u32) -> String {
        [
            "a tile slides down",
            "a tile slides up",
            "a tile slides right",
            "a tile slides left",
        ][action as usize % 4]
            .into()
    }

    fn show(&self, state: &[u64]) -> String {
        let row = |row: usize| {
            let cells = row * self.columns..(row + 1) * self.columns;
            let tiles = cells.map(|cell| get(state, cell * CELL as usize, CELL).to_string());
            tiles.collect::<Vec<_>>().join(" ")
        };
        (0..self.rows).map(row).collect::<Vec<_>>().join(" / ")
    }
}
