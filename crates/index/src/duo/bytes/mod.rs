//! What lies where: the bytes of a table and their addresses.
//!
//! This floor knows neither clients nor which key goes where. The only verb it runs is the READ of
//! a header's entries.

mod entries;
mod layout;
mod numbers;
mod options;
mod published;
mod slot;
mod vault;
mod vault_pages;

pub(super) use entries::{Entry, entry_at, read_entries};
pub use layout::DuoLayout;
pub(super) use layout::{
    ENTRY_BYTES, EXTENT_ENTRIES_AT, MOST_EXTENTS, MOVES_AT, NOTE_AT, OWNED_AT, OWNER_AT,
    RESERVE_ALIGNMENT, SEGMENTS, SLOT_HEADER, STASH_SEGMENT, TICKETS_AT,
};
pub use numbers::{MOST_BUCKET_SLOTS, SlotNumber};
pub use options::DuoOptions;
pub(super) use published::{PerPage, bucket_entry, entry_parts, stash_entry};
pub(super) use slot::{hash_in, head_in, is_dead, live_head, second_in};
pub(super) use vault::{BucketRun, MOST_RATIO, VaultMap, check_ratio};
