//! Why a command of the laboratory failed, and what to try next.

use crate::LabError;
use farslot_terminal::failure::Failure;

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            error if error.is_usage() => Self::Usage(error.to_string()),
            LabError::Bench(error) => error.into(),
            LabError::NotInstalled { program, .. } => Self::Failed(format!(
                "{error}\n  install it:  sudo apt-get install {program}    (or scripts/peers install)"
            )),
            error => Self::Failed(error.to_string()),
        }
    }
}
