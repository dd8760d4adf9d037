//! The ways to explore.

use super::model::CommonModel;
use crate::LabError;
use std::fmt;
use std::str::FromStr;

/// A way to explore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplorationTool {
    /// Ours.
    Farslot,
    /// Stateright, breadth first.
    StaterightBfs,
    /// Stateright, depth first.
    StaterightDfs,
    /// Spin, with whole state vectors.
    Spin,
    /// Spin with COLLAPSE compression.
    SpinCollapse,
    /// Spin's parallel breadth-first search.
    SpinBfs,
}

impl ExplorationTool {
    /// All of them, ours first.
    pub const ALL: [Self; 6] = [
        Self::Farslot,
        Self::StaterightBfs,
        Self::StaterightDfs,
        Self::Spin,
        Self::SpinCollapse,
        Self::SpinBfs,
    ];

    /// As it is called in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Farslot => "farslot",
            Self::StaterightBfs => "stateright-bfs",
            Self::StaterightDfs => "stateright-dfs",
            Self::Spin => "spin",
            Self::SpinCollapse => "spin-collapse",
            Self::SpinBfs => "spin-bfs",
        }
    }

    pub(super) const fn is_spin(self) -> bool {
        matches!(self, Self::Spin | Self::SpinCollapse | Self::SpinBfs)
    }

    pub(super) fn failure(self, model: CommonModel, reason: String) -> LabError {
        LabError::Explorer {
            system: self.name(),
            model: model.to_string(),
            reason,
        }
    }
}

impl fmt::Display for ExplorationTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ExplorationTool {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = Self::ALL.into_iter().find(|system| system.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no system {text:?}: choose from {names}")
        })
    }
}
