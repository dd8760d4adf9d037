//! The options of the program, as its users find them.

use crate::common::farslot;
use clap::Command as Definition;

/// Every command of the program, with the program's own options.
fn commands() -> Vec<Definition> {
    let mut definition = farslot_cli::definition();
    definition.build();
    definition.get_subcommands().cloned().collect()
}

#[test]
fn the_options_of_all_commands_are_under_a_heading_of_their_own() {
    let mut seen = 0;
    for command in commands() {
        for option in command
            .get_arguments()
            .filter(|option| option.is_global_set())
        {
            if ["help", "version"].contains(&option.get_id().as_str()) {
                continue;
            }
            let heading = option.get_help_heading();
            assert_eq!(
                heading,
                Some("Global options"),
                "{}: {option}",
                command.get_name()
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
    let help = farslot(["put", "-h"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (own, global) = help.split_once("\nGlobal options:\n").unwrap();
    assert!(
        own.contains("--ttl") && !own.contains("--secret-file"),
        "{own}"
    );
    assert!(
        global.contains("--address") && !global.contains("--ttl"),
        "{global}"
    );
}
