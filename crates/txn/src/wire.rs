//! Requests to a node's owner about transactions, and their bytes.
//!
//! ```text
//! request   | operation, 8 bits | lock, 64 | what the operation takes
//! write     | table's id, 64 bits | removes, 8 | key length, 16 | value length, 16 | key | value
//! ```

use farslot_remote::Lock;

/// The method of transactions.
pub(crate) const TRANSACTION: u16 = 0x0304;

/// One key's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Write<'b> {
    /// The table's number at its node.
    pub(crate) object: u64,
    pub(crate) key: &'b [u8],
    /// The new value; nothing if the key is removed.
    pub(crate) value: Option<&'b [u8]>,
}

/// What a transaction has seen of a key of a node, without a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyVersion<'b> {
    /// The table's number at its node.
    pub(crate) object: u64,
    pub(crate) key: &'b [u8],
    /// Of a key that was there: its version.
    pub(crate) version: Option<u64>,
}

/// What a transaction changes at one node, as bytes.
pub(crate) type Part = Vec<u8>;

/// What a node's owner is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OwnerRequest<'b> {
    /// Name a new client, which has the owner's node at this place of its list.
    Open { node: u8 },
    /// Lock a key. `opens` allows that the transaction holds nothing here so far; `at_home` says
    /// that the node is its home.
    Lock {
        lock: Lock,
        opens: bool,
        at_home: bool,
        home: TransactionHome,
        object: u64,
        key: &'b [u8],
    },
    /// Commit: apply this node's part, unlock, and keep the others' parts until they are forgotten.
    Decide {
        lock: Lock,
        /// Transactions whose parts have all been applied: their decisions may be forgotten.
        done: Vec<Lock>,
        home_part: &'b [u8],
        other_parts: Vec<(u8, &'b [u8])>,
    },
    /// Commit a transaction that has no lock, and has read and changes keys of this node only: if
    /// all that it has read is still so, and nobody holds a key of it.
    Commit {
        lock: Lock,
        reads: Vec<KeyVersion<'b>>,
        writes: &'b [u8],
    },
    /// Run a procedure of this node's as a transaction, and commit it, if nobody holds a key of it.
    Execute {
        lock: Lock,
        procedure: u16,
        input: &'b [u8],
    },
    /// Apply this node's part of a committed transaction, and unlock.
    Finish { lock: Lock, part: &'b [u8] },
    /// Unlock all keys of a transaction that is not committed.
    Abort { lock: Lock },
    /// At the home: what became of a transaction, and the part of a node if it is committed.
    Resolve { lock: Lock, node: u8 },
    /// Whether the lease is over of a transaction that was seen to hold a key.
    Inquire {
        lock: Lock,
        object: u64,
        key: &'b [u8],
    },
    /// At the home: a node's part has been applied.
    Forget { lock: Lock, node: u8 },
    /// At the home: decisions that are older than their lease.
    Unfinished,
}

/// What the home of a transaction is, as its client tells: zeros of one that nobody has told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TransactionHome {
    pub(crate) incarnation: u64,
    /// Nodes in the client's list.
    pub(crate) nodes: u8,
    /// The place in it of the node that is told this: its part is known by that.
    pub(crate) at: u8,
}

impl TransactionHome {
    /// Whether a client has told of it. No list is without a node.
    pub(crate) const fn is_told(self) -> bool {
        self.nodes != 0
    }
}

/// Who holds a key, as its node tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockHolder {
    pub(crate) lock: Lock,
    /// Whether the lease of its lock is over.
    pub(crate) is_over: bool,
    pub(crate) home: TransactionHome,
}

/// Bytes of a status, and of who holds a key.
pub(crate) const HOLDER_BYTES: usize = 20;

/// How the owner answers, in the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum OwnerStatus {
    /// Done. Of [`OwnerRequest::Resolve`]: committed, and the part follows; of
    /// [`OwnerRequest::Inquire`]: the lock is gone.
    Done = 0,
    /// Of [`OwnerRequest::Lock`]: another holds the key. Its [`LockHolder`] follows; of
    /// [`OwnerRequest::Commit`] the key's place in the request before that, of
    /// [`OwnerRequest::Execute`] the table's number before and the key behind; of
    /// [`OwnerRequest::Inquire`]: its lease is over, and its home must be asked.
    Locked = 1,
    /// The transaction's locks here were broken; of [`OwnerRequest::Resolve`]: it is aborted.
    Aborted = 2,
    /// Of [`OwnerRequest::Resolve`] and [`OwnerRequest::Inquire`]: the lease is not over.
    Running = 3,
    /// Of [`OwnerRequest::Decide`]: no further decision may be kept.
    Full = 4,
    /// Of [`OwnerRequest::Commit`]: a key has changed since it was read. Its place in the request
    /// follows.
    Changed = 5,
    /// The request changes or locks more than a node can at once. Nothing was done; [two
    /// numbers](put_limit) follow.
    TooLarge = 6,
    /// Of [`OwnerRequest::Lock`]: there is too much to be noted of other transactions. The same
    /// follows.
    Crowded = 7,
}

/// Bytes of a status, and of what is over a limit and that limit, in bytes.
pub(crate) const LIMIT_BYTES: usize = 17;

/// A reply that says what is over which limit.
pub(crate) fn put_limit(status: OwnerStatus, bytes: usize, limit: usize) -> Vec<u8> {
    let mut reply = Writer::default();
    reply.byte(status as u8);
    reply.word(bytes as u64).word(limit as u64);
    reply.0
}

impl OwnerStatus {
    pub(crate) const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Done,
            1 => Self::Locked,
            2 => Self::Aborted,
            3 => Self::Running,
            4 => Self::Full,
            5 => Self::Changed,
            6 => Self::TooLarge,
            7 => Self::Crowded,
            _ => return None,
        })
    }
}

/// Bytes, put one after the other.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes(&[byte])
    }

    pub(crate) fn half(&mut self, half: u16) -> &mut Self {
        self.bytes(&half.to_le_bytes())
    }

    pub(crate) fn word(&mut self, word: u64) -> &mut Self {
        self.bytes(&word.to_le_bytes())
    }

    pub(crate) fn holder(&mut self, holder: LockHolder) -> &mut Self {
        self.word(holder.lock.word());
        self.byte(holder.is_over.into()).home(holder.home)
    }

    pub(crate) fn home(&mut self, home: TransactionHome) -> &mut Self {
        self.word(home.incarnation).byte(home.nodes).byte(home.at)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Bytes, taken one after the other; nothing where they end too early.
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn bytes(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(crate) fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn word(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn lock(&mut self) -> Option<Lock> {
        Lock::of_word(self.word()?)
    }

    pub(crate) fn holder(&mut self) -> Option<LockHolder> {
        Some(LockHolder {
            lock: self.lock()?,
            is_over: self.byte()? != 0,
            home: self.home()?,
        })
    }

    pub(crate) fn home(&mut self) -> Option<TransactionHome> {
        Some(TransactionHome {
            incarnation: self.word()?,
            nodes: self.byte()?,
            at: self.byte()?,
        })
    }

    fn seen(&mut self) -> Option<KeyVersion<'b>> {
        let (object, is_there) = (self.word()?, self.byte()? != 0);
        let version = self.word()?;
        let key = self.half()?;
        Some(KeyVersion {
            object,
            key: self.bytes(key.into())?,
            version: is_there.then_some(version),
        })
    }

    fn part(&mut self) -> Option<&'b [u8]> {
        let bytes = usize::try_from(self.word()?).ok()?;
        self.bytes(bytes)
    }
}

/// Adds a write to a part. Keys and values are no longer than 16 bits can say: no table takes
/// longer ones.
pub(crate) fn put_write(part: &mut Part, write: Write<'_>) {
    let mut to = Writer(std::mem::take(part));
    let value = write.value.unwrap_or(&[]);
    to.word(write.object).byte(write.value.is_none().into());
    to.half(write.key.len() as u16).half(value.len() as u16);
    to.bytes(write.key).bytes(value);
    *part = to.0;
}

/// The writes of a part; nothing if it makes no sense.
pub(crate) fn writes_of(part: &[u8]) -> Option<Vec<Write<'_>>> {
    let mut from = Reader(part);
    let mut writes = Vec::new();
    while !from.0.is_empty() {
        let (object, removes) = (from.word()?, from.byte()?);
        let (key, value) = (from.half()?, from.half()?);
        let (key, value) = (from.bytes(key.into())?, from.bytes(value.into())?);
        let value = (removes == 0).then_some(value);
        writes.push(Write { object, key, value });
    }
    Some(writes)
}

impl<'b> OwnerRequest<'b> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Open { node } => to.byte(0).byte(*node),
            Self::Lock {
                lock,
                opens,
                at_home,
                home,
                object,
                key,
            } => {
                to.byte(1).word(lock.word());
                to.byte((*opens).into()).byte((*at_home).into());
                to.home(*home);
                to.word(*object).bytes(key)
            }
            Self::Decide {
                lock,
                done,
                home_part,
                other_parts,
            } => {
                to.byte(2).word(lock.word()).half(done.len() as u16);
                done.iter().for_each(|done| {
                    to.word(done.word());
                });
                to.word(home_part.len() as u64).bytes(home_part);
                for (node, part) in other_parts {
                    to.byte(*node).word(part.len() as u64).bytes(part);
                }
                &mut to
            }
            Self::Commit {
                lock,
                reads,
                writes,
            } => {
                to.byte(9).word(lock.word()).half(reads.len() as u16);
                for seen in reads {
                    to.word(seen.object).byte(seen.version.is_some().into());
                    to.word(seen.version.unwrap_or(0));
                    to.half(seen.key.len() as u16).bytes(seen.key);
                }
                to.bytes(writes)
            }
            Self::Finish { lock, part } => to.byte(3).word(lock.word()).bytes(part),
            Self::Abort { lock } => to.byte(4).word(lock.word()),
            Self::Resolve { lock, node } => to.byte(5).word(lock.word()).byte(*node),
            Self::Inquire { lock, object, key } => {
                to.byte(6).word(lock.word()).word(*object).bytes(key)
            }
            Self::Forget { lock, node } => to.byte(7).word(lock.word()).byte(*node),
            Self::Unfinished => to.byte(8),
            Self::Execute {
                lock,
                procedure,
                input,
            } => to.byte(10).word(lock.word()).half(*procedure).bytes(input),
        };
        to.0
    }

    /// The request of these bytes; nothing if they are none.
    pub(crate) fn decode(bytes: &'b [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let request = match from.byte()? {
            0 => Self::Open { node: from.byte()? },
            1 => Self::Lock {
                lock: from.lock()?,
                opens: from.byte()? != 0,
                at_home: from.byte()? != 0,
                home: from.home()?,
                object: from.word()?,
                key: std::mem::take(&mut from.0),
            },
            2 => {
                let lock = from.lock()?;
                let done = from.half()?;
                let done: Option<_> = (0..done).map(|_| from.lock()).collect();
                let (done, home_part) = (done?, from.part()?);
                let mut other_parts = Vec::new();
                while !from.0.is_empty() {
                    let (node, part) = (from.byte()?, from.part()?);
                    // A node has one part: however many bytes there are, there are few of them.
                    if other_parts.last().is_some_and(|(last, _)| *last >= node) {
                        return None;
                    }
                    other_parts.push((node, part));
                }
                Self::Decide {
                    lock,
                    done,
                    home_part,
                    other_parts,
                }
            }
            3 => Self::Finish {
                lock: from.lock()?,
                part: std::mem::take(&mut from.0),
            },
            4 => Self::Abort { lock: from.lock()? },
            5 => Self::Resolve {
                lock: from.lock()?,
                node: from.byte()?,
            },
            6 => Self::Inquire {
                lock: from.lock()?,
                object: from.word()?,
                key: std::mem::take(&mut from.0),
            },
            7 => Self::Forget {
                lock: from.lock()?,
                node: from.byte()?,
            },
            8 => Self::Unfinished,
            9 => {
                let (lock, reads) = (from.lock()?, from.half()?);
                let reads: Option<_> = (0..reads).map(|_| from.seen()).collect();
                Self::Commit {
                    lock,
                    reads: reads?,
                    writes: std::mem::take(&mut from.0),
                }
            }
            10 => Self::Execute {
                lock: from.lock()?,
                procedure: from.half()?,
                input: std::mem::take(&mut from.0),
            },
            _ => return None,
        };
        from.0.is_empty().then_some(request)
    }
}

/// Bytes of an unfinished part's name: a lock's word, and a node.
pub(crate) const UNFINISHED_BYTES: usize = 9;

/// The parts that a reply of [`OwnerRequest::Unfinished`] names.
pub(crate) fn read_unfinished(mut from: Reader<'_>) -> Option<Vec<(Lock, u8)>> {
    let mut parts = Vec::new();
    while !from.0.is_empty() {
        parts.push((from.lock()?, from.byte()?));
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_their_bytes() {
        let lock = Lock { owner: 7, epoch: 9 };
        let mut part = Part::new();
        let (key, value) = (&b"key"[..], Some(&b"value"[..]));
        let writes = [
            Write {
                object: 5,
                key,
                value,
            },
            Write {
                object: 6,
                key: b"",
                value: None,
            },
        ];
        writes.iter().for_each(|write| put_write(&mut part, *write));
        assert_eq!(writes_of(&part).unwrap(), writes);
        let seen = |version| KeyVersion {
            object: 9,
            key,
            version,
        };
        for request in [
            OwnerRequest::Open { node: 3 },
            OwnerRequest::Lock {
                lock,
                opens: true,
                at_home: false,
                home: TransactionHome {
                    incarnation: 77,
                    nodes: 3,
                    at: 2,
                },
                object: 300,
                key,
            },
            OwnerRequest::Decide {
                lock,
                done: vec![lock, lock],
                home_part: &part,
                other_parts: vec![(3, &part), (4, b"")],
            },
            OwnerRequest::Commit {
                lock,
                reads: vec![seen(Some(7)), seen(None)],
                writes: &part,
            },
            OwnerRequest::Execute {
                lock,
                procedure: 7,
                input: key,
            },
            OwnerRequest::Finish { lock, part: &part },
            OwnerRequest::Abort { lock },
            OwnerRequest::Resolve { lock, node: 3 },
            OwnerRequest::Inquire {
                lock,
                object: 2,
                key,
            },
            OwnerRequest::Forget { lock, node: 200 },
            OwnerRequest::Unfinished,
        ] {
            assert_eq!(OwnerRequest::decode(&request.encode()), Some(request));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_decoders(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = OwnerRequest::decode(&bytes);
            let _ = writes_of(&bytes);
        }
    }
}
