//! MapEmbed: small cells in the client's memory say which one bucket a key is in.
//!
//! A key has a cell in each of three layers, and is where the first of them says that is not given
//! up. A cell's 4 bits are a number that is added to each of its keys' own, modulo 16: so they
//! choose for every key one of the cell's 16 buckets. Where that bucket is full, the cell's other
//! numbers are tried: all of its keys change buckets then. If no number has room for all of them,
//! the cell is given up (15), and its keys go by their cells of the next layer.
//!
//! ```text
//! local    layer 0: 9/2 cells a bucket | layer 1: 3/2 | layer 2: 1/2 |        4 bits each
//! remote   16 pages of m/16 buckets of d slots; a cell has one bucket in each page
//! cell     c of layer l = hash l of the key modulo the layer's cells
//! bucket   g x m/16 + hash of (c, l, g) modulo m/16,
//!          where g = (hash of the key + the cell's number) modulo 16
//! ```
//!
//! | operation | round trips | slots read and written |
//! |---|---|---|
//! | lookup | 1 | d |
//! | insertion | 2; more where cells change | d + 1; 16 d and more where cells change |
//! | update, removal | 2 | d + 1 |
//!
//! **Growth** is by two, into other memory ([`MapEmbedTable::grow`](BaselineTable::grow)): bucket i
//! of a page of n becomes buckets i and i + n of a page of 2n, and the cells stay as they are.
//!
//! Different from the published code: an insertion is planned whole before anything is written, so
//! that one that fails changes nothing and loses no key; and of two copies that growth makes, the
//! one that is not the key's is never taken for it later, whatever the cells become.
//!
//! Source: MapEmbed (KDD 2021) as paper 001, sections II-B and III-D, describes it, and the code
//! published with paper 001, from which the layers' sizes and the order of trials are.

use super::board::BucketBoard;
use super::client::BaselineTable;
use super::homes::{BucketWindow, Homes};
use super::layout::{BaselineLayout, BaselineOptions};
use super::placing::RoomPlanner;
use super::slots::Record;
use farslot::fabric::{Endpoint, RemoteAddr};
use farslot::index::Result;
use farslot::index::hash::{derive, scale};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Buckets of a cell: one in each page.
pub(super) const PAGES: u64 = 16;
/// The number of a cell that was given up.
const GIVEN_UP: u8 = 15;
/// Cells of each layer for two buckets.
const CELLS_FOR_TWO_BUCKETS: [u64; 3] = [9, 3, 1];

/// MapEmbed's placing.
pub struct MapEmbed {
    /// The first cell of each layer, and the end of the last one's.
    layers: [u64; 4],
    /// Two to a byte.
    cells: RefCell<Vec<u8>>,
    /// Buckets of a page.
    pub(super) page: Cell<u64>,
    /// For each bucket of the pages before the last growth, whether its two copies are still to be
    /// cleaned.
    pub(super) unclean: RefCell<Vec<bool>>,
    adjusted: Cell<u64>,
    given_up: Cell<u64>,
}

/// A MapEmbed table.
pub type MapEmbedTable<E> = BaselineTable<E, MapEmbed>;

/// Where the cells send a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CellHome {
    cell: u64,
    bucket: u64,
}

/// Cells with other numbers than they have.
type Numbers = HashMap<u64, u8>;

impl<E: Endpoint> MapEmbedTable<E> {
    /// Takes the memory at `place`, which must be all zeros, for a new MapEmbed table.
    /// [`MapEmbed::layout`] says how much it takes.
    ///
    /// # Errors
    /// As [`MapEmbed::layout`].
    pub fn create(endpoint: Rc<E>, place: RemoteAddr, options: &BaselineOptions) -> Result<Self> {
        let layout = MapEmbed::layout(options)?;
        let placing = MapEmbed::new(layout.buckets);
        Ok(Self::new(endpoint, place, layout, placing))
    }
}

impl MapEmbed {
    /// The layout of a table with these options.
    ///
    /// # Errors
    /// [`BadOption`](farslot::index::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(options: &BaselineOptions) -> Result<BaselineLayout> {
        options.layout(PAGES)
    }

    fn new(buckets: u64) -> Self {
        let mut layers = [0; 4];
        for (layer, cells) in CELLS_FOR_TWO_BUCKETS.into_iter().enumerate() {
            layers[layer + 1] = layers[layer] + buckets * cells / 2;
        }
        Self {
            layers,
            cells: RefCell::new(vec![0; layers[3].div_ceil(2) as usize]),
            page: Cell::new(buckets / PAGES),
            unclean: RefCell::default(),
            adjusted: Cell::new(0),
            given_up: Cell::new(0),
        }
    }

    /// How often a cell has got another number for which there was room.
    #[must_use]
    pub const fn adjusted(&self) -> u64 {
        self.adjusted.get()
    }

    /// Cells that were given up.
    #[must_use]
    pub const fn given_up(&self) -> u64 {
        self.given_up.get()
    }

    fn number(&self, cell: u64) -> u8 {
        self.cells.borrow()[(cell / 2) as usize] >> (cell % 2 * 4) & 15
    }

    fn set_number(&self, cell: u64, number: u8) {
        let byte = &mut self.cells.borrow_mut()[(cell / 2) as usize];
        let shift = cell % 2 * 4;
        *byte = *byte & !(15 << shift) | number << shift;
    }

    /// Where a key goes, with some cells' numbers changed; nowhere if all its cells are given up.
    fn home(&self, hash: u64, changed: &Numbers) -> Option<CellHome> {
        (0..3).find_map(|layer| {
            let cells = self.layers[layer + 1] - self.layers[layer];
            let cell = self.layers[layer] + scale(derive(hash, layer as u64), cells);
            let number = changed.get(&cell).copied();
            let number = number.unwrap_or_else(|| self.number(cell));
            (number != GIVEN_UP).then(|| CellHome {
                cell,
                bucket: self.bucket(cell, guide(hash, number)),
            })
        })
    }

    /// A cell's bucket in one of the pages.
    fn bucket(&self, cell: u64, page: u64) -> u64 {
        page * self.page.get() + derive(cell, PAGES + page) % self.page.get()
    }

    /// The next number of a cell for which all of these records find room in its buckets.
    fn number_with_room(&self, from: u8, family: &[Rc<Record>], free: &[usize]) -> Option<u8> {
        (from + 1..GIVEN_UP).find(|number| {
            let mut needed = [0; PAGES as usize];
            for record in family {
                needed[guide(record.hash, *number) as usize] += 1;
            }
            needed.iter().zip(free).all(|(needed, free)| needed <= free)
        })
    }

    /// The bucket that has the other copy of what was in this one before the last growth, and the
    /// number of both in [`MapEmbed::unclean`].
    fn twin(&self, bucket: u64) -> (u64, usize) {
        let (page, half) = (self.page.get(), self.page.get() / 2);
        let (number, at) = (bucket / page, bucket % page);
        let other = if at < half {
            bucket + half
        } else {
            bucket - half
        };
        (other, (number * half + at % half) as usize)
    }
}

/// What growth asks.
impl MapEmbed {
    /// Whether this bucket is still to be cleaned.
    pub(super) fn is_unclean(&self, bucket: u64) -> bool {
        self.unclean_with(bucket).is_some()
    }

    /// Whether a key that is in this page goes to the upper half of it when the page doubles.
    pub(super) fn goes_to_upper_half(&self, hash: u64, page: u64) -> bool {
        let home = self.home(hash, &Numbers::new());
        let cell = home.map_or(0, |home| home.cell);
        derive(cell, PAGES + page) % (2 * self.page.get()) >= self.page.get()
    }
}

/// The page of a key, for a number of its cell.
fn guide(hash: u64, number: u8) -> u64 {
    (derive(hash, 3) + u64::from(number)) % PAGES
}

impl Homes for MapEmbed {
    fn window(&self, hash: u64) -> Option<BucketWindow> {
        let home = self.home(hash, &Numbers::new());
        home.map(|home| BucketWindow::of(home.bucket))
    }

    fn belongs(&self, hash: u64, bucket: u64) -> bool {
        let home = self.home(hash, &Numbers::new());
        home.is_some_and(|home| home.bucket == bucket)
    }

    fn unclean_with(&self, bucket: u64) -> Option<u64> {
        if self.unclean.borrow().is_empty() {
            return None;
        }
        let (other, pair) = self.twin(bucket);
        self.unclean.borrow()[pair].then_some(other)
    }

    fn cleaned(&self, bucket: u64) {
        let mut unclean = self.unclean.borrow_mut();
        if !unclean.is_empty() {
            unclean[self.twin(bucket).1] = false;
        }
    }

    fn local_bytes(&self) -> usize {
        self.cells.borrow().len() + self.unclean.borrow().len().div_ceil(8)
    }
}

impl RoomPlanner for MapEmbed {
    type Change = Numbers;

    async fn make_room<E: Endpoint>(
        &self,
        board: &mut BucketBoard<'_, E, Self>,
        newcomer: &Rc<Record>,
    ) -> Result<Option<Numbers>> {
        let mut numbers = Numbers::new();
        let mut homeless = vec![Rc::clone(newcomer)];
        while let Some(record) = homeless.pop() {
            let Some(home) = self.home(record.hash, &numbers) else {
                return Ok(None);
            };
            board.read(&[home.bucket]).await?;
            if board.place(home.bucket, &record) {
                continue;
            }
            let buckets: Vec<u64> = (0..PAGES)
                .map(|page| self.bucket(home.cell, page))
                .collect();
            board.read(&buckets).await?;
            let mut family = vec![record];
            for bucket in &buckets {
                let here = CellHome {
                    bucket: *bucket,
                    ..home
                };
                let is_of_it = |other: &Record| self.home(other.hash, &numbers) == Some(here);
                family.extend(board.take(*bucket, is_of_it));
            }
            let free: Vec<usize> = buckets.iter().map(|bucket| board.free(*bucket)).collect();
            let from = numbers.get(&home.cell).copied();
            let from = from.unwrap_or_else(|| self.number(home.cell));
            match self.number_with_room(from, &family, &free) {
                Some(number) => {
                    numbers.insert(home.cell, number);
                    for record in &family {
                        let bucket = buckets[guide(record.hash, number) as usize];
                        let placed = board.place(bucket, record);
                        debug_assert!(placed, "there was room for all");
                    }
                }
                None => {
                    numbers.insert(home.cell, GIVEN_UP);
                    homeless.extend(family);
                }
            }
        }
        Ok(Some(numbers))
    }

    fn apply(&self, change: Numbers) {
        for (cell, number) in change {
            self.set_number(cell, number);
            let count = match number {
                GIVEN_UP => &self.given_up,
                _ => &self.adjusted,
            };
            count.set(count.get() + 1);
        }
    }
}
