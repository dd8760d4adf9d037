//! The demo, on a small directory.

use crate::common::{assert_fails, error_of, farslot, one_object, wait_until};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn small_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..50 {
        let below = directory.path().join(format!(".d{}", number % 5));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join(format!("it's {number}")), "x".repeat(number)).unwrap();
    }
    directory
}

fn demo(directory: &tempfile::TempDir, more: &[&str]) -> Command {
    let mut command = farslot(["demo", "--lookups", "5000"]);
    command.arg(directory.path()).args(more);
    command
}

#[test]
fn every_file_is_put_and_every_answer_is_right() {
    let directory = small_directory();
    let output = demo(&directory, &["--json"]).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    assert_eq!(report["entries"], 50);
    assert_eq!(report["wrong"], 0);
    assert_eq!(report["answers_checked"], 5_500);
    assert!(report["misses"].as_u64().unwrap() > 0);
    assert!(report["reads_per_hit"].as_f64().unwrap() >= 1.0);
    assert!(report["node_cpu_seconds"].is_number());
    assert_eq!(report["next"].as_array().unwrap().len(), 3);
}

#[test]
fn the_table_is_for_people_too() {
    let output = demo(&small_directory(), &["--threads", "3"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "entries",
        "load factor",
        "reads per lookup",
        "p99",
        "CPU of the memory node",
        "Try next",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn paths_without_files_are_named() {
    let empty = tempfile::tempdir().unwrap();
    assert_fails(
        &demo(&empty, &[]).output().unwrap(),
        1,
        &["there are no files in"],
    );
    let missing = farslot(["demo", "/nonexistent/path"]).output().unwrap();
    assert_fails(&missing, 1, &["/nonexistent/path: No such file"]);
}

#[test]
fn what_a_kept_demo_suggests_works_and_its_node_ends_with_it() {
    let directory = small_directory();
    let mut kept = demo(&directory, &["--keep"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(kept.stdout.take().unwrap()).lines();
    let commands: Vec<String> = lines
        .map(|line| line.unwrap())
        .skip_while(|line| !line.starts_with("Try next"))
        .skip(1)
        .take(3)
        .collect();
    for (command, part) in commands
        .iter()
        .zip(["\"inode\":", "load factor", "\"key\":"])
    {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains(part),
            "{command}: {text}"
        );
    }
    let address = format!("shm://demo-{}", kept.id());
    kept.kill().unwrap();
    kept.wait().unwrap();
    // Its standard input is closed: it ends by itself.
    let is_gone = || {
        let output = farslot(["-a", &address, "stat"]).output().unwrap();
        error_of(&output).contains("no process serves")
    };
    assert!((0..2_000).any(|_| is_gone()), "the node stays");
}

#[test]
fn what_a_demo_suggests_works() {
    let output = demo(&small_directory(), &["--json"]).output().unwrap();
    let report = one_object(&output);
    let next: Vec<&str> = report["next"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_str().unwrap())
        .collect();
    // The same commands, on a node with a name of its own, which ends with the script.
    let name = crate::common::fresh_address();
    let directory = small_directory();
    let script = next.join("\n").replace("shm://work", &name);
    let root = report["path"].as_str().unwrap();
    let script = script.replace(root, directory.path().to_str().unwrap());
    let script = format!("{script}\nstatus=$?\nkill $!\nexit $status\n");
    let run = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", error_of(&run));
    assert!(text.contains("records  50"), "{text}");
}

#[test]
fn a_demo_whose_node_is_killed_says_so() {
    let directory = small_directory();
    let mut command = farslot(["demo", "--lookups", "1_000_000_000_000"]);
    let demo = command
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = format!("shm://demo-{}", demo.id());
    let is_filled = || {
        let count = farslot(["-a", &address, "count", "files"])
            .output()
            .unwrap();
        count.stdout == b"50\n"
    };
    wait_until(is_filled, || "the demo's table is never filled".into());
    let children = format!("/proc/{0}/task/{0}/children", demo.id());
    let node = std::fs::read_to_string(children).unwrap();
    let killed = Command::new("kill").args(["-KILL", node.trim()]).status();
    assert!(killed.unwrap().success());
    let output = demo.wait_with_output().unwrap();
    assert_fails(&output, 1, &["has stopped", &address]);
}
