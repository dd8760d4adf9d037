//! `farslot completions` and `farslot man`: what clap knows of the commands, for shells and for
//! people.

use clap::Command;
use clap_complete::Shell;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::io::{self, Write};
use std::path::PathBuf;

/// The options of `farslot completions`.
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell: for bash, for instance, `source <(farslot completions bash)`
    shell: Shell,
}

/// The options of `farslot man`.
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory, which must be there
    directory: PathBuf,
}

/// Writes the script of a shell to standard output.
///
/// # Errors
/// Of standard output.
pub(crate) fn completions(args: &CompletionsArgs, command: &mut Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "farslot", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// Writes a page for the program and one for each of its commands.
///
/// # Errors
/// What the file system says.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<()> {
    let failed = Failure::io(args.directory.display().to_string());
    clap_mangen::generate_to(command, &args.directory).map_err(failed)?;
    output::note(format_args!(
        "written: {} (try: man {}/farslot.1)",
        args.directory.display(),
        args.directory.display()
    ));
    Ok(())
}
