//! The program `farslot-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    farslot_lab::program::main()
}
