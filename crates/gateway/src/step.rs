//! What commands do to one key. All steps on a key in a tick are applied to its entry one after
//! the other, in memory; what is left at the end is written by one operation.

use crate::failure::Failure;
use crate::number;
use crate::record::{Bytes, Entry, LONGEST_VALUE};
use crate::reply::{OK, Reply};

/// What is done to a key.
#[derive(Clone, Debug)]
pub(crate) enum Step<'r> {
    Get,
    Set(Set<'r>),
    Delete,
    GetDelete,
    /// The value; the expiry becomes another.
    GetExpire(ExpiryChange),
    Exists,
    Length,
    Append(&'r [u8]),
    GetRange(i64, i64),
    SetRange(usize, &'r [u8]),
    /// Adds to a whole number.
    Add(i64),
    /// Adds to a number with a fraction.
    AddFloat(number::Number),
    Expire {
        /// Milliseconds since 1970.
        at: u64,
        only: ExpireOnly,
    },
    TimeToLive(TimeNotation),
    Persist,
    Type,
}

/// A value, and when it is set.
#[derive(Clone, Debug)]
pub(crate) struct Set<'r> {
    pub(crate) value: &'r [u8],
    pub(crate) expiry: ExpiryChange,
    pub(crate) only: Option<SetOnly>,
    pub(crate) reply: SetReply,
}

impl<'r> Set<'r> {
    /// A value that is set whatever there is.
    pub(crate) const fn to(value: &'r [u8]) -> Self {
        Self {
            value,
            expiry: ExpiryChange::Never,
            only: None,
            reply: SetReply::Status,
        }
    }
}

/// What becomes of a key's expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpiryChange {
    /// It has none.
    Never,
    /// It stays as it is.
    Keep,
    /// Milliseconds since 1970.
    At(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetOnly {
    IfAbsent,
    IfPresent,
}

/// What SET and its like answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetReply {
    /// OK, or nothing if the value was not set.
    Status,
    /// The value before.
    Previous,
    /// Whether the value was set.
    Flag,
}

/// When an expiry is changed; without any of these, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExpireOnly {
    pub(crate) without: bool,
    pub(crate) with: bool,
    pub(crate) later: bool,
    pub(crate) earlier: bool,
}

/// How a time is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeNotation {
    /// In milliseconds, not in seconds.
    pub(crate) millis: bool,
    /// Since 1970, not from now.
    pub(crate) absolute: bool,
}

/// A key while steps are applied to it.
#[derive(Debug)]
pub(crate) struct Slot<'r> {
    pub(crate) entry: Option<Entry<'r>>,
    /// Whether it differs from what the store has.
    pub(crate) changed: bool,
    /// Whether its expiry was set, if only to the same moment: that counts as a change for clients
    /// that watch the key.
    pub(crate) expiry_was_set: bool,
    /// Milliseconds since 1970: the same in all of a tick.
    pub(crate) now: u64,
}

/// What steps on a key may take at the most, found without doing them. All numbers are bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    /// The longest that the value may be by now.
    value: usize,
    /// Whether a reply or the store's record may have the same bytes: they are copied before they
    /// are changed.
    is_shared: bool,
    /// Of the record that is to be written.
    written: usize,
    /// All that is copied.
    pub(crate) copied: usize,
}

impl Weight {
    /// Before any step, of a key whose record has so many bytes; 0 of one that is absent or not
    /// known.
    pub(crate) const fn of(record: usize) -> Self {
        Self {
            value: record,
            is_shared: true,
            written: 0,
            copied: 0,
        }
    }

    /// The value is put in a reply; returns its bytes.
    const fn reply_bytes(&mut self) -> usize {
        self.is_shared = true;
        self.value
    }

    /// The key has another value or expiry, which is written in the end.
    fn changed(&mut self, value: usize) {
        self.value = value;
        let more = value.saturating_sub(self.written);
        self.copied += more;
        self.written += more;
    }

    /// The value is changed in place.
    fn changed_in_place(&mut self, value: usize) {
        // A buffer that grows has up to twice its bytes.
        self.copied += match self.is_shared {
            true => 2 * value,
            false => 2 * value.saturating_sub(self.value),
        };
        self.is_shared = false;
        self.changed(value);
    }
}

/// Refuses a value that is longer than the gateway's tables hold; nothing stands for a length that
/// is no number.
pub(crate) fn check_length(bytes: Option<usize>) -> Result<usize, Failure> {
    let limit = LONGEST_VALUE;
    match bytes {
        Some(bytes) if bytes <= limit => Ok(bytes),
        _ => Err(Failure::TooLong {
            bytes: bytes.unwrap_or(usize::MAX),
            limit,
        }),
    }
}

impl<'r> Step<'r> {
    /// Whether it does the same whatever the key has.
    pub(crate) fn is_blind(&self) -> bool {
        matches!(
            self,
            Self::Set(Set {
                expiry: ExpiryChange::Never | ExpiryChange::At(_),
                only: None,
                reply: SetReply::Status,
                ..
            })
        )
    }

    /// Adds what it may take; returns the bytes of its reply, those of its head left out.
    pub(crate) fn weigh(&self, weight: &mut Weight) -> usize {
        let value = weight.value;
        match self {
            Self::Get | Self::GetRange(..) => weight.reply_bytes(),
            Self::Exists | Self::Length | Self::Type | Self::TimeToLive(_) => 0,
            Self::Delete => {
                weight.value = 0;
                0
            }
            Self::GetDelete => {
                let reply_bytes = weight.reply_bytes();
                weight.value = 0;
                reply_bytes
            }
            Self::GetExpire(_) => {
                weight.changed(value);
                weight.reply_bytes()
            }
            Self::Expire { .. } | Self::Persist => {
                weight.changed(value);
                0
            }
            Self::Set(set) => {
                let reply_bytes = match set.reply {
                    SetReply::Previous => weight.reply_bytes(),
                    SetReply::Status | SetReply::Flag => 0,
                };
                let is_set_always = set.only.is_none();
                let set = set.value.len();
                weight.is_shared = true;
                weight.changed(if is_set_always { set } else { set.max(value) });
                reply_bytes
            }
            Self::Append(more) => {
                weight.changed_in_place((value + more.len()).min(LONGEST_VALUE));
                0
            }
            Self::SetRange(at, piece) => {
                let end = at.saturating_add(piece.len()).min(LONGEST_VALUE);
                weight.changed_in_place(value.max(end));
                0
            }
            Self::Add(_) | Self::AddFloat(_) => {
                // A value that is no number stays.
                weight.changed(value.max(number::LONGEST));
                number::LONGEST
            }
        }
    }

    pub(crate) fn apply(&self, slot: &mut Slot<'r>) -> Result<Reply<'r>, Failure> {
        let value = || slot.entry.as_ref().map(|entry| &entry.value);
        let bulk = |value: Option<&Bytes<'r>>| value.cloned().map_or(Reply::Null, Reply::Bulk);
        Ok(match self {
            Self::Get => bulk(value()),
            Self::Exists => Reply::flag(slot.entry.is_some()),
            Self::Length => Reply::Integer(value().map_or(0, |value| value.len()) as i64),
            Self::Type => Reply::Status(match slot.entry {
                Some(_) => "string",
                None => "none",
            }),
            Self::GetRange(start, end) => range(value(), *start, *end),
            Self::TimeToLive(notation) => time_to_live(slot, *notation),
            Self::Set(set) => set.apply(slot),
            Self::Delete => Reply::flag(slot.take().is_some()),
            Self::GetDelete => slot
                .take()
                .map_or(Reply::Null, |entry| Reply::Bulk(entry.value)),
            Self::GetExpire(expiry) => {
                let reply = bulk(value());
                slot.set_expiry(*expiry);
                reply
            }
            Self::Append(more) => append(slot, more)?,
            Self::SetRange(at, piece) => set_range(slot, *at, piece)?,
            Self::Add(by) => add(slot, *by)?,
            Self::AddFloat(by) => add_float(slot, *by)?,
            Self::Expire { at, only } => Reply::flag(expire(slot, *at, *only)),
            Self::Persist => {
                let had = slot.entry.as_ref().is_some_and(|entry| entry.expiry != 0);
                slot.set_expiry(ExpiryChange::Never);
                Reply::flag(had)
            }
        })
    }
}

impl<'r> Slot<'r> {
    fn take(&mut self) -> Option<Entry<'r>> {
        let taken = self.entry.take();
        self.changed |= taken.is_some();
        taken
    }

    /// The value of a key that is there stays; its expiry becomes another, or the key ends now.
    fn set_expiry(&mut self, expiry: ExpiryChange) {
        let at = match expiry {
            ExpiryChange::Keep => return,
            ExpiryChange::Never => 0,
            ExpiryChange::At(at) if at <= self.now => {
                self.take();
                return;
            }
            ExpiryChange::At(at) => at,
        };
        if let Some(entry) = &mut self.entry {
            self.changed |= entry.expiry != at;
            self.expiry_was_set |= at != 0;
            entry.expiry = at;
        }
    }

    /// Gives the key a value, with the expiry that it has.
    fn set_value(&mut self, value: Bytes<'r>) {
        let expiry = self.entry.as_ref().map_or(0, |entry| entry.expiry);
        self.entry = Some(Entry { value, expiry });
        self.changed = true;
    }

    /// The value to be changed in place; that of an absent key is empty.
    fn value_mut(&mut self) -> &mut Vec<u8> {
        let entry = self.entry.get_or_insert(Entry {
            value: Bytes::Given(b""),
            expiry: 0,
        });
        self.changed = true;
        entry.value.make_mut()
    }
}

impl<'r> Set<'r> {
    fn apply(&self, slot: &mut Slot<'r>) -> Reply<'r> {
        let previous = slot.entry.as_ref().map(|entry| entry.value.clone());
        let is_set = match self.only {
            None => true,
            Some(SetOnly::IfAbsent) => previous.is_none(),
            Some(SetOnly::IfPresent) => previous.is_some(),
        };
        if is_set {
            slot.set_value(Bytes::Given(self.value));
            slot.set_expiry(self.expiry);
        }
        match self.reply {
            SetReply::Status if is_set => OK,
            SetReply::Status => Reply::Null,
            SetReply::Previous => previous.map_or(Reply::Null, Reply::Bulk),
            SetReply::Flag => Reply::flag(is_set),
        }
    }
}

fn append<'r>(slot: &mut Slot<'r>, more: &[u8]) -> Result<Reply<'r>, Failure> {
    let before = slot.entry.as_ref().map_or(0, |entry| entry.value.len());
    let after = check_length(before.checked_add(more.len()))?;
    slot.value_mut().extend_from_slice(more);
    Ok(Reply::Integer(after as i64))
}

fn set_range<'r>(slot: &mut Slot<'r>, at: usize, piece: &[u8]) -> Result<Reply<'r>, Failure> {
    let before = slot.entry.as_ref().map_or(0, |entry| entry.value.len());
    if piece.is_empty() {
        return Ok(Reply::Integer(before as i64));
    }
    let end = check_length(at.checked_add(piece.len()))?;
    let value = slot.value_mut();
    value.resize(before.max(end), 0);
    value[at..end].copy_from_slice(piece);
    Ok(Reply::Integer(before.max(end) as i64))
}

/// The bytes from `start` to `end`, both counted from the end if they are negative.
fn range<'r>(value: Option<&Bytes<'r>>, start: i64, end: i64) -> Reply<'r> {
    let nothing = Reply::Bulk(Bytes::Given(b""));
    let Some(value) = value else { return nothing };
    let bytes = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return nothing;
    }
    let place = |place: i64| {
        if place < 0 {
            (place.saturating_add(bytes)).max(0)
        } else {
            place
        }
    };
    let (start, end) = (place(start), place(end).min(bytes - 1));
    if bytes == 0 || start > end {
        return nothing;
    }
    Reply::Bulk(value.part(start as usize..end as usize + 1))
}

fn add<'r>(slot: &mut Slot<'r>, by: i64) -> Result<Reply<'r>, Failure> {
    let current = match &slot.entry {
        None => 0,
        Some(entry) => number::integer(&entry.value).ok_or(Failure::NoInteger)?,
    };
    let sum = current.checked_add(by).ok_or(Failure::Overflow)?;
    slot.set_value(Bytes::copied(itoa::Buffer::new().format(sum).as_bytes()));
    Ok(Reply::Integer(sum))
}

fn add_float<'r>(slot: &mut Slot<'r>, by: number::Number) -> Result<Reply<'r>, Failure> {
    let current = slot.entry.as_ref().map_or(&b"0"[..], |entry| &entry.value);
    let current = number::float(current).ok_or(Failure::NoFloat)?;
    let sum = number::add(current, by).ok_or(Failure::NoFiniteSum)?;
    let sum = Bytes::copied(sum.as_bytes());
    slot.set_value(sum.clone());
    Ok(Reply::Bulk(sum))
}

fn expire(slot: &mut Slot<'_>, at: u64, only: ExpireOnly) -> bool {
    let Some(entry) = &slot.entry else {
        return false;
    };
    let current = entry.expiry;
    // A key that never expires does so later than any other.
    let refused = only.without && current != 0
        || only.with && current == 0
        || only.later && (current == 0 || at <= current)
        || only.earlier && current != 0 && at >= current;
    if !refused {
        slot.set_expiry(ExpiryChange::At(at));
    }
    !refused
}

fn time_to_live<'r>(slot: &Slot<'r>, notation: TimeNotation) -> Reply<'r> {
    let Some(entry) = &slot.entry else {
        return Reply::Integer(-2);
    };
    if entry.expiry == 0 {
        return Reply::Integer(-1);
    }
    let from = if notation.absolute { 0 } else { slot.now };
    let millis = entry.expiry.saturating_sub(from);
    let remaining = if notation.millis {
        millis
    } else {
        (millis.saturating_add(500)) / 1_000
    };
    Reply::Integer(i64::try_from(remaining).unwrap_or(i64::MAX))
}
