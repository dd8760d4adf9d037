//! The commands of the README and of each page of the book, as they are printed, one after the
//! other, from an empty directory.
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
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
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
    blocks
}

/// The README, and the pages of the book that have blocks of commands.
fn documents() -> Vec<String> {
    let mut documents = vec!["README.md".to_owned()];
    let mut folders = vec![repository().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                let path = path.strip_prefix(repository()).unwrap();
                documents.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    documents.retain(|document| !blocks(document).is_empty());
    documents.sort();
    assert!(documents.len() > 15, "{documents:?}");
    documents
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

/// In one test: pages serve at the same addresses.
#[test]
fn every_command_works_as_it_is_printed() {
    let openssl = Command::new("openssl").arg("version").output();
    let kinds: &[&str] = match openssl {
        Ok(_) => &["", "openssl"],
        Err(_) => &[""],
    };
    for document in documents() {
        run(&document, kinds);
    }
}

#[test]
#[ignore = "measures for minutes: scripts/test --all"]
fn every_measurement_works_as_it_is_printed() {
    let is_slow = |(kind, _): &(String, String)| kind == "slow";
    let mut slow = documents();
    slow.retain(|document| blocks(document).iter().any(is_slow));
    assert!(slow.len() > 1, "{slow:?}");
    for document in slow {
        run(&document, &["", "slow"]);
    }
}

#[test]
fn what_commands_in_the_repository_name_is_there() {
    let mut named = 0;
    for document in documents() {
        for (kind, block) in blocks(&document) {
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
                    ["cargo", "test", "-p", package, ..] => package.replace("farslot-", "crates/"),
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
