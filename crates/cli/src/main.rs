//! The program `farslot`.

use std::process::ExitCode;

fn main() -> ExitCode {
    farslot_cli::main()
}
