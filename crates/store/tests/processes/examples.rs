//! The examples run to their end.

use std::path::PathBuf;
use std::process::Command;

/// Where `cargo test` puts the examples: beside the folder of this test program.
fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.parent().and_then(|deps| deps.parent()).unwrap();
    target.join("examples").join(name)
}

#[test]
fn every_example_runs() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut ran = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let source = std::fs::read_to_string(&file).unwrap();
        assert!(
            source.lines().count() < 80,
            "{name} is longer than 80 lines"
        );
        let program = example(name);
        let output = Command::new(&program).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {said}");
        ran += 1;
    }
    assert!(ran >= 6);
}
