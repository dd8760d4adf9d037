//! Whether operations did what they were to do: figures of a table that errs mean nothing.

use crate::{BenchError, Result};

/// The outcomes of many operations.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    all: u64,
    wrong: u64,
    failed: Option<BenchError>,
}

impl Answers {
    /// Notes an operation: whether its answer is right, or its error.
    #[inline]
    pub fn note(&mut self, answer: std::result::Result<bool, impl Into<BenchError>>) {
        match answer {
            Ok(is_right) => self.see(is_right),
            Err(error) => {
                self.all += 1;
                self.failed = Some(error.into());
            }
        }
    }

    /// Notes an operation that has an answer: whether it is right.
    #[inline]
    pub fn see(&mut self, is_right: bool) {
        self.all += 1;
        self.wrong += u64::from(!is_right);
    }

    /// How many were noted.
    pub const fn count(&self) -> u64 {
        self.all
    }

    /// An error if any answer was wrong.
    pub fn check(self) -> Result<()> {
        match self {
            Self {
                failed: Some(error),
                ..
            } => Err(error),
            Self { wrong: 0, .. } => Ok(()),
            Self {
                wrong,
                all: operations,
                ..
            } => Err(BenchError::WrongAnswers { wrong, operations }),
        }
    }
}
