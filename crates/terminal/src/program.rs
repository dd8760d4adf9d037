//! How a program runs: its command line, what it asks for, and why that failed.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use crate::settings::{Rejected, Settings};
use clap::Parser;
use farslot::StoreError;
use std::process::ExitCode;

/// Parses the command line of a program, runs what it asks for, and reports a failure.
#[must_use]
pub fn run<P: Parser, C>(
    parts: impl FnOnce(P) -> (Context, C),
    run: impl FnOnce(C, &Context) -> Result<()>,
) -> ExitCode {
    let read = Settings::read(P::command(), std::env::args_os().collect());
    let parsed = read.and_then(|settings| {
        let parsed = P::from_arg_matches(settings.matches()).map_err(Rejected::CommandLine)?;
        Ok((parts(parsed), settings))
    });
    let (context, command) = match parsed {
        Ok(((context, command), settings)) => (
            Context {
                settings,
                ..context
            },
            command,
        ),
        Err(rejected) => {
            let failure = match rejected {
                Rejected::CommandLine(error) => bad_address(&error).unwrap_or_else(|| error.exit()),
                Rejected::File(failure) => failure,
            };
            let as_json = std::env::args_os().any(|argument| argument == "--json");
            output::report(&failure, as_json);
            return failure.exit_code();
        }
    };
    output::log_to_stderr();
    let failure = match run(command, &context) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_output() => return ExitCode::SUCCESS,
        Err(failure) => match &context.address {
            Some(_) if failure.is_refused_right() => context.with_refused_table(failure),
            Some(address) => failure.at(address),
            None => failure,
        },
    };
    if !matches!(failure, Failure::Reported) {
        output::report(&failure, context.json);
    }
    failure.exit_code()
}

/// An address that cannot be used is reported as the store says it, and in the form that was asked
/// for.
fn bad_address(error: &clap::Error) -> Option<Failure> {
    let source = std::error::Error::source(error)?;
    let said = source.downcast_ref::<StoreError>()?;
    Some(said.clone().into())
}
