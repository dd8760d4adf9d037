//! Sizes that a model can be made with.

/// A number that a model cannot be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} is {value}: it must be from {least} to {most}")]
pub struct SizeError {
    /// What.
    pub parameter: &'static str,
    /// Its value.
    pub value: usize,
    /// The least allowed.
    pub least: usize,
    /// The most allowed.
    pub most: usize,
}

pub(super) fn check_size(
    parameter: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), SizeError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(SizeError {
        parameter,
        value,
        least,
        most,
    })
}
