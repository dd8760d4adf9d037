//! `farslot explore`, as a user meets it.

use crate::common::{error_of, farslot, one_object};
use farslot_set::job::{Job, Launch};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// One token that goes to one of two places and back: three markings.
const CHOICE: &str = r#"<pnml><net id="choice" type="http://www.pnml.org/version-2009/grammar/ptnet"><page id="page">
<place id="start"><initialMarking><text>1</text></initialMarking></place><place id="left"/><place id="right"/>
<transition id="to_left"/><arc id="a1" source="start" target="to_left"/><arc id="a2" source="to_left" target="left"/>
<transition id="to_right"/><arc id="a3" source="start" target="to_right"/><arc id="a4" source="to_right" target="right"/>
<transition id="back"/><arc id="a5" source="left" target="back"/><arc id="a6" source="back" target="start"/>
</page></net></pnml>
"#;

#[test]
fn a_net_is_explored_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("choice.pnml");
    let path = path.to_str().unwrap();
    std::fs::write(path, CHOICE).unwrap();
    for (symbolic, depth) in [
        (&[][..], serde_json::json!(1)),
        (&["--symbolic"], serde_json::Value::Null),
    ] {
        let args = [&["explore", path, "--json"], symbolic].concat();
        let output = farslot(args).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let found = one_object(&output);
        assert_eq!(found["model"], "choice");
        assert_eq!(
            [&found["states"], &found["transitions"], &found["deadlocks"]],
            [3, 3, 1]
        );
        assert_eq!(
            [
                &found["max_token_in_place"],
                &found["max_token_per_marking"]
            ],
            [1, 1]
        );
        assert_eq!(found["depth"], depth);
        for number in ["seconds", "preparation_seconds", "bytes_per_state"] {
            assert!(found[number].is_f64(), "{number}");
        }
    }
    for symbolic in [&[][..], &["--symbolic"]] {
        let violated = ["explore", path, "--invariant", "left + right = 0"];
        let output = farslot([&violated, symbolic].concat()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said.contains("violated after 1 step:\n  initially: start\n  to_"),
            "{said}"
        );
        let holds = ["explore", path, "--invariant", "left + right <= 1"];
        let output = farslot([&holds, symbolic].concat()).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
    }
}

#[test]
fn a_marking_that_is_looked_for_is_reached_by_a_shortest_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pnml");
    std::fs::write(&path, ring(4)).unwrap();
    let path = path.to_str().unwrap();
    for way in [
        &[][..],
        &["--processes", "2"],
        &["--symbolic"],
        &["--symbolic", "--processes", "2", "--threads", "2"],
    ] {
        for (formula, code, said) in [
            (
                "p3 = 1 and p1 = 3",
                0,
                "is reached after 6 steps:\n  initially",
            ),
            ("p0 + p1 > 4", 1, "no marking that can be reached meets"),
            ("p9 = 1", 2, "no place \"p9\""),
        ] {
            let args = [&["explore", path, "--reach", formula], way].concat();
            let output = farslot(args).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{}", error_of(&output));
            let told = String::from_utf8_lossy(&output.stdout).into_owned() + &error_of(&output);
            assert!(told.contains(said), "{told}");
        }
    }
}

#[test]
fn models_by_name_and_errors_are_told() {
    let output = farslot(["explore", "2pc:3", "--json"]).output().unwrap();
    assert_eq!(one_object(&output)["states"], 288);
    for more in [&[][..], &["--processes", "2"]] {
        let found = numbers_of("2pc:3", &[&["--symbolic"], more].concat());
        assert_eq!(found["model"], "2pc:3");
        assert_eq!(found["states"], 288);
    }
    let output = farslot(["explore", "2pc-broken:3", "--symbolic"]).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(
        said.contains("the invariant is violated after 3 steps:\n  initially: undecided working0"),
        "{said}"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.pnml");
    std::fs::write(
        &path,
        CHOICE.replace("target=\"left\"", "target=\"nowhere\""),
    )
    .unwrap();
    let cut = directory.path().join("cut.pnml.gz");
    let packed = gzipped(CHOICE);
    std::fs::write(&cut, &packed[..packed.len() - 1]).unwrap();
    for (args, code, said) in [
        (
            ["explore", path.to_str().unwrap()],
            1,
            "line 3: an arc's target names \"nowhere\"",
        ),
        (
            ["explore", "missing.pnml"],
            1,
            "missing.pnml: cannot be read: ",
        ),
        (
            ["explore", "missing.pnml.gz"],
            1,
            "missing.pnml.gz: cannot be read: ",
        ),
        (
            ["explore", cut.to_str().unwrap()],
            1,
            "cut.pnml.gz: cannot be unpacked: ",
        ),
        (
            ["explore", "2pc:0"],
            2,
            "resource managers is 0: it must be from 1 to 1000",
        ),
        (["explore", "4pc:3"], 2, "no model is called \"4pc:3\""),
    ] {
        let output = farslot(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(
            error_of(&output).contains(said),
            "{args:?}: {}",
            error_of(&output)
        );
    }
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_compressed_net_is_explored_whatever_its_file_is_called() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["choice.pnml.gz", "choice.pnml", "choice"] {
        let path = directory.path().join(name);
        std::fs::write(&path, gzipped(CHOICE)).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(numbers_of(path, &[])["states"], 3, "{name}");
        let together = numbers_of(path, &["--processes", "2"]);
        assert_eq!(together["states"], 3, "{name}");
    }
}

/// A net whose markings are all ways to spread tokens over six places in a ring: C(9, 4) for four
/// of them.
fn ring(all: u32) -> String {
    let places: String = (0..6)
        .map(|at| {
            let tokens = if at == 0 { all } else { 0 };
            format!(
                "<place id=\"p{at}\"><initialMarking><text>{tokens}</text></initialMarking></place>\n"
            )
        })
        .collect();
    let steps: String = (0..6)
        .map(|at| {
            let next = (at + 1) % 6;
            format!(
                "<transition id=\"t{at}\"/><arc id=\"a{at}\" source=\"p{at}\" target=\"t{at}\"/>\
                 <arc id=\"b{at}\" source=\"t{at}\" target=\"p{next}\"/>\n"
            )
        })
        .collect();
    let net_type = "http://www.pnml.org/version-2009/grammar/ptnet";
    format!(
        "<pnml><net id=\"ring\" type=\"{net_type}\"><page id=\"page\">\n{places}{steps}</page></net></pnml>\n"
    )
}

#[test]
fn a_marking_whose_way_takes_too_much_memory_is_told_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pnml");
    std::fs::write(&path, ring(100)).unwrap();
    let path = path.to_str().unwrap();
    let args = ["--symbolic", "--memory", "4MiB", "--reach", "p5 = 100"];
    let output = farslot([&["explore", path], &args[..]].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told =
        "is reached, but the memory does not suffice to find a shortest way there:\n  p5=100";
    assert!(said.contains(told), "{said}");
}

/// What an exploration of a net finds, without what differs from way to way.
fn numbers_of(net: &str, args: &[&str]) -> serde_json::Value {
    let output = loop {
        let output = farslot([&["explore", net, "--json"], args].concat()).output();
        let output = output.unwrap();
        // One that has lost the others may not have noticed yet.
        if !error_of(&output).contains("another process writes it") {
            break output;
        }
    };
    assert!(output.status.success(), "{args:?}: {}", error_of(&output));
    let mut found = one_object(&output);
    for differs in ["seconds", "preparation_seconds", "bytes_per_state"] {
        found.as_object_mut().unwrap().remove(differs);
    }
    found
}

#[test]
fn several_processes_find_what_one_finds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pnml");
    std::fs::write(&path, ring(4)).unwrap();
    let path = path.to_str().unwrap();
    let numbers = |args: &[&str]| numbers_of(path, args);
    let alone = numbers(&[]);
    assert_eq!([&alone["states"], &alone["transitions"]], [126, 336]);
    for args in [
        &["--processes", "1"][..],
        &["--processes", "2"],
        &["--processes", "3", "--over", "tcp"],
        &["--processes", "3", "--over", "sim", "--seed", "5"],
        &["--processes", "2", "--table", "shared"],
        &["--processes", "3", "--over", "tcp", "--table", "shared"],
    ] {
        assert_eq!(numbers(args), alone, "{args:?}");
    }
    let symbolic = numbers(&["--symbolic"]);
    assert_eq!(symbolic["states"], alone["states"]);
    for args in [
        &["--symbolic", "--threads", "2"][..],
        &["--symbolic", "--processes", "2"],
        &["--symbolic", "--processes", "2", "--threads", "2"],
    ] {
        assert_eq!(numbers(args), symbolic, "{args:?}");
    }
    let args = ["--symbolic", "--processes", "2", "--over", "tcp"];
    let refused = farslot([&["explore", path], &args[..]].concat())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", error_of(&refused));
}

/// Of two processes with journals both are killed, one by the test, and the other by itself when it
/// has lost the first; they go on from where they were.
#[test]
fn killed_processes_go_on_from_their_journals() {
    let directory = tempfile::tempdir().unwrap();
    let [net, journal] = ["ring.pnml", "journal"].map(|name| directory.path().join(name));
    std::fs::write(&net, ring(12)).unwrap();
    let journal = journal.to_str().unwrap();
    // A net and a built-in model, of which rank 0's journal has some 50 and 80 KB in the end.
    for (model, states) in [(net.to_str().unwrap(), 6188), ("2pc:5", 8832)] {
        killed_and_gone_on(model, states, journal);
    }
}

fn killed_and_gone_on(net: &str, states: u64, journal: &str) {
    let of_rank = |rank: u32| format!("{journal}.{rank}-of-2");
    let length = |rank| std::fs::metadata(of_rank(rank)).map_or(0, |data| data.len());
    let numbers = |args: &[&str]| numbers_of(net, args);
    let alone = numbers(&[]);
    assert_eq!(alone["states"], states);
    let args = ["--processes", "2", "--journal", journal];
    for kill_at in [1000, 12_000] {
        let mut first = farslot([&["explore", net, "--json"], &args[..]].concat());
        let mut first = first.stdout(std::process::Stdio::null()).spawn().unwrap();
        while length(0) < kill_at && first.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(numbers(&args), alone, "killed at {kill_at} bytes");
        for rank in 0..2 {
            assert!(length(rank) > 1000, "rank {rank} has written levels");
            std::fs::remove_file(of_rank(rank)).unwrap();
        }
    }
}

/// Started one by one, as on several machines: by options, and by what mpirun sets.
#[test]
fn processes_meet_where_they_are_told() {
    let address = fresh_rendezvous(3);
    let args = ["explore", "2pc:3", "--json", "--rendezvous", &address];
    let mut ranks = Vec::new();
    for rank in ["1", "2"] {
        let mut other = farslot(args);
        other.args(["--rank", rank, "--ranks", "3"]);
        other.stdout(std::process::Stdio::piped());
        ranks.push(other.spawn().unwrap());
    }
    let mut first = farslot(args);
    first.env("OMPI_COMM_WORLD_RANK", "0");
    let first = first.env("OMPI_COMM_WORLD_SIZE", "3").output().unwrap();
    assert!(first.status.success(), "{}", error_of(&first));
    assert_eq!(one_object(&first)["states"], 288);
    for other in ranks {
        let output = other.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
    }
}

/// A loopback address of this process's own, on which nobody else takes ports.
fn fresh_rendezvous(last: u8) -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{}.{middle}.{low}:70{last:02}", 1 + high % 250)
}

/// What processes end with that meet, each with a rank, of so many, and more arguments.
fn met(last: u8, ranks: &[(&str, &str, &[&str])]) -> Vec<std::process::Output> {
    let address = fresh_rendezvous(last);
    let started = ranks.iter().map(|(rank, of, more)| {
        let mut process = farslot(["explore", "--rendezvous", &address]);
        process.args(["--rank", rank, "--ranks", of]).args(*more);
        process.stdout(std::process::Stdio::piped());
        process.stderr(std::process::Stdio::piped());
        process.spawn().unwrap()
    });
    let started: Vec<_> = started.collect();
    let ended = started.into_iter();
    ended
        .map(|process| process.wait_with_output().unwrap())
        .collect()
}

#[test]
fn processes_that_do_not_fit_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, net: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, net).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = path("one.pnml", ring(4));
    let weight = "target=\"t3\"><inscription><text>2</text></inscription></arc>";
    let other = ring(4).replacen("target=\"t3\"/>", weight, 1);
    let other = path("other.pnml", other.replacen("\"ring\"", "\"pair\"", 1));
    let refused = |last, ranks: &[(&str, &str, &[&str])], parts: &[&str]| {
        for output in met(last, ranks) {
            assert_eq!(output.status.code(), Some(1), "{}", error_of(&output));
            for part in parts {
                assert!(
                    error_of(&output).contains(part),
                    "{part}: {}",
                    error_of(&output)
                );
            }
        }
    };
    let model = ["the model of rank 1 is", "pair", "that of rank 0", "ring"];
    refused(10, &[("0", "2", &[&one]), ("1", "2", &[&other])], &model);
    let symbolic: [&[&str]; 2] = [
        &[&one, "--symbolic", "--over", "shm"],
        &[&other, "--symbolic", "--over", "shm"],
    ];
    refused(
        11,
        &[("0", "2", symbolic[0]), ("1", "2", symbolic[1])],
        &model,
    );
    let condition = ["the condition of rank 1 is none, that of rank 0 --reach p0 = 9"];
    let looking: &[&str] = &[&one, "--symbolic", "--over", "shm", "--reach", "p0 = 9"];
    refused(
        16,
        &[("0", "2", looking), ("1", "2", symbolic[0])],
        &condition,
    );
    let checked: &[&str] = &[&one, "--invariant", "p0 < 9"];
    let condition = ["the condition of rank 1 is none, that of rank 0 --invariant p0 < 9"];
    refused(12, &[("0", "2", checked), ("1", "2", &[&one])], &condition);
    refused(
        13,
        &[("0", "2", &["2pc:3"]), ("1", "2", &["2pc:4"])],
        &["the model of rank 1 is 2pc:4, that of rank 0 2pc:3"],
    );
    refused(
        14,
        &[
            ("0", "3", &[&one]),
            ("1", "3", &[&one]),
            ("1", "3", &[&one]),
        ],
        &["two processes say that they are rank 1 of 3"],
    );
}

#[test]
fn a_second_process_of_a_rank_is_told_that_the_job_has_begun() {
    let address = fresh_rendezvous(15);
    let rank = |rank| {
        let args = ["explore", "2pc:3", "--rendezvous", &address];
        let mut process = farslot([&args[..], &["--rank", rank, "--ranks", "2"]].concat());
        process.stdout(std::process::Stdio::piped());
        process.stderr(std::process::Stdio::piped());
        process.spawn().unwrap()
    };
    let first = rank("0");
    // This process is rank 1, and holds up the job that has begun.
    let launch = Launch {
        rank: 1,
        ranks: 2,
        rendezvous: Some(address.clone()),
        ..Launch::alone()
    };
    let job = Job::join(launch).unwrap();
    let late = rank("1").wait_with_output().unwrap();
    assert_eq!(late.status.code(), Some(1), "{}", error_of(&late));
    let said = "rank 1 comes too late: the job of 2 ranks";
    assert!(error_of(&late).contains(said), "{}", error_of(&late));
    drop(job);
    let first = first.wait_with_output().unwrap();
    let said = error_of(&first);
    assert!(said.contains("rank 1 has ended"), "{said}");
}

#[test]
fn unbounded_nets_are_said_to_be_so_and_names_are_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("unbounded.pnml");
    let loose = CHOICE.replace(
        "<transition id=\"back\"/>",
        "<transition id=\"back\"/><arc id=\"a7\" source=\"back\" target=\"right\"/>",
    );
    std::fs::write(&path, loose).unwrap();
    let path = path.to_str().unwrap();
    for more in [
        &[][..],
        &["--symbolic", "--memory", "64MiB"],
        &["--processes", "2"],
    ] {
        let output = farslot([&["explore", path], more].concat())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", error_of(&output));
        let said = "the net is unbounded: place \"right\" can get any number of tokens";
        assert!(error_of(&output).contains(said), "{}", error_of(&output));
    }
    // A marking that is looked for is found all the same.
    for way in [&[][..], &["--symbolic"]] {
        let found = farslot([&["explore", path, "--reach", "right = 3"], way].concat())
            .output()
            .unwrap();
        assert!(found.status.success(), "{}", error_of(&found));
    }
    let path = directory.path().join("escapes.pnml");
    let named = CHOICE.replace("\"choice\"", "\"c&#27;[31m\"");
    let named = named.replace("\"left\"", "\"l&#27;]0;title&#7;\"");
    let named = named.replace("\"to_left\"", "\"t\u{202e}t\"");
    std::fs::write(&path, named).unwrap();
    let path = path.to_str().unwrap();
    let output = farslot(["explore", path, "--reach", "right + start = 0"]).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(said.contains("c\\u{1b}[31m: "), "{said}");
    assert!(
        said.contains("t\\u{202e}t: l\\u{1b}]0;title\\u{7}"),
        "{said}"
    );
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
}

#[test]
fn several_processes_find_a_violation_and_refuse_what_they_cannot_do() {
    let output = farslot(["explore", "peterson-broken", "--processes", "2"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the invariant is violated after "), "{said}");
    for args in [
        &["--processes", "0"][..],
        &["--processes", "2", "--threads", "2"],
        &["--symbolic", "--reach", "known0 = 1"],
        &["--rank", "1"],
        &["--reach", "p = 1"],
        &["--processes", "2", "--over", "sim", "--journal", "file"],
        &["--table", "shared"],
        &["--rendezvous", "127.0.0.1:1", "--over", "sim"],
    ] {
        let output = farslot([&["explore", "2pc:3"], args].concat())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            error_of(&output)
        );
    }
}
