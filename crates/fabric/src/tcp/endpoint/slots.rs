//! The verbs on their way: what each waits for, and who waits for it.

use crate::{Buffer, Completion, FabricError, Result};
use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

/// What the answer to a verb is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// So many words, for the slot's buffer.
    Bytes(u32),
    /// The word that an atomic found.
    Word,
    /// Nothing but the news.
    Placed,
}

impl Answer {
    /// Words of the answer on the wire.
    #[inline]
    pub(super) const fn words(self) -> usize {
        match self {
            Self::Bytes(words) => words as usize,
            Self::Word => 1,
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
pub(super) struct Slots {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
}

/// Whom the last completion has woken: verbs of one task in one turn need one wake.
#[derive(Default)]
pub(super) struct Woken(Option<u32>);

impl Slots {
    /// A slot for a verb whose buffer, if it has one, is to be filled.
    #[inline(always)]
    pub(super) fn take(&self, answer: Answer, buffer: Option<Buffer>) -> u32 {
        let mut slots = self.slots.borrow_mut();
        let Some(number) = self.free.borrow_mut().pop() else {
            slots.push(Slot {
                answer,
                state: State::Waiting,
                buffer,
                word: 0,
                waker: Waker::noop().clone(),
                wanted: false,
            });
            return (slots.len() - 1) as u32;
        };
        let slot = &mut slots[number as usize];
        slot.answer = answer;
        slot.state = State::Waiting;
        slot.buffer = buffer;
        number
    }

    /// Words of the answer that a slot waits for.
    #[inline]
    pub(super) fn answer_words(&self, number: u32) -> usize {
        self.slots.borrow()[number as usize].answer.words()
    }

    /// Leaves an answer, of as many words as it has to have.
    #[inline]
    pub(super) fn complete(&self, number: u32, words: &[u64], woken: &mut Woken) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[number as usize];
        match slot.answer {
            Answer::Bytes(_) => {
                if let Some(buffer) = &mut slot.buffer {
                    buffer.words_mut()[..words.len()].copy_from_slice(words);
                }
            }
            Answer::Word => slot.word = words[0],
            Answer::Placed => {}
        }
        self.settle(&mut slots, number, State::Done, woken);
    }

    /// Leaves an error.
    pub(super) fn fail(&self, number: u32, error: FabricError, woken: &mut Woken) {
        let mut slots = self.slots.borrow_mut();
        let state = State::Failed(Box::new(error));
        self.settle(&mut slots, number, state, woken);
    }

    #[inline]
    fn settle(&self, slots: &mut [Slot], number: u32, state: State, woken: &mut Woken) {
        let slot = &mut slots[number as usize];
        if matches!(slot.state, State::Abandoned) {
            self.release(slot, number);
            return;
        }
        slot.state = state;
        if std::mem::take(&mut slot.wanted) {
            let slot = &slots[number as usize];
            let same = |last: u32| slots[last as usize].waker.will_wake(&slot.waker);
            if !woken.0.is_some_and(same) {
                slot.waker.wake_by_ref();
                woken.0 = Some(number);
            }
        }
    }

    /// Whether a verb has failed whose task has not fetched the error yet.
    pub(super) fn is_failed(&self, number: u32) -> bool {
        matches!(self.slots.borrow()[number as usize].state, State::Failed(_))
    }

    /// Fetches the answer, once; if it is not here, the task is woken when it is.
    #[inline(always)]
    pub(super) fn poll(&self, number: u32, cx: &Context<'_>) -> Poll<Result<Completion>> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[number as usize];
        let outcome = match &mut slot.state {
            State::Done => Ok(match (slot.answer, slot.buffer.take()) {
                (Answer::Word, _) => Completion::Word(slot.word),
                (Answer::Bytes(_), Some(buffer)) => Completion::Filled(buffer),
                (Answer::Placed | Answer::Bytes(_), _) => Completion::Placed,
            }),
            State::Failed(error) => Err((**error).clone()),
            State::Free | State::Waiting | State::Abandoned => {
                slot.wanted = true;
                slot.waker.clone_from(cx.waker());
                return Poll::Pending;
            }
        };
        self.release(slot, number);
        Poll::Ready(outcome)
    }

    /// Nobody will fetch the answer.
    pub(super) fn abandon(&self, number: u32) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[number as usize];
        if matches!(slot.state, State::Waiting) {
            slot.state = State::Abandoned;
            slot.wanted = false;
        } else {
            self.release(slot, number);
        }
    }

    #[inline]
    fn release(&self, slot: &mut Slot, number: u32) {
        slot.state = State::Free;
        slot.buffer = None;
        slot.wanted = false;
        self.free.borrow_mut().push(number);
    }
}
