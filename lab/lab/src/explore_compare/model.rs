//! The models that all systems can say.

use crate::{LabError, Result};
use std::fmt;
use std::str::FromStr;

/// What is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Dining philosophers.
    Philosophers,
    /// Peterson's algorithm for several processes.
    Peterson,
    /// Two-phase commit.
    TwoPhase,
}

/// A model and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonModel {
    /// What is modelled.
    pub kind: Kind,
    /// Philosophers, processes, or resource managers.
    pub size: usize,
}

impl CommonModel {
    /// The text of the model in Promela; its size is the macro `N`.
    pub(super) const fn promela(self) -> &'static str {
        match self.kind {
            Kind::Philosophers => include_str!("promela/philosophers.pml"),
            Kind::Peterson => include_str!("promela/peterson.pml"),
            Kind::TwoPhase => include_str!("promela/two_phase.pml"),
        }
    }

    pub(super) fn check(self) -> Result<()> {
        // States of one word, and what the Promela texts have.
        let (parameter, least, most) = match self.kind {
            Kind::Philosophers => ("philosophers", 2, 31),
            Kind::Peterson => ("processes", 2, 7),
            Kind::TwoPhase => ("resource managers", 1, 10),
        };
        if (least..=most).contains(&self.size) {
            return Ok(());
        }
        let limit = format!("from {least} to {most}");
        Err(LabError::bad(parameter, self.size as u64, limit))
    }
}

impl fmt::Display for CommonModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Philosophers => "philosophers",
            Kind::Peterson => "peterson",
            Kind::TwoPhase => "2pc",
        };
        write!(f, "{kind}:{}", self.size)
    }
}

impl FromStr for CommonModel {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown =
            || format!("{text:?} is no model: there are philosophers:N, peterson:N and 2pc:N");
        let (kind, size) = text.split_once(':').ok_or_else(unknown)?;
        let kind = match kind {
            "philosophers" => Kind::Philosophers,
            "peterson" => Kind::Peterson,
            "2pc" => Kind::TwoPhase,
            _ => return Err(unknown()),
        };
        let size = size.parse().map_err(|_| unknown())?;
        let model = Self { kind, size };
        model.check().map_err(|error| error.to_string())?;
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_as_they_are_written() {
        for text in ["philosophers:31", "peterson:2", "2pc:10"] {
            assert_eq!(text.parse::<CommonModel>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "2pc",
            "2pc:",
            "2pc:11",
            "peterson:8",
            "philosophers:1",
            "dekker:2",
        ] {
            assert!(text.parse::<CommonModel>().is_err(), "{text}");
        }
    }
}
