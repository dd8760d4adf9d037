//! The answers to the lookups of a batch, told together where they have come together.

use crate::{IndexError, Operation, Outcome, Result, Value};

/// What a get answers.
pub type Got = Result<Option<Value>>;

/// What an operation of a batch has come to.
pub type Outcomes<'a, Error = IndexError> = Answers<'a, std::result::Result<Outcome, Error>>;

/// Answers of a batch: to keys that stand one behind the other in it, or to one.
///
/// Where the memory is mapped a lookup takes some 20 ns, and telling each answer by itself, through
/// the layers of a store, would take as long. Of writes, [`Answers::Small`] says what the keys had
/// before, as far as that matters to them: whether they were there, or the value that was found.
#[derive(Debug)]
pub enum Answers<'a, One = Got> {
    /// Values that take no buffer each.
    Small(SmallAnswers<'a>),
    /// The number of a key in the batch, and its answer.
    One(usize, One),
}

/// Answers to keys that stand one behind the other in a batch. Some may be missing: they are told
/// by themselves.
#[derive(Clone, Copy, Debug)]
pub struct SmallAnswers<'a> {
    /// The number of the first key.
    first: usize,
    ends: &'a [AnswerCode],
    /// The value of each, or where it is among the bytes of those that are longer than a word.
    words: &'a [u64],
    bytes: &'a [u8],
}

/// The bytes of a value that is kept among those of others: from the one that the high half of this
/// word says on, so many as the low half does.
#[inline(always)]
pub(crate) fn kept_bytes(bytes: &[u8], kept: u64) -> &[u8] {
    let start = (kept >> 32) as usize;
    &bytes[start..start + kept as u32 as usize]
}

/// How a lookup has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnswerCode(u8);

impl AnswerCode {
    /// The key is absent.
    pub(crate) const ABSENT: Self = Self(9);
    /// Otherwise, or not yet: its answer is not among these.
    pub(crate) const ELSEWHERE: Self = Self(10);
    /// The value is longer than a word, and [kept](kept_bytes).
    pub(crate) const KEPT: Self = Self(11);

    /// The value is the first bytes of its word, so many.
    #[inline(always)]
    pub(crate) const fn word(len: usize) -> Self {
        Self(if len < 8 { len as u8 } else { 8 })
    }
}

impl<'a> SmallAnswers<'a> {
    /// The answers to the keys from this number on: how each lookup has ended, and with which word;
    /// and the bytes of values that are longer.
    #[inline]
    pub(crate) const fn new(
        first: usize,
        (ends, words): (&'a [AnswerCode], &'a [u64]),
        bytes: &'a [u8],
    ) -> Self {
        Self {
            first,
            ends,
            words,
            bytes,
        }
    }

    /// Gives each key's number, and its value, or nothing if it is absent.
    #[inline(always)]
    pub fn each(self, mut done: impl FnMut(usize, Option<&[u8]>)) {
        self.each_word(|number, word, end| match end {
            AnswerCode::KEPT => done(number, Some(kept_bytes(self.bytes, word))),
            AnswerCode(len) => done(number, bytemuck::bytes_of(&word).get(..usize::from(len))),
        });
    }

    /// The same, with values as this crate has them.
    #[inline(always)]
    fn each_value(self, mut done: impl FnMut(usize, Option<Value>)) {
        self.each_word(|number, word, end| {
            let value = match end {
                AnswerCode::KEPT => Some(Value::from(kept_bytes(self.bytes, word))),
                AnswerCode(len) => (len <= 8).then(|| Value::of_word(word, usize::from(len))),
            };
            done(number, value);
        });
    }

    /// Gives each key's number, the word of its value, and how its lookup has ended.
    #[inline(always)]
    fn each_word(self, mut done: impl FnMut(usize, u64, AnswerCode)) {
        let all = self.ends.iter().zip(self.words);
        for (number, (end, word)) in (self.first..).zip(all) {
            if *end != AnswerCode::ELSEWHERE {
                done(number, *word, *end);
            }
        }
    }
}

/// The most bytes of values that are kept together.
const MOST_KEPT: usize = 1 << 30;

/// Small answers that are kept, to be told later together.
#[derive(Clone, Debug, Default)]
pub struct KeptAnswers {
    ends: Vec<AnswerCode>,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl KeptAnswers {
    /// Keeps some more, unless all of them would be too much; false then.
    pub fn keep(&mut self, answers: SmallAnswers<'_>) -> bool {
        if self.bytes.len() + answers.bytes.len() > MOST_KEPT {
            return false;
        }
        let end = answers.first + answers.ends.len();
        if self.ends.len() < end {
            self.ends.resize(end, AnswerCode::ELSEWHERE);
            self.words.resize(end, 0);
        }
        self.ends[answers.first..end].copy_from_slice(answers.ends);
        self.words[answers.first..end].copy_from_slice(answers.words);
        if !answers.bytes.is_empty() {
            let before = (self.bytes.len() as u64) << 32;
            self.bytes.extend_from_slice(answers.bytes);
            for (end, word) in answers.ends.iter().zip(&mut self.words[answers.first..]) {
                *word += if *end == AnswerCode::KEPT { before } else { 0 };
            }
        }
        true
    }

    /// Keeps the answer to the key with this number, which is not kept yet, unless its value is
    /// larger than a word; false then.
    #[inline]
    pub fn keep_one(&mut self, number: usize, value: Option<&Value>) -> bool {
        let (end, word) = match value.map(|value| value.as_word()) {
            None => (AnswerCode::ABSENT, 0),
            Some(Some((word, len))) => (AnswerCode::word(len), word),
            Some(None) => return false,
        };
        if self.ends.len() <= number {
            self.ends.resize(number + 1, AnswerCode::ELSEWHERE);
            self.words.resize(number + 1, 0);
        }
        (self.ends[number], self.words[number]) = (end, word);
        true
    }

    /// All that are kept, for keys whose numbers are higher by so much.
    #[must_use]
    pub fn behind(&self, numbers: usize) -> SmallAnswers<'_> {
        SmallAnswers::new(numbers, (&self.ends, &self.words), &self.bytes)
    }
}

impl Answers<'_> {
    /// Gives each key's number and answer.
    #[inline]
    pub fn each(self, mut done: impl FnMut(usize, Got)) {
        match self {
            Self::Small(small) => small.each_value(|number, value| done(number, Ok(value))),
            Self::One(number, answer) => done(number, answer),
        }
    }
}

impl<'a> Answers<'a> {
    /// What these writes have come to, whose keys had such values.
    #[inline]
    pub(crate) fn of_writes(self, writes: &[Operation<'_>]) -> Outcomes<'a> {
        self.map_one(|number, was| was.map(|was| writes[number].outcome(was)))
    }
}

impl<'a, One> Answers<'a, One> {
    /// The same, of operations whose numbers are higher by so much.
    #[inline]
    pub(crate) fn behind(self, numbers: usize) -> Self {
        match self {
            Self::Small(small) => Self::Small(SmallAnswers {
                first: small.first + numbers,
                ..small
            }),
            Self::One(number, answer) => Self::One(number + numbers, answer),
        }
    }

    /// The same, with what is told by itself in another form.
    #[inline]
    pub fn map_one<Other>(self, map: impl FnOnce(usize, One) -> Other) -> Answers<'a, Other> {
        match self {
            Self::Small(small) => Answers::Small(small),
            Self::One(number, answer) => Answers::One(number, map(number, answer)),
        }
    }
}

impl<Error> Outcomes<'_, Error> {
    /// Gives each operation's number and outcome. The operations are those of the batch.
    #[inline]
    pub fn each_of(
        self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, std::result::Result<Outcome, Error>),
    ) {
        match self {
            Self::Small(small) => small.each_value(|number, was| {
                done(number, Ok(operations[number].outcome(was)));
            }),
            Self::One(number, outcome) => done(number, outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_answers_have_the_values_of_each_run() {
        const ENDS: [AnswerCode; 4] = [
            AnswerCode::KEPT,
            AnswerCode::ABSENT,
            AnswerCode::word(2),
            AnswerCode::ELSEWHERE,
        ];
        let word = u64::from_le_bytes(*b"ab______");
        let mut kept = KeptAnswers::default();
        for (first, value) in [(0, b"first value"), (4, b"other value")] {
            let words = [value.len() as u64, 0, word, 0];
            assert!(kept.keep(SmallAnswers::new(first, (&ENDS, &words), value)));
        }
        let mut given = Vec::new();
        kept.behind(10).each(|number, value| {
            given.push((number, value.map(<[u8]>::to_vec)));
        });
        let some = |number, value: &[u8]| (number, Some(value.to_vec()));
        let expected = [
            some(10, b"first value"),
            (11, None),
            some(12, b"ab"),
            some(14, b"other value"),
            (15, None),
            some(16, b"ab"),
        ];
        assert_eq!(given, expected);
        let mut values = Vec::new();
        kept.behind(0).each_value(|_, value| values.extend(value));
        assert_eq!(values.len(), 4);
        assert_eq!(
            (&*values[0], &*values[2]),
            (&b"first value"[..], &b"other value"[..])
        );
    }
}
