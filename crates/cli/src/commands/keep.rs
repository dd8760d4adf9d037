//! `farslot keep`: holds the memory of a node beyond the node's process.

use farslot::FabricError;
use farslot::keeper::{Keeper, Place, serve};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::path::{Path, PathBuf};

/// The options of `farslot keep`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name that `farslot serve --keep` was given
    name: String,
    /// The directory of --keep-dir [default: $XDG_RUNTIME_DIR/farslot]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// End the keeper, and with it the memory that it holds; the node must have ended
    #[arg(long)]
    end: bool,
}

/// The place of a name.
///
/// # Errors
/// That there is no directory for it, or one that is not this user's alone.
pub fn place(directory: Option<&Path>, name: &str, option: &str) -> Result<Place> {
    let directory = match directory {
        Some(directory) => {
            std::path::absolute(directory).map_err(Failure::io(directory.display().to_string()))?
        }
        None => match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("farslot"),
            _ => {
                return Err(Failure::Usage(format!(
                    "nothing says where the keeper is to be found: XDG_RUNTIME_DIR is not set\n  \
                     name a directory that is yours alone: {option} DIR"
                )));
            }
        },
    };
    Place::new(&directory, name).map_err(failure)
}

/// Holds what it is given, until it is not needed any more; or ends the one that does.
///
/// # Errors
/// That there is none to be ended, or that its node still runs.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let place = place(args.dir.as_deref(), &args.name, "--dir")?;
    if !args.end {
        return match serve(&place).map_err(failure)? {
            true => Ok(()),
            false => Err(Failure::Failed(format!(
                "{:?} has a keeper already in {}",
                args.name,
                place.directory().display()
            ))),
        };
    }
    let Some(mut keeper) = Keeper::connect(&place).map_err(failure)? else {
        return Err(Failure::Failed(format!(
            "no keeper of {:?} runs in {}",
            args.name,
            place.directory().display()
        )));
    };
    keeper.drop_memory().map_err(|error| match error {
        FabricError::MemoryInUse { .. } => {
            Failure::Failed(format!("{error}\n  end the node first, then its memory"))
        }
        error => failure(error),
    })?;
    match context.json {
        true => output::json(&serde_json::json!({ "ended": args.name })),
        false => output::line(format!("the memory {:?} is not kept any more", args.name)),
    }
}

/// What a keeper fails with.
pub fn failure(error: FabricError) -> Failure {
    match error {
        FabricError::BadName { name, reason } => {
            Failure::Usage(format!("{name:?} is no name for kept memory: {reason}"))
        }
        error => Failure::Failed(error.to_string()),
    }
}
