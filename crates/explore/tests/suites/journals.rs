//! Explorations that were cut off go on from their journals.

use crate::nets::{kanban, philosophers, stocks};
use farslot_explore::ExploreError;
use farslot_explore::explicit::{Explored, Options, Progress, explore_net};
use farslot_explore::formula::Formula;
use farslot_explore::models::Named;
use farslot_explore::net::Net;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the test program, started by itself, writes its journal.
const CHILD: &str = "FARSLOT_EXPLORE_TEST_JOURNAL";
const CHILD_TEST: &str = "journals::explores_until_killed";

fn explored(net: &Net, journal: Option<&Path>) -> Result<Explored, ExploreError> {
    let options = Options {
        threads: 2.try_into().unwrap(),
        ..Options::default()
    };
    explore_net(net, None, &options, journal, &Progress::default()).map(|found| found.0)
}

fn same(one: &Explored, two: &Explored) -> bool {
    let numbers = |e: &Explored| (e.states, e.transitions, e.deadlocks, e.depth, e.tokens);
    numbers(one) == numbers(two)
}

#[test]
fn a_journal_that_is_cut_off_anywhere_is_gone_on_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    for net in [philosophers(7), stocks(4)] {
        cut_off_and_gone_on(&net, &path);
        std::fs::remove_file(&path).unwrap();
    }
}

fn cut_off_and_gone_on(net: &Net, path: &Path) {
    let whole = explored(net, Some(path)).unwrap();
    let bytes = std::fs::read(path).unwrap();
    for end in (0..bytes.len())
        .step_by(bytes.len() / 40)
        .chain([bytes.len() - 1, bytes.len()])
    {
        std::fs::write(path, &bytes[..end]).unwrap();
        match explored(net, Some(path)) {
            Ok(again) => assert!(same(&again, &whole), "cut off at {end}: {again:?}"),
            Err(ExploreError::WrongJournal { .. }) => assert!(end < 100, "the header's length"),
            Err(error) => panic!("cut off at {end}: {error}"),
        }
    }
}

#[test]
fn a_built_in_models_journal_is_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let explored = |name: &str, journal| {
        let model: Named = name.parse().unwrap();
        let found = model.explore(&Options::default(), journal, &Progress::default());
        found.map(|found| found.explored)
    };
    let whole = explored("2pc:4", None).unwrap();
    assert!(same(&explored("2pc:4", Some(&path)).unwrap(), &whole));
    let bytes = std::fs::read(&path).unwrap();
    for end in (100..bytes.len()).step_by(bytes.len() / 10) {
        std::fs::write(&path, &bytes[..end]).unwrap();
        let again = explored("2pc:4", Some(&path)).unwrap();
        assert!(same(&again, &whole), "cut off at {end}: {again:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "cut off at {end}");
    }
    for other in ["2pc:5", "2pc-broken:4", "peterson"] {
        let refused = explored(other, Some(&path));
        assert!(
            matches!(refused, Err(ExploreError::WrongJournal { .. })),
            "{other}: {refused:?}"
        );
    }
    assert_eq!(
        std::fs::read(&path).unwrap(),
        bytes,
        "nobody has changed it"
    );
}

#[test]
fn damage_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let net = philosophers(5);
    let whole = explored(&net, Some(&path)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        match explored(&net, Some(&path)) {
            Ok(again) => assert!(same(&again, &whole), "damaged at {at}: {again:?}"),
            Err(ExploreError::WrongJournal { .. }) => assert!(at < 100, "the header's length"),
            Err(error) => panic!("damaged at {at}: {error}"),
        }
    }
}

#[test]
fn a_journal_of_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    explored(&philosophers(4), Some(&path)).unwrap();
    let other = explored(&kanban(1), Some(&path));
    assert!(
        matches!(other, Err(ExploreError::WrongJournal { .. })),
        "{other:?}"
    );
    let net = philosophers(4);
    let formula = Formula::parse("eat0 < 1", &net).unwrap();
    let options = Options::default();
    let other = explore_net(
        &net,
        Some(&formula),
        &options,
        Some(&path),
        &Progress::default(),
    );
    assert!(matches!(other, Err(ExploreError::WrongJournal { .. })));
}

/// Not a test of its own: what the next one starts as another process.
#[test]
fn explores_until_killed() {
    if let Some(path) = std::env::var_os(CHILD) {
        explored(&kanban(3), Some(Path::new(&path))).unwrap();
    }
}

#[test]
fn a_killed_process_loses_nothing_but_time() {
    let directory = tempfile::tempdir().unwrap();
    let net = kanban(3);
    let whole = explored(&net, None).unwrap();
    assert_eq!(whole.states, 58_400);
    for kill_at in [200, 20_000, 200_000] {
        let path = directory.path().join(format!("journal-{kill_at}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD_TEST])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let length = || std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        while length() < kill_at && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let again = explored(&net, Some(&path)).unwrap();
        assert!(same(&again, &whole), "killed at {kill_at} bytes: {again:?}");
    }
}
