//! A structure whose owner and client are one thread: its callbacks alone, without a fabric.

use farslot_fabric::OwnerMemory;
use farslot_remote::{Found, LookupVerdict, RemoteStructure, Start};
use farslot_rpc::Fault;
use farslot_testbed::PlainMemory;

/// The check of words at a place, as one forges it who knows how they are judged.
pub fn check_of(place: u64, words: &[u64]) -> u64 {
    let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, place) | 1
}

/// What a lookup's READ tells.
pub fn read<S: RemoteStructure>(
    structure: &S,
    memory: &PlainMemory,
    key: &S::Key,
    cache: &mut S::Cache,
) -> LookupVerdict<S::Item> {
    match structure.lookup_start(key, cache) {
        Start::Call => LookupVerdict::Unknown,
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
    memory: &mut PlainMemory,
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
    memory: &mut PlainMemory,
    key: &S::Key,
    cache: &mut S::Cache,
) -> LookupVerdict<S::Item> {
    let request = structure.lookup_request(key);
    let reply = call(structure, memory, &request).unwrap();
    structure.lookup_end(key, Found::Reply(&reply), cache)
}
