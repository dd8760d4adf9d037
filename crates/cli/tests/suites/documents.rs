//! The commands of the README and of the guide, as they are printed, one after the other, from an
//! empty directory.
//!
//! A block that begins with "```sh" is run. "```sh slow" is run by `scripts/test --all`; "```sh
//! openssl" where there is that program; "```sh repository" is for the directory of the sources,
//! and what it names must be there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands before the commands: those that need a node which was started a moment ago wait for
/// it.
const PRELUDE: &str = r#"
set -eu
trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT
farslot() {
    if [ "$1" = serve ] && [ $BASHPID != $$ ]; then exec farslot-program "$@"; fi
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        farslot-program "$@" 2> error && { cat error >&2; return 0; }
        grep -q -e 'no process serves' -e 'refused the connection' -e 'restores its tables' error || break
        sleep 1
    done
    cat error >&2
    return 1
}
set -x
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The blocks of commands of a document, each with the word behind `sh`.
fn blocks(document: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```sh") {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((kind.trim().to_owned(), block.join("\n")));
        }
    }
    assert!(blocks.len() > 2, "{document}: {blocks:?}");
    blocks
}

/// Runs the blocks of these kinds, as one script.
fn run(document: &str, kinds: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let programs = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_farslot");
    std::os::unix::fs::symlink(program, programs.path().join("farslot-program")).unwrap();
    let blocks = blocks(document).into_iter();
    let chosen = blocks.filter(|(kind, _)| kinds.contains(&kind.as_str()));
    let script: String = chosen.map(|(_, block)| block + "\n").collect();
    let mut command = Command::new("bash");
    for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("FARSLOT")) {
        command.env_remove(variable);
    }
    let path = std::env::var("PATH").unwrap();
    let output = command
        .args(["-c", &format!("{PRELUDE}{script}")])
        .env("PATH", format!("{}:{path}", programs.path().display()))
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{document}: {said}");
}

/// Both serve at the same address.
#[test]
fn every_command_works_as_it_is_printed() {
    let openssl = Command::new("openssl").arg("version").output();
    let kinds: &[&str] = match openssl {
        Ok(_) => &["", "openssl"],
        Err(_) => &[""],
    };
    run("README.md", kinds);
    run("docs/guide.md", kinds);
}

#[test]
#[ignore = "measures for minutes: scripts/test --all"]
fn every_measurement_works_as_it_is_printed() {
    run("docs/guide.md", &["", "slow"]);
}

#[test]
fn what_commands_in_the_repository_name_is_there() {
    let mut named = 0;
    for document in ["README.md", "docs/guide.md"] {
        for (kind, block) in blocks(document) {
            assert!(
                ["", "slow", "openssl", "repository"].contains(&&*kind),
                "{document}: {kind}"
            );
            if kind != "repository" {
                continue;
            }
            for line in block.lines() {
                let words: Vec<_> = line.split_whitespace().collect();
                let path = match words[..] {
                    ["cargo", "install", "--path", path, ..] | ["pip", "install", path, ..] => {
                        path.to_owned()
                    }
                    ["cargo", "run", "--release", "-p", package, ..] => {
                        package.replace("farslot-", "lab/")
                    }
                    ["cargo", "run", "--release", "--", ..] => "crates/cli".to_owned(),
                    [script, ..] => script.to_owned(),
                    [] => continue,
                };
                assert!(repository().join(&path).exists(), "{document}: {line}");
                named += 1;
            }
        }
    }
    assert!(named > 3);
}
