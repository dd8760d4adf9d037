//! Ranges of an ordered table's keys, as Python gives them.

use crate::codec::{Encoded, RecordField};
use farslot::KeyRange;
use pyo3::prelude::*;

/// A range of keys as Python has it.
pub(crate) struct GivenRange {
    from: Option<Encoded>,
    to: Option<Encoded>,
    is_reversed: bool,
}

impl GivenRange {
    pub(crate) fn new(
        key: &RecordField,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        is_reversed: bool,
    ) -> PyResult<Self> {
        let bound = |bound: Option<&Bound<'_, PyAny>>| {
            let bound = bound.map(|bound| key.encode(bound));
            bound.transpose()
        };
        Ok(Self {
            from: bound(start)?,
            to: bound(stop)?,
            is_reversed,
        })
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange {
            from: self.from.as_deref().unwrap_or_default(),
            to: self.to.as_deref(),
            is_reversed: self.is_reversed,
        }
    }
}
