//! What a client keeps of a sealed table: once it has been built, all that it will ever need.

use super::layout::{BUILT_AT, SUMMARY_AT, SealedForm, SealedLayout};
use super::perfect::Function;
use super::read_size::read_size;
use super::slots::{InlineFormat, place};
use crate::read_policy::ReadPolicy;
use crate::{IndexError, Occupancy, Result, UPKEEP};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, window};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Bytes of a READ of a perfect hash function, and READs under way at once.
const PIECE: u64 = 64 << 10;
const WIDTH: usize = 16;

/// What a client keeps.
pub(super) struct Client<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: SealedLayout,
    pub(super) table: RemoteAddr,
    policy: ReadPolicy,
    built: Cell<Option<Built>>,
    /// Of a table with one slot for each key, once it is known to be built.
    function: OnceCell<Function>,
}

/// What a builder has left in the header, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub(super) records: u64,
    /// Of inline slots.
    pub(super) mask: u64,
    /// Bytes of heap in use.
    pub(super) heap_used: u64,
    /// Slots that a READ fetches.
    read_size: u64,
}

/// A key, checked and hashed.
pub(crate) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
    pub(super) home: u64,
    /// The bits below those of the home.
    pub(super) signature: u8,
}

impl<E: Endpoint> Client<E> {
    /// Opens the table that lies at `table`.
    pub(super) async fn open(
        endpoint: Rc<E>,
        table: RemoteAddr,
        layout: SealedLayout,
        policy: ReadPolicy,
    ) -> Result<Self> {
        layout.check()?;
        // A policy that the model refuses is refused now, not when the table has been built.
        read_size(&layout, 0, policy)?;
        let opened = Self {
            endpoint,
            layout,
            table,
            policy,
            built: Cell::new(None),
            function: OnceCell::new(),
        };
        opened.learn().await?;
        Ok(opened)
    }

    /// Whether this client knows that the table has been built.
    pub(super) fn is_built(&self) -> bool {
        self.built.get().is_some()
    }

    /// Slots that one READ fetches; 0 as long as the table is not known to be built.
    pub(super) fn read_size(&self) -> u64 {
        self.built.get().map_or(0, |built| built.read_size)
    }

    /// What the builder has left.
    #[inline]
    pub(super) async fn built(&self) -> Result<Built> {
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        self.learn().await?.ok_or(IndexError::NotBuilt)
    }

    /// What is known of what the builder has left.
    #[inline]
    pub(super) fn known_build(&self) -> Option<Built> {
        self.built.get()
    }

    /// The perfect hash function, once the table is known to be built.
    #[inline(always)]
    pub(super) fn function(&self) -> Option<&Function> {
        self.function.get()
    }

    /// Bytes of memory that it takes.
    pub(super) fn client_bytes(&self) -> u64 {
        self.function().map_or(0, Function::client_bytes)
    }

    /// Asks whether the table has been built, and what the builder has left.
    pub(super) async fn learn(&self) -> Result<Option<Built>> {
        self.endpoint.operation(UPKEEP, self.read_header()).await
    }

    async fn read_header(&self) -> Result<Option<Built>> {
        let built = self.endpoint.read(self.table.plus(BUILT_AT), 8).await?;
        if built.words()[0] == 0 {
            return Ok(None);
        }
        // A READ of its own: in the one above, these words could be older than that one.
        let summary = self.endpoint.read(self.table.plus(SUMMARY_AT), 24).await?;
        let [records, mask, heap_used] = [0, 1, 2].map(|word| summary.words()[word]);
        let function = self.read_function().await?;
        let built = self.has_been_built(records, mask, heap_used, function)?;
        Ok(Some(built))
    }

    /// Fetches the perfect hash function of a table with one slot for each key.
    async fn read_function(&self) -> Result<Option<Function>> {
        let Some(shape) = &self.layout.perfect else {
            return Ok(None);
        };
        let (at, len) = (self.layout.function_at(self.table), shape.bytes());
        // So no more is allocated than the node has.
        self.endpoint.read(at.plus(len - 8), 8).await?;
        let bytes = RefCell::new(vec![0; len as usize]);
        let pieces = (0..len).step_by(PIECE as usize).map(async |from| {
            let piece = PIECE.min(len - from) as usize;
            let read = self.endpoint.read(at.plus(from), piece).await?;
            bytes.borrow_mut()[from as usize..][..piece].copy_from_slice(&read);
            Ok::<_, IndexError>(())
        });
        let mut failure = None;
        window(WIDTH, pieces, |_, read| {
            if let Err(error) = read {
                failure.get_or_insert(error);
            }
        })
        .await;
        match failure {
            Some(error) => Err(error),
            None => Function::decode(shape, self.layout.slots, bytes.into_inner()).map(Some),
        }
    }

    /// Notes what the table is from now on.
    pub(super) fn has_been_built(
        &self,
        records: u64,
        mask: u64,
        heap_used: u64,
        function: Option<Function>,
    ) -> Result<Built> {
        // What the header cannot say was not written by a builder of this table.
        let records = records.min(self.layout.slots);
        let built = Built {
            records,
            mask,
            heap_used: heap_used.min(self.layout.heap_bytes),
            read_size: read_size(&self.layout, records, self.policy)?,
        };
        if let Some(function) = function {
            // Another operation may have fetched it meanwhile: the same.
            let _ = self.function.set(function);
        }
        self.built.set(Some(built));
        Ok(built)
    }

    #[inline]
    pub(super) fn checked_key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        let hash = self.layout.hasher.hash(bytes);
        let (home, signature) = place(hash, self.layout.homes);
        Ok(Key {
            bytes,
            hash,
            home,
            signature,
        })
    }

    /// A key of a table with one slot for each, checked only.
    #[inline]
    pub(super) fn unhashed_key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        Ok(Key {
            bytes,
            hash: 0,
            home: 0,
            signature: 0,
        })
    }

    #[inline]
    pub(super) fn inline_format(&self, mask: u64) -> InlineFormat {
        InlineFormat {
            key: self.layout.key.most(),
            slot: self.layout.slot_bytes(),
            mask,
        }
    }

    /// How many slots the READ at a distance from a home fetches; 0 at the table's end. All lookups
    /// ask here and nowhere else.
    #[inline]
    pub(super) fn slots_to_read(&self, built: &Built, home: u64, distance: u64) -> u64 {
        let left = self.layout.slots.saturating_sub(home + distance);
        built.read_size.min(left)
    }

    /// Reads the slots at a distance from a home; nothing at the table's end.
    #[inline]
    pub(super) async fn read_chunk(
        &self,
        built: &Built,
        home: u64,
        distance: u64,
    ) -> Result<Option<Buffer>> {
        let slots = self.slots_to_read(built, home, distance);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.layout.slot_at(self.table, home + distance);
        let bytes = slots as usize * self.layout.slot_bytes();
        Ok(Some(self.endpoint.read(from, bytes).await?))
    }

    pub(super) async fn read_occupancy(&self) -> Result<Occupancy> {
        let built = self.built().await?;
        Ok(Occupancy {
            entries: built.records,
            used_slots: built.records,
            slots: self.layout.slots,
            heap_used: match self.layout.form {
                SealedForm::Inline => 0,
                SealedForm::OutOfBand => built.heap_used,
            },
            heap_dead: 0,
            heap_bytes: self.layout.heap_bytes,
            evicted: 0,
        })
    }
}
