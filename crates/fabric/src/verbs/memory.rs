//! An endpoint's memory that its NIC uses: slabs of buffers, and the words that atomics return.

use super::resource::{MemoryRegion, ProtectionDomain, access_flags};
use crate::buffer::{Registrar, Slab};
use crate::memory::Mapping;
use crate::words::SharedWords;
use crate::{FabricError, Result, Rights};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Registers slabs in one domain.
pub(super) struct Slabs(pub(super) Arc<ProtectionDomain>);

impl Registrar for Slabs {
    fn register(&self, bytes: usize) -> Result<Slab> {
        let memory = Registered::new(&self.0, bytes)?;
        let (start, key) = (memory.start(), memory.region.local_key());
        // SAFETY: the mapping has at least so many bytes, zeroed, from the start of a page on;
        // nobody else has it, and it is unmapped with its owner.
        Ok(unsafe { Slab::new(start, key, Box::new(memory)) })
    }
}

/// Pages of this process that are registered with a NIC.
struct Registered {
    // In this order: unregistered, then unmapped.
    region: MemoryRegion,
    memory: Mapping,
}

impl Registered {
    fn new(domain: &Arc<ProtectionDomain>, bytes: usize) -> Result<Self> {
        let memory = Mapping::anonymous(bytes as u64)?;
        let start = NonNull::from(memory.words()).cast();
        // SAFETY: the mapping outlives the region, and is used only as the fields' users say.
        let region = unsafe { MemoryRegion::local(domain, start, bytes) }?;
        Ok(Self { region, memory })
    }

    fn start(&self) -> NonNull<u64> {
        NonNull::from(self.memory.words()).cast()
    }

    fn address(&self) -> u64 {
        self.start().as_ptr().expose_provenance() as u64
    }
}

/// Where the NIC of a peer writes what this side then looks at.
pub(super) struct Inlet {
    memory: Registered,
}

impl Inlet {
    pub(super) fn new(domain: &Arc<ProtectionDomain>, bytes: usize) -> Result<Self> {
        let memory = Mapping::anonymous(bytes as u64)?;
        let start = NonNull::from(memory.words()).cast();
        // SAFETY: the mapping outlives the region. It is reached as atomics alone (`words`).
        let region =
            unsafe { MemoryRegion::register(domain, start, bytes, access_flags(Rights::WRITE)) }?;
        let memory = Registered { region, memory };
        Ok(Self { memory })
    }

    /// What is there; the peer may write meanwhile.
    pub(super) fn words(&self) -> SharedWords<'_> {
        SharedWords::new(self.memory.memory.words())
    }

    /// Where it is, for the peer.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// The peer's key to it.
    pub(super) fn key(&self) -> u32 {
        self.memory.region.remote_key()
    }
}

/// What this side's NIC writes from and nobody else uses.
pub(super) struct Outlet {
    memory: Registered,
    bytes: usize,
}

impl Outlet {
    pub(super) fn new(domain: &Arc<ProtectionDomain>, bytes: usize) -> Result<Self> {
        let memory = Mapping::anonymous(bytes as u64)?;
        let start = NonNull::from(memory.words()).cast();
        // SAFETY: the mapping outlives the region. Without any access the NIC never writes there.
        let region = unsafe { MemoryRegion::register(domain, start, bytes, 0) }?;
        let memory = Registered { region, memory };
        Ok(Self { memory, bytes })
    }

    /// So many words from byte `at` on, a multiple of 8. What they hold is unspecified.
    ///
    /// # Panics
    /// Past the end.
    pub(super) fn words_mut(&mut self, at: usize, words: usize) -> &mut [u64] {
        let end = at.checked_add(words * 8);
        assert!(at.is_multiple_of(8) && end.is_some_and(|end| end <= self.bytes));
        // SAFETY: they are within the mapping, aligned and initialised, zeroed at first. This
        // struct owns it, is borrowed mutably, and nothing else makes references to it. The NIC may
        // read them for a request that is on its way, and does not write.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().byte_add(at).as_ptr(), words) }
    }

    /// Where byte `at` is, for the NIC, and the key to it.
    pub(super) fn place(&self, at: usize) -> (u64, u32) {
        (
            self.memory.address() + at as u64,
            self.memory.region.local_key(),
        )
    }
}

/// A word for each atomic on its way, where the NIC leaves what it found.
pub(super) struct FoundWords {
    memory: Registered,
    count: usize,
    free: RefCell<Vec<u32>>,
}

impl FoundWords {
    pub(super) fn new(domain: &Arc<ProtectionDomain>, count: usize) -> Result<Self> {
        Ok(Self {
            memory: Registered::new(domain, count * 8)?,
            count,
            free: RefCell::new((0..count as u32).rev().collect()),
        })
    }

    /// A word that nobody uses: its number, its address and the key to it.
    ///
    /// # Errors
    /// [`FabricError::BuffersExhausted`]; never while no more verbs are on their way than there are
    /// words.
    pub(super) fn take(&self) -> Result<(u32, u64, u32)> {
        let number = self.free.borrow_mut().pop();
        let number = number.ok_or_else(|| FabricError::BuffersExhausted {
            requested: 8,
            budget: self.count * 8,
        })?;
        let address = self.memory.address();
        let key = self.memory.region.local_key();
        Ok((number, address + u64::from(number) * 8, key))
    }

    /// Gives a word back that the NIC does not use any more; returns what it left there.
    pub(super) fn give_back(&self, number: u32) -> u64 {
        self.free.borrow_mut().push(number);
        self.memory.memory.words()[number as usize].load(std::sync::atomic::Ordering::Relaxed)
    }
}
