//! The option that says by what operations are done.

use farslot::Access;
use std::fmt;

/// By what a table's operations are done.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessArg {
    /// One-sided verbs alone
    Reads,
    /// Calls, which the owner of the memory executes
    Calls,
    /// Calls over TCP, else one-sided verbs
    #[default]
    Auto,
}

impl From<AccessArg> for Access {
    fn from(arg: AccessArg) -> Self {
        match arg {
            AccessArg::Reads => Self::Reads,
            AccessArg::Calls => Self::Calls,
            AccessArg::Auto => Self::Auto,
        }
    }
}

impl fmt::Display for AccessArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Access::from(*self).fmt(f)
    }
}
