//! The verbs in flight: the answer that each waits for, and the task to wake.

use crate::error::Malformed;
use crate::{Buffer, Completion, FabricError, Result};
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What the answer to a verb is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// So many words, for the slot's buffer.
    Bytes(u32),
    /// The word that an atomic found.
    Word,
    /// The bytes of a reply, in a word, and so many bytes at most, for the slot's buffer.
    Reply(u32),
    /// Nothing but the news.
    Placed,
}

impl Answer {
    /// Words of the answer on the wire, at most.
    #[inline]
    pub(crate) const fn words(self) -> usize {
        match self {
            Self::Bytes(words) => words as usize,
            Self::Word => 1,
            Self::Reply(bytes) => 1 + bytes.div_ceil(8) as usize,
            Self::Placed => 0,
        }
    }
}

#[derive(Debug)]
enum State {
    /// Nobody's.
    Free,
    /// The answer is to come.
    Waiting,
    /// The answer is to come, and nobody wants it.
    Abandoned,
    /// The answer is here, not fetched yet.
    Done,
    Failed(Box<FabricError>),
}

struct Slot {
    answer: Answer,
    state: State,
    buffer: Option<Buffer>,
    word: u64,
    /// Who asked last. Stays when it was woken: it is mostly the same again.
    waker: Waker,
    /// Whether it wants to be woken.
    wanted: bool,
}

/// All slots of an endpoint, by number.
#[derive(Default)]
pub(crate) struct Slots(RefCell<Table>);

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// A slot for a verb whose buffer, if it has one, is to be filled.
    #[inline(always)]
    pub(crate) fn take(&self, answer: Answer, buffer: Option<Buffer>) -> u32 {
        let mut table = self.0.borrow_mut();
        let Some(number) = table.free.pop() else {
            return table.add(answer, buffer);
        };
        let slot = &mut table.slots[number as usize];
        slot.answer = answer;
        slot.state = State::Waiting;
        slot.buffer = buffer;
        number
    }

    /// To leave the answers that a call has brought.
    #[inline]
    pub(crate) fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            table: self.0.borrow_mut(),
            woken: None,
        }
    }

    /// Words of the answer that a slot waits for.
    #[inline]
    pub(crate) fn answer_words(&self, number: u32) -> usize {
        self.0.borrow().slots[number as usize].answer.words()
    }

    /// Whether a verb has failed whose task has not fetched the error yet.
    pub(crate) fn is_failed(&self, number: u32) -> bool {
        let table = self.0.borrow();
        matches!(table.slots[number as usize].state, State::Failed(_))
    }

    /// Fetches the answer, once; if it is not here, the task is woken when it is.
    #[inline(always)]
    pub(crate) fn poll(&self, number: u32, cx: &Context<'_>) -> Poll<Result<Completion>> {
        let mut table = self.0.borrow_mut();
        let slot = &mut table.slots[number as usize];
        let outcome = match &mut slot.state {
            State::Done => Ok(match (slot.answer, slot.buffer.take()) {
                (Answer::Word, _) => Completion::Word(slot.word),
                (Answer::Bytes(_), Some(buffer)) => Completion::Filled(buffer),
                (Answer::Reply(_), Some(mut buffer)) => {
                    buffer.truncate(slot.word as usize);
                    Completion::Replied(buffer)
                }
                (Answer::Placed | Answer::Bytes(_) | Answer::Reply(_), _) => Completion::Placed,
            }),
            State::Failed(error) => Err((**error).clone()),
            State::Free | State::Waiting | State::Abandoned => {
                slot.wanted = true;
                slot.waker.clone_from(cx.waker());
                return Poll::Pending;
            }
        };
        table.release(number);
        Poll::Ready(outcome)
    }

    /// Nobody will fetch the answer.
    pub(crate) fn abandon(&self, number: u32) {
        let mut table = self.0.borrow_mut();
        let slot = &mut table.slots[number as usize];
        if matches!(slot.state, State::Waiting) {
            slot.state = State::Abandoned;
            slot.wanted = false;
        } else {
            table.release(number);
        }
    }
}

/// A verb that waits in a slot for its answer. Dropped before that is fetched, it is abandoned.
pub struct Posted {
    slots: Rc<Slots>,
    /// Nothing once its answer was fetched.
    slot: Option<u32>,
}

impl fmt::Debug for Posted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posted")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl Posted {
    /// The verb of this slot.
    #[inline(always)]
    pub(crate) fn new(slots: &Rc<Slots>, slot: u32) -> Self {
        Self {
            slots: Rc::clone(slots),
            slot: Some(slot),
        }
    }

    /// Fetches the answer; if it is not here, the task is woken when it is.
    ///
    /// # Panics
    /// If it was fetched before.
    #[inline(always)]
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Completion>> {
        let slot = self.slot.expect("a verb completes once");
        let polled = self.slots.poll(slot, cx);
        if polled.is_ready() {
            self.slot = None;
        }
        polled
    }
}

impl Drop for Posted {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.slots.abandon(slot);
        }
    }
}

impl Table {
    #[cold]
    fn add(&mut self, answer: Answer, buffer: Option<Buffer>) -> u32 {
        self.slots.push(Slot {
            answer,
            state: State::Waiting,
            buffer,
            word: 0,
            waker: Waker::noop().clone(),
            wanted: false,
        });
        (self.slots.len() - 1) as u32
    }

    #[inline]
    fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.state = State::Free;
        slot.buffer = None;
        slot.wanted = false;
        self.free.push(number);
    }
}

/// Answers that arrive together, and are left in their slots one after the other.
pub(crate) struct Arrivals<'s> {
    table: RefMut<'s, Table>,
    /// Whose task was woken last: the verbs of one task in one turn need one wake.
    woken: Option<u32>,
}

impl Arrivals<'_> {
    /// Words of the answer that a slot waits for, which begins with `arrived`; nothing if that does
    /// not tell yet.
    ///
    /// # Errors
    /// [`Malformed::Answer`] of a reply that is longer than its room.
    #[inline]
    pub(crate) fn answer_words(
        &self,
        number: u32,
        arrived: &[u64],
    ) -> std::result::Result<Option<usize>, Malformed> {
        match (self.table.slots[number as usize].answer, arrived.first()) {
            (Answer::Reply(room), Some(&bytes)) if bytes <= u64::from(room) => {
                Ok(Some(1 + bytes.div_ceil(8) as usize))
            }
            (Answer::Reply(_), Some(_)) => Err(Malformed::Answer),
            (Answer::Reply(_), None) => Ok(None),
            (answer, _) => Ok(Some(answer.words())),
        }
    }

    /// Leaves an answer, of as many words as it has to have.
    #[inline]
    pub(crate) fn complete(&mut self, number: u32, words: &[u64]) {
        let slot = &mut self.table.slots[number as usize];
        match slot.answer {
            Answer::Bytes(_) => {
                if let Some(buffer) = &mut slot.buffer {
                    buffer.words_mut()[..words.len()].copy_from_slice(words);
                }
            }
            Answer::Word => slot.word = words[0],
            Answer::Reply(_) => {
                let (bytes, words) = words.split_at(1);
                slot.word = bytes[0];
                if let Some(buffer) = &mut slot.buffer {
                    buffer.words_mut()[..words.len()].copy_from_slice(words);
                }
            }
            Answer::Placed => {}
        }
        self.settle(number, State::Done);
    }

    /// Leaves a reply of so many bytes, which `copy` puts into the slot's buffer.
    pub(crate) fn replied(&mut self, number: u32, bytes: usize, copy: impl FnOnce(&mut [u64])) {
        let slot = &mut self.table.slots[number as usize];
        slot.word = bytes as u64;
        if let Some(buffer) = &mut slot.buffer {
            copy(&mut buffer.words_mut()[..bytes.div_ceil(8)]);
        }
        self.settle(number, State::Done);
    }

    /// Leaves an error.
    pub(crate) fn fail(&mut self, number: u32, error: FabricError) {
        self.settle(number, State::Failed(Box::new(error)));
    }

    #[inline]
    fn settle(&mut self, number: u32, state: State) {
        let table = &mut *self.table;
        let slot = &mut table.slots[number as usize];
        if matches!(slot.state, State::Abandoned) {
            return table.release(number);
        }
        slot.state = state;
        if !std::mem::take(&mut slot.wanted) {
            return;
        }
        let waker = &table.slots[number as usize].waker;
        let same = |last: u32| table.slots[last as usize].waker.will_wake(waker);
        if !self.woken.is_some_and(same) {
            waker.wake_by_ref();
            self.woken = Some(number);
        }
    }
}
