//! A structure whose owner and client are one thread: its callbacks alone, without a fabric.

use farslot_fabric::{FabricError, NodeId, OwnerMemory, RegionId, RemoteAddr, Result};
use farslot_remote::{End, Found, RemoteStructure, Start};
use farslot_rpc::Fault;

/// A region of plain words.
pub struct Plain(pub Vec<u64>);

impl Plain {
    pub fn of(bytes: u64) -> Self {
        Self(vec![0; (bytes / 8) as usize])
    }

    fn first(&self, offset: u64, words: usize) -> Result<usize> {
        let at = RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset,
        };
        if !offset.is_multiple_of(8) {
            return Err(FabricError::Misaligned { at });
        }
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        match first.checked_add(words) {
            Some(end) if end <= self.0.len() => Ok(first),
            _ => Err(FabricError::OutOfBounds {
                at,
                len: words as u64 * 8,
                region_len: self.bytes(),
            }),
        }
    }
}

/// The check of words at a place, as one forges it who knows how they are judged.
pub fn check_of(place: u64, words: &[u64]) -> u64 {
    let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, place) | 1
}

impl OwnerMemory for Plain {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn load(&self, offset: u64) -> Result<u64> {
        Ok(self.0[self.first(offset, 1)?])
    }

    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        let first = self.first(offset, 1)?;
        self.0[first] = value;
        Ok(())
    }

    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let first = self.first(offset, 1)?;
        let seen = self.0[first];
        if seen == expected {
            self.0[first] = new;
        }
        Ok(seen)
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        let first = self.first(offset, into.len())?;
        into.copy_from_slice(&self.0[first..first + into.len()]);
        Ok(())
    }

    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        let first = self.first(offset, words.len())?;
        self.0[first..first + words.len()].copy_from_slice(words);
        Ok(())
    }
}

/// What a lookup's READ tells.
pub fn read<S: RemoteStructure>(
    structure: &S,
    memory: &Plain,
    key: &S::Key,
    cache: &mut S::Cache,
) -> End<S::Item> {
    match structure.lookup_start(key, cache) {
        Start::Call => End::Unknown,
        Start::Read { offset, bytes } => {
            let mut words = vec![0; bytes / 8];
            memory.copy_out(offset, &mut words).unwrap();
            let words = &words;
            structure.lookup_end(key, Found::Read { offset, words }, cache)
        }
    }
}

/// Has the owner answer a request.
pub fn call<S: RemoteStructure>(
    structure: &S,
    memory: &mut Plain,
    request: &[u8],
) -> std::result::Result<Vec<u8>, Fault> {
    let mut reply = vec![0; structure.reply_bytes()];
    let bytes = structure.rpc_handler(request, memory, &mut reply)?;
    reply.truncate(bytes);
    Ok(reply)
}

/// What a lookup's call tells.
pub fn ask<S: RemoteStructure>(
    structure: &S,
    memory: &mut Plain,
    key: &S::Key,
    cache: &mut S::Cache,
) -> End<S::Item> {
    let request = structure.lookup_request(key);
    let reply = call(structure, memory, &request).unwrap();
    structure.lookup_end(key, Found::Reply(&reply), cache)
}
