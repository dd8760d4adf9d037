//! The answers to the lookups of a batch, told together where they have come together.

use crate::{Result, Value};

/// What a get answers.
pub type Got = Result<Option<Value>>;

/// Answers of a batch: to keys that stand one behind the other in it, or to one.
///
/// Where the memory is mapped a lookup takes some 20 ns, and telling each answer by itself, through
/// the layers of a store, would take as long.
#[derive(Debug)]
pub enum Answers<'a, One = Got> {
    /// No value of these has more than 8 bytes.
    Small(SmallAnswers<'a>),
    /// The number of a key in the batch, and its answer.
    One(usize, One),
}

/// Answers to keys that stand one behind the other in a batch. Some may be missing: they are told by
/// themselves.
#[derive(Clone, Copy, Debug)]
pub struct SmallAnswers<'a> {
    /// The number of the first key.
    first: usize,
    ends: &'a [End],
    /// The value of each.
    words: &'a [u64],
}

/// How a lookup has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End(u8);

impl End {
    /// The key is absent.
    pub(crate) const ABSENT: Self = Self(9);
    /// Otherwise, or not yet: its answer is not among these.
    pub(crate) const ELSEWHERE: Self = Self(10);

    /// The value is the first bytes of its word, so many.
    #[inline(always)]
    pub(crate) const fn word(len: usize) -> Self {
        Self(if len < 8 { len as u8 } else { 8 })
    }
}

impl<'a> SmallAnswers<'a> {
    /// The answers to the keys from this number on: how each lookup has ended, and with which word.
    #[inline]
    pub(crate) const fn new(first: usize, ends: &'a [End], words: &'a [u64]) -> Self {
        Self { first, ends, words }
    }

    /// Gives each key's number, and its value, or nothing if it is absent.
    #[inline(always)]
    pub fn each(self, mut done: impl FnMut(usize, Option<&[u8]>)) {
        let all = self.ends.iter().zip(self.words);
        for (number, (end, word)) in (self.first..).zip(all) {
            let value = bytemuck::bytes_of(word).get(..usize::from(end.0));
            if *end != End::ELSEWHERE {
                done(number, value);
            }
        }
    }
}

/// Small answers that are kept, to be told later together.
#[derive(Clone, Debug, Default)]
pub struct KeptAnswers {
    ends: Vec<End>,
    words: Vec<u64>,
}

impl KeptAnswers {
    /// Keeps some more.
    pub fn keep(&mut self, answers: SmallAnswers<'_>) {
        let end = answers.first + answers.ends.len();
        if self.ends.len() < end {
            self.ends.resize(end, End::ELSEWHERE);
            self.words.resize(end, 0);
        }
        self.ends[answers.first..end].copy_from_slice(answers.ends);
        self.words[answers.first..end].copy_from_slice(answers.words);
    }

    /// All that are kept, for keys whose numbers are higher by so much.
    #[must_use]
    pub fn behind(&self, numbers: usize) -> SmallAnswers<'_> {
        SmallAnswers::new(numbers, &self.ends, &self.words)
    }
}

impl Answers<'_> {
    /// Gives each key's number and answer.
    #[inline]
    pub fn each(self, mut done: impl FnMut(usize, Got)) {
        match self {
            Self::Small(small) => small.each(|number, value| {
                done(number, Ok(value.map(Value::from)));
            }),
            Self::One(number, answer) => done(number, answer),
        }
    }
}
