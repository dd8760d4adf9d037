//! One exploration in a process of its own.

use super::model::CommonModel;
use super::outcome::OneExplored;
use super::stateright;
use super::system::ExplorationTool;
use crate::Result;
use farslot_bench::process::memory_of;
use farslot_explore::explicit::{Options, Progress};
use farslot_explore::models::Named;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a process is to explore.
#[derive(Clone, Copy, Debug)]
pub struct One {
    /// Ours or Stateright.
    pub system: ExplorationTool,
    /// The model.
    pub model: CommonModel,
    /// Threads.
    pub workers: NonZeroUsize,
}

impl One {
    /// Explores, in this process.
    ///
    /// # Errors
    /// [`Explorer`](crate::LabError::Explorer).
    pub(crate) fn explore(self) -> Result<OneExplored> {
        bound_memory();
        let own = std::process::id();
        let before = memory_of(own, "VmRSS:");
        let explored = match self.system {
            ExplorationTool::Farslot => self.ours()?,
            _ => stateright::explore(self.model, self.workers.get(), self.system)?,
        };
        let peak = memory_of(own, "VmHWM:").zip(before);
        Ok(OneExplored {
            peak_bytes: peak.map(|(peak, before)| peak.saturating_sub(before)),
            ..explored
        })
    }

    fn ours(self) -> Result<OneExplored> {
        let failed = |reason: String| self.system.failure(self.model, reason);
        let model: Named = self
            .model
            .to_string()
            .parse()
            .map_err(|error| failed(format!("{error}")))?;
        let options = Options {
            threads: self.workers,
            check_invariant: true,
            ..Options::default()
        };
        let found = model.explore(&options, None, &Progress::default());
        let found = found.map_err(|error| failed(error.to_string()))?;
        if found.trace.is_some() {
            return Err(failed("the invariant is violated".into()));
        }
        Ok(OneExplored {
            states: found.explored.states,
            seconds: found.explored.seconds,
            set_bytes: Some(found.explored.bytes),
            peak_bytes: None,
        })
    }
}

/// Lets this process fail where it needs more than three quarters of the machine's memory, rather
/// than the machine's other processes.
fn bound_memory() {
    let most = farslot_explore::machine_memory() / 4 * 3;
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // A system that refuses leaves it unbounded.
    let _ = setrlimit(Resource::Data, limit);
}

/// Explores in a process of the program `farslot-lab`.
pub(super) fn run(
    program: &Path,
    system: ExplorationTool,
    model: CommonModel,
    workers: usize,
) -> Result<OneExplored> {
    let failed = |reason: String| system.failure(model, reason);
    let output = Command::new(program)
        .args(["explore-one", "--system", system.name()])
        .args(["--model", &model.to_string()])
        .args(["--workers", &workers.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        // One that is killed, as for want of memory, says nothing itself.
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}; {}", output.status, said.trim())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}
