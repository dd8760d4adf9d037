//! What is asked of a queue, and what it answers.
//!
//! ```text
//! request  | 0 | place, 64 bits | most items, 32 bits |   tells items from a place on
//!          | 1 | item | item | ...                        adds these, all or none
//!          | 2 | most items, 32 bits |                    takes the first
//!          | 3 |                                          tells how many there are
//! reply    | place to go on at, or 0, 64 bits | items     of items that are told
//!          | position of the first, 64 bits               of those that were added
//!          | items                                        of those that were taken
//!          | number, 64 bits                              of how many there are
//! items    nothing, or | position of the first, 64 bits | item | item | ...
//! item     | length, 32 bits | bytes |
//! place    | the position's low 32 bits | items from there to the end, 32 bits |
//! ```
//! Place 0 is the front. The end that a place has is where the back was when the first items were
//! told: who goes on from place to place comes to an end, however many are added meanwhile.

/// The most items that one call adds, tells or takes: others of the node wait meanwhile.
pub const MOST_ITEMS: usize = 1024;
/// Bytes of the items that one call moves, with 4 more for each, unless it is a single one.
pub const MOST_BYTES: usize = 64 << 10;

const TELL: u8 = 0;
const ADD: u8 = 1;
const TAKE: u8 = 2;
const COUNT: u8 = 3;

/// An item of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueItem {
    /// Its position: how many items were added before it.
    pub position: u64,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// What is asked.
pub(super) enum Request<'r> {
    Tell { place: u64, most: u32 },
    Add(Vec<&'r [u8]>),
    Take { most: u32 },
    Count,
}

impl<'r> Request<'r> {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Tell { place, most } => {
                [&[TELL][..], &place.to_le_bytes(), &most.to_le_bytes()].concat()
            }
            Self::Add(values) => {
                let mut request = vec![ADD];
                values
                    .iter()
                    .for_each(|value| put_item(value, &mut request));
                request
            }
            Self::Take { most } => [&[TAKE][..], &most.to_le_bytes()].concat(),
            Self::Count => vec![COUNT],
        }
    }

    /// Nothing of bytes that are no request, or ask for more than a call does.
    pub(super) fn decode(request: &'r [u8]) -> Option<Self> {
        let (kind, body) = request.split_first()?;
        Some(match *kind {
            TELL => {
                let (place, most) = body.split_first_chunk()?;
                Self::Tell {
                    place: u64::from_le_bytes(*place),
                    most: u32::from_le_bytes(most.try_into().ok()?),
                }
            }
            ADD => Self::Add(read_values(body)?),
            TAKE => Self::Take {
                most: u32::from_le_bytes(body.try_into().ok()?),
            },
            COUNT if body.is_empty() => Self::Count,
            _ => return None,
        })
    }
}

/// Bytes of an item of a call.
pub(super) const fn item_bytes(value: usize) -> usize {
    4 + value
}

pub(super) fn put_item(value: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(value.len() as u32).to_le_bytes());
    to.extend_from_slice(value);
}

fn read_values(mut from: &[u8]) -> Option<Vec<&[u8]>> {
    let mut values = Vec::new();
    while !from.is_empty() {
        let (length, rest) = from.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        if values.len() == MOST_ITEMS {
            return None;
        }
        values.push(value);
        from = rest;
    }
    Some(values)
}

/// The items of a reply.
pub(super) fn read_items(reply: &[u8]) -> Option<Vec<QueueItem>> {
    let Some((first, values)) = reply.split_first_chunk() else {
        return reply.is_empty().then(Vec::new);
    };
    let first = u64::from_le_bytes(*first);
    let values = read_values(values).filter(|values| !values.is_empty())?;
    let item = |(number, value): (usize, &[u8])| {
        Some(QueueItem {
            position: first.checked_add(number as u64)?,
            value: value.to_vec(),
        })
    };
    values.into_iter().enumerate().map(item).collect()
}

/// The items of a reply that tells some, and the place to go on at.
pub(super) fn read_told(reply: &[u8]) -> Option<(u64, Vec<QueueItem>)> {
    let (next, items) = reply.split_first_chunk()?;
    Some((u64::from_le_bytes(*next), read_items(items)?))
}

/// A place between the ends of a queue: positions, up to the end of who goes through it.
pub(super) fn positions_of(place: u64, (head, tail): (u64, u64)) -> std::ops::Range<u64> {
    if place == 0 {
        return head..tail;
    }
    // What was taken since is passed by.
    let ahead = (place as u32).wrapping_sub(head as u32) as i32;
    let from = head.wrapping_add_signed(ahead.into());
    let end = from.wrapping_add(place >> 32).min(tail);
    match ahead < 0 {
        true => head..end,
        false => from..end,
    }
}

/// The place of a position before an end; 0 at the end.
pub(super) const fn place_of(position: u64, end: u64) -> u64 {
    let left = end.saturating_sub(position);
    match left {
        0 => 0,
        left => left << 32 | position & u32::MAX as u64,
    }
}

/// Whether a place is nearer to the end than another.
pub(super) const fn leads_on(from: u64, to: u64) -> bool {
    to == 0 || from == 0 || to >> 32 < from >> 32
}
