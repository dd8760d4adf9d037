//! TEA: two neighbouring buckets a key, read in one piece, and a stash in the client's memory.
//!
//! A key's home is a bucket; it is there or in the next one. Where both are full, a random record
//! of theirs makes room and goes to its own home, and so on: a random walk. The client knows
//! nothing of the buckets before it reads them. TEA runs on a switch, which keeps nothing of one
//! packet for the next: so the buckets of each record that is displaced are read, also where they
//! were read before.
//!
//! | operation | round trips | slots read and written |
//! |---|---|---|
//! | lookup | 1 | 2d |
//! | insertion | 2; 2 + the records displaced | 2d + 1; (2d + 1) x (1 + the records displaced) |
//! | update, removal | 2 | 2d + 1 |
//!
//! Different from the published code: a walk is written only once it has ended, in one batch from
//! its end, so that no record is ever in no slot, and a walk that is given up after 1,000 records
//! changes nothing; its key goes to the stash. The last bucket is nobody's home, so that a key's
//! buckets are always one piece.
//!
//! Source: paper 001, section II-B and Table I, and its published code; TEA itself is of SIGCOMM
//! 2020.

use super::board::BucketBoard;
use super::client::BaselineTable;
use super::homes::{BucketWindow, Homes};
use super::layout::{BaselineLayout, BaselineOptions};
use super::placing::RoomPlanner;
use super::slots::Record;
use farslot::fabric::{Endpoint, RemoteAddr};
use farslot::index::Result;
use farslot::index::hash::{derive, scale};
use std::cell::Cell;
use std::rc::Rc;

/// The stash that the published code gives it, in keys.
///
/// With it a table of 3 million slots in buckets of 8 is full at 0.788, and one of 30 million at
/// 0.692, as paper 001 has it (section V-B); with the 8192 keys of the paper's text that were
/// 0.719.
pub const TEA_STASH: u32 = 4096;
/// The most records that a walk displaces, as in the published code.
const LONGEST_WALK: u32 = 1000;

/// TEA's placing.
pub struct Tea {
    /// Buckets that are homes: all but the last.
    homes: u64,
    bucket_slots: u32,
    seed: u64,
    /// Random choices so far.
    drawn: Cell<u64>,
}

/// A TEA table.
pub type TeaTable<E> = BaselineTable<E, Tea>;

impl Tea {
    /// The layout of a table with these options.
    ///
    /// # Errors
    /// [`BadOption`](farslot::index::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(options: &BaselineOptions) -> Result<BaselineLayout> {
        let mut layout = options.layout(1)?;
        layout.buckets = layout.buckets.max(2);
        Ok(layout)
    }
}

impl<E: Endpoint> TeaTable<E> {
    /// Takes the memory at `place`, which must be all zeros, for a new TEA table. [`Tea::layout`]
    /// says how much it takes.
    ///
    /// # Errors
    /// As [`Tea::layout`].
    pub fn create(endpoint: Rc<E>, place: RemoteAddr, options: &BaselineOptions) -> Result<Self> {
        let layout = Tea::layout(options)?;
        let placing = Tea {
            homes: layout.buckets - 1,
            bucket_slots: layout.bucket_slots,
            seed: options.seed,
            drawn: Cell::new(0),
        };
        Ok(Self::new(endpoint, place, layout, placing))
    }
}

impl Tea {
    fn home(&self, hash: u64) -> BucketWindow {
        BucketWindow {
            first: scale(derive(hash, 1), self.homes),
            count: 2,
        }
    }

    /// A number below `range`, each as likely.
    fn draw(&self, range: u32) -> u32 {
        self.drawn.set(self.drawn.get().wrapping_add(1));
        scale(derive(self.seed, self.drawn.get()), range.into()) as u32
    }
}

impl Homes for Tea {
    fn window(&self, hash: u64) -> Option<BucketWindow> {
        Some(self.home(hash))
    }

    fn belongs(&self, hash: u64, bucket: u64) -> bool {
        self.home(hash).buckets().any(|home| home == bucket)
    }

    fn unclean_with(&self, _: u64) -> Option<u64> {
        None
    }

    fn cleaned(&self, _: u64) {}

    fn local_bytes(&self) -> usize {
        0
    }
}

impl RoomPlanner for Tea {
    type Change = ();

    async fn make_room<E: Endpoint>(
        &self,
        board: &mut BucketBoard<'_, E, Self>,
        newcomer: &Rc<Record>,
    ) -> Result<Option<()>> {
        let mut record = Rc::clone(newcomer);
        for displaced in 0..=LONGEST_WALK {
            let home = self.home(record.hash);
            // The newcomer's were read when it was looked for.
            if displaced > 0 {
                board.read_again(home).await?;
            }
            if home.buckets().any(|bucket| board.place(bucket, &record)) {
                return Ok(Some(()));
            }
            let bucket = home.first + u64::from(self.draw(2));
            let slot = self.draw(self.bucket_slots) as usize;
            match board.replace(bucket, slot, record) {
                Some(victim) => record = victim,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    fn apply(&self, (): ()) {}
}
