//! Keys and values as machine words.

/// A plain value of a fixed number of 64-bit words.
pub trait Words: Copy {
    /// How many.
    const COUNT: usize;

    /// One of them.
    fn word(&self, index: usize) -> u64;

    /// The value of these words. While a table reads it may be given a mixture of two values'
    /// words; what it makes of them is then thrown away, but it must not panic.
    fn from_words(word: impl FnMut(usize) -> u64) -> Self;
}

macro_rules! one_word {
    ($($integer:ty),*) => {$(
        impl Words for $integer {
            const COUNT: usize = 1;

            fn word(&self, _: usize) -> u64 {
                *self as u64
            }

            fn from_words(mut word: impl FnMut(usize) -> u64) -> Self {
                word(0) as Self
            }
        }
    )*};
}

one_word!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Words for () {
    const COUNT: usize = 0;

    fn word(&self, _: usize) -> u64 {
        0
    }

    fn from_words(_: impl FnMut(usize) -> u64) -> Self {}
}

impl<const N: usize> Words for [u64; N] {
    const COUNT: usize = N;

    fn word(&self, index: usize) -> u64 {
        self[index]
    }

    fn from_words(word: impl FnMut(usize) -> u64) -> Self {
        std::array::from_fn(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_itself_again<T: Words + PartialEq>(value: T) -> bool {
        let words: Vec<_> = (0..T::COUNT).map(|index| value.word(index)).collect();
        T::from_words(|index| words[index]) == value
    }

    #[test]
    fn values_survive_as_words() {
        assert!(is_itself_again(u64::MAX) && is_itself_again(i8::MIN) && is_itself_again(-7i64));
        assert!(is_itself_again(()) && is_itself_again([1u64, 2, u64::MAX]));
    }
}
