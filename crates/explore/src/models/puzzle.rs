//! The sliding puzzle: tiles on a board with one gap, into which a tile beside it may slide.

use super::as_net::{ModelNet, NetBuilder, TokenMoves};
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

    pub(super) fn as_net(&self, name: &str) -> ModelNet {
        let mut net = NetBuilder::default();
        let cells = self.cells();
        let at = |cell: usize| format!("{},{}", cell / self.columns, cell % self.columns);
        let places = (0..cells).map(|cell| {
            // What is on a cell: tile 0 is the gap.
            let on_cell = (0..cells).map(|tile| {
                let is_there = tile == (cell + 1) % cells;
                let id = match tile {
                    0 => format!("gap@{}", at(cell)),
                    _ => format!("{tile}@{}", at(cell)),
                };
                net.place(id, is_there)
            });
            on_cell.collect()
        });
        let places: Vec<Vec<usize>> = places.collect();
        for gap in 0..cells {
            for (_, from) in self.neighbours(gap) {
                for tile in 1..cells {
                    let slides = TokenMoves::default()
                        .and(places[from][tile], places[from][0])
                        .and(places[gap][0], places[gap][tile]);
                    let id = format!("tile {tile} slides from {} to {}", at(from), at(gap));
                    net.transition(id, slides);
                }
            }
        }
        net.build(name, None)
    }

    /// The cells beside one, each with the action by which its tile comes here.
    #[inline]
    fn neighbours(&self, cell: usize) -> impl Iterator<Item = (u32, usize)> {
        let (row, column) = (cell / self.columns, cell % self.columns);
        let neighbours = [
            (0, row > 0, cell.wrapping_sub(self.columns)),
            (1, row + 1 < self.rows, cell + self.columns),
            (2, column > 0, cell.wrapping_sub(1)),
            (3, column + 1 < self.columns, cell + 1),
        ];
        let there = neighbours.into_iter().filter(|(_, exists, _)| *exists);
        there.map(|(action, _, cell)| (action, cell))
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
        for (action, cell) in self.neighbours(gap) {
            let tile = get(state, cell * CELL as usize, CELL);
            let next = out.push(action, state);
            set(next, gap * CELL as usize, CELL, tile);
            set(next, cell * CELL as usize, CELL, 0);
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
