//! `farslot repro`: where the papers' tables and figures are.

use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;

/// Whatever was asked for.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    asked: Vec<String>,
}

/// Says where it is.
///
/// # Errors
/// Where a table or a figure was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.asked.is_empty() {
        return output::line(
            "the tables and figures of the papers are reproduced by the laboratory, a program of its own, which lists them:\n  \
             cargo run --release -p farslot-lab -- repro",
        );
    }
    let asked = args.asked.join(" ");
    Err(Failure::Usage(format!(
        "the tables and figures of the papers are reproduced by the laboratory, a program of its own\n  \
         try:  cargo run --release -p farslot-lab -- repro {asked}"
    )))
}
