//! The example runs to its end, and is short.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_example_runs() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/new_structure.rs");
    let lines = std::fs::read_to_string(source).unwrap().lines().count();
    assert!(lines < 80, "new_structure has {lines} lines");
    // Where `cargo test` puts the examples: beside the folder of this test program.
    let program = std::env::current_exe().unwrap();
    let target = program.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples/new_structure");
    let output = Command::new(&program).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "new_structure failed: {said}");
    assert!(!output.stdout.is_empty(), "new_structure says nothing");
}
