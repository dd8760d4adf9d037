//! What was found wrong with the program by trying it, each as a test that failed before.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, lines, one_object};
use farslot_fabric::shm::{self, ShmEndpoint};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, Rights,
};
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Longer than anything takes that is not stuck.
const DEADLINE: Duration = Duration::from_secs(60);

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Two nodes, and the address of both.
fn two() -> ([Node; 2], String) {
    let nodes = [(); 2].map(|()| Node::start_at(ANY_PORT, "64MiB"));
    let second = nodes[1].address.strip_prefix("tcp://").unwrap();
    let both = format!("{},{second}", nodes[0].address);
    (nodes, both)
}

fn run(address: &str, args: &[&str]) -> Output {
    farslot(args).args(["-a", address]).output().unwrap()
}

#[test]
fn a_benchmark_leaves_the_store_alone_that_the_environment_names() {
    let node = Node::start_at(ANY_PORT, "64MiB");
    let size = ["--slots", "16k", "--load", "0.5", "--operations", "4k"];
    let bench = ["bench", "lookup", "--fabric", "tcp"]
        .into_iter()
        .chain(size);
    let output = node
        .command(bench)
        .env("FARSLOT_GRANT", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let stat = node.json(["stat"]);
    assert_eq!(
        (&stat["tables"], &stat["memory_taken"]),
        (&serde_json::json!([]), &0.into())
    );
}

#[test]
fn a_load_with_rejected_lines_fails_and_names_the_first_of_the_file() {
    let node = Node::start();
    node.ok([
        "create",
        "t",
        "-c",
        "10k",
        "--max-key",
        "8",
        "--max-value",
        "32",
    ]);
    // Bad ones of both kinds, for the thread that reads and for those that put.
    let bad = [700, 1_900, 3_000];
    let input: String = (1..4_000)
        .map(|line| match line {
            700 | 3_000 => format!("key too long {line},v\n"),
            1_900 => "one column\n".into(),
            _ => format!("k{line},v\n"),
        })
        .collect();
    for threads in ["1", "3", "4"] {
        let load = [
            "load",
            "t",
            "--threads",
            threads,
            "--json",
            "--show-bad",
            "2",
        ];
        let loaded = node.feed(load, input.as_bytes());
        assert_fails(
            &loaded,
            1,
            &["3 bad lines, more than --max-bad 0 allows", "line 700"],
        );
        let told = one_object(&loaded);
        assert_eq!(
            (&told["bad_lines"], &told["records"]),
            (&3.into(), &3_996.into())
        );
        let first = told["first_bad_lines"].as_array().unwrap();
        let first: Vec<_> = first
            .iter()
            .map(|bad| bad["line"].as_u64().unwrap())
            .collect();
        assert_eq!(first, bad[..2]);
        let enough = node.feed(["load", "t", "--max-bad", "3"], input.as_bytes());
        assert!(enough.status.success(), "{}", error_of(&enough));
        let strict = node.feed(
            ["load", "t", "--strict", "--threads", threads],
            input.as_bytes(),
        );
        assert_fails(&strict, 1, &["error: line 700: a key of"]);
    }
    // All that stands before it is there, and nothing that stands behind it.
    node.ok([
        "create",
        "s",
        "-c",
        "10k",
        "--max-key",
        "8",
        "--max-value",
        "32",
    ]);
    let strict = node.feed(
        ["load", "s", "--strict", "--threads", "4"],
        input.as_bytes(),
    );
    assert_fails(&strict, 1, &["line 700"]);
    for line in 1..700 {
        if line % 50 == 1 {
            node.ok(["get", "s", &format!("k{line}")]);
        }
    }
}

#[test]
fn the_names_of_columns_are_no_record_and_it_is_said_what_the_first_line_was_taken_for() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "100"]);
    for (header, record) in [
        ("id,name", "1,Ada"),
        ("Key,Value", "a,b"),
        ("city,people", "Rome,28"),
    ] {
        let input = format!("{header}\n{record}\n");
        let loaded = node.feed(["load", "t", "--json"], input.as_bytes());
        assert!(error_of(&loaded).contains("names of the columns: "));
        let told = one_object(&loaded);
        assert_eq!(
            (&told["records"], &told["header"]),
            (&1.into(), &true.into())
        );
        let kept = node.feed(["load", "t", "--json", "--no-header"], input.as_bytes());
        let told = one_object(&kept);
        assert_eq!(
            (&told["records"], &told["header"]),
            (&2.into(), &false.into())
        );
        assert!(!error_of(&kept).contains("is taken for"));
    }
    let loaded = node.feed(["load", "t", "--json"], b"ada,1815\n");
    assert!(error_of(&loaded).contains("taken for a record: \"1815\" is no word (--header"));
    assert_eq!(one_object(&loaded)["header"], false);
    let asked = node.feed(["load", "t", "--json"], b"ada,Ada Lovelace\n");
    assert_fails(
        &asked,
        2,
        &["\"ada, Ada Lovelace\"", "say --header or --no-header"],
    );
    // No table is left that the next try would find there.
    for again in [None, Some("--no-header")] {
        let create = ["load", "new", "--create=100"];
        let loaded = node.feed(create.into_iter().chain(again), b"ada,Ada Lovelace\n");
        assert_eq!(
            loaded.status.success(),
            again.is_some(),
            "{}",
            error_of(&loaded)
        );
    }
}

#[test]
fn a_node_that_came_back_empty_is_told_of_and_its_keys_may_be_refused() {
    let (mut nodes, both) = two();
    let created = run(&both, &["create", "t", "-c", "1k", "--json"]);
    // Of the whole table, and not of one node's part.
    let stat = one_object(&run(&both, &["stat", "t", "--json"]));
    let created = one_object(&created);
    for field in ["slots", "table_bytes", "heap_bytes"] {
        assert_eq!(created[field], stat[field], "{field}");
    }
    for number in 0..40 {
        assert!(
            run(&both, &["put", "t", &format!("key-{number}"), "v"])
                .status
                .success()
        );
    }
    let shown = one_object(&run(&both, &["nodes", "--json"]));
    for node in shown["nodes"].as_array().unwrap() {
        // Programs that read JSON numbers as doubles would round it.
        let incarnation = node["incarnation"].as_str().unwrap();
        assert_eq!(incarnation.len(), 16, "{incarnation}");
        assert_eq!(node["lost"], serde_json::json!([]));
    }
    nodes[1].kill();
    // What can be reached is had when that is asked for, and what is missing is named.
    let down = nodes[1].address.clone();
    for command in [&["count", "t"][..], &["dump", "t"]] {
        assert_fails(&run(&both, command), 1, &[&down]);
        let partial = run(&both, &[command, &["--partial"]].concat());
        assert!(partial.status.success(), "{}", error_of(&partial));
        assert!(error_of(&partial).contains(&format!("without what {down} has of it")));
    }
    let counted = one_object(&run(&both, &["count", "t", "--partial", "--json"]));
    let left = counted["count"].as_u64().unwrap();
    assert!((5..35).contains(&left), "{left}");
    assert_eq!(counted["gaps"][0]["node"], *down);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("more.csv");
    std::fs::write(&file, lines(0..40)).unwrap();
    let file = file.to_str().unwrap();
    assert_fails(&run(&both, &["load", "t", file]), 1, &[&down]);
    let loaded = run(&both, &["load", "t", file, "--partial", "--json"]);
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let loaded = one_object(&loaded);
    assert_eq!(loaded["records"], left);
    assert_eq!(loaded["gaps"][0]["records"], 40 - left);

    nodes[1] = Node::start_at(&down, "64MiB");
    // Whatever was done to the table since: what the node had is lost.
    for command in [&["count", "t"][..], &["dump", "t"], &["count", "t"]] {
        assert_fails(
            &run(&both, command),
            1,
            &[&down, "came back empty", "accept-loss"],
        );
    }
    let counted = run(&both, &["count", "t", "--partial"]);
    assert_eq!(text(counted.stdout).trim(), left.to_string());
    let shown = run(&both, &["nodes", "--json"]);
    assert_eq!(
        one_object(&shown)["nodes"][1]["lost"],
        serde_json::json!(["t"])
    );
    let shown = run(&both, &["nodes"]);
    assert!(error_of(&shown).contains(&format!("{down} has lost its part of t")));
    assert!(text(shown.stdout).contains("came back empty"));
    let accepted = run(&both, &["accept-loss", "t", "--json"]);
    assert_eq!(one_object(&accepted)["accepted"], serde_json::json!([down]));
    let counted = run(&both, &["count", "t"]);
    assert_eq!(text(counted.stdout).trim(), left.to_string());
    let shown = run(&both, &["nodes"]);
    assert!(error_of(&shown).is_empty() && !text(shown.stdout).contains("came back empty"));
}

#[test]
fn numbers_are_written_as_people_write_them() {
    let node = Node::start();
    node.ok([
        "create",
        "m",
        "--capacity",
        "1M",
        "--max-key",
        "8",
        "--max-value",
        "8",
    ]);
    let race = [
        "--scheme",
        "race",
        "--grow-to",
        "10k",
        "--max-key",
        "1KiB",
        "--heap",
        "4MiB",
    ];
    node.ok(["create", "r", "-c", "1_000"].iter().chain(&race));
    for bad in ["10m", "-1", "1.5k", ""] {
        assert_fails(&node.run(["create", "b", "-c", bad]), 2, &[]);
    }
    // Whatever they count, and whichever command it is.
    let advise = "advise --entries 10M --key 8B --value 64:9,1KiB:1 --clients 1k --writers 1k \
                  --grow-to 100M --memory 100GiB --client-memory 64MiB";
    let advice = farslot(advise.split_whitespace()).output().unwrap();
    assert!(advice.status.success(), "{}", error_of(&advice));
    for wrong in [
        "bench lookup --fabric shm --slots 1m",
        "bench lookup --fabric shm --operations 1.5k",
        "bench find-or-put --slots much",
        "bench raw --fabric shm --operations 1K",
        "demo --lookups 1m",
        "load t --threads 1x",
        "load t --create=10m",
        "serve shm://m --redis 127.0.0.1:0 --redis-connections 1m",
        "advise --entries 1m --key 8 --value 8",
    ] {
        let refused = farslot(wrong.split_whitespace()).output().unwrap();
        assert_fails(&refused, 2, &["no number such as 10000000"]);
    }
}

#[test]
fn a_negative_number_is_a_value_and_an_absent_key_an_answer() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "100"]);
    node.ok(["put", "t", "k", "-5"]);
    assert_eq!(node.ok(["get", "t", "k"]), b"-5\n");
    node.ok(["put", "t", "-7", "-1.5"]);
    assert_eq!(node.ok(["get", "t", "-7"]), b"-1.5\n");
    assert_eq!(node.json(["del", "t", "-7"])["removed"], 1);
    let absent = node.run(["get", "t", "none", "--json"]);
    assert_fails(&absent, 1, &["no key"]);
    assert_eq!(one_object(&absent)["found"], false);
}

#[test]
fn a_mistake_can_be_undone() {
    let node = Node::start();
    for table in ["a", "b"] {
        node.ok(["create", table, "-c", "1k"]);
        node.ok(["put", table, "k", table]);
    }
    assert_eq!(node.ok(["tables"]), b"a\nb\n");
    let stat = node.json(["stat"]);
    let taken = stat["memory_taken"].clone();
    let by: u64 = ["structure", "records", "dead_records", "room"]
        .iter()
        .map(|part| stat["memory_by"][part].as_u64().unwrap())
        .sum();
    // Tables begin at multiples of 4096.
    let unused = taken.as_u64().unwrap().checked_sub(by);
    assert!(unused.is_some_and(|unused| unused < 2 * 4096), "{stat}");
    assert_fails(&node.run(["rename", "a", "b"]), 1, &["\"b\" already"]);
    assert_eq!(node.json(["rename", "a", "c"])["table"], "c");
    assert_fails(&node.run(["get", "a", "k"]), 1, &["no table \"a\"", "c, b"]);
    assert_eq!(node.ok(["get", "c", "k"]), b"a\n");
    assert_eq!(node.json(["clear", "c"])["cleared"], "c");
    assert_eq!(node.count("c"), 0);
    assert_eq!(node.json(["stat"])["memory_taken"], taken);
    node.ok(["drop", "b"]);
    assert_eq!(node.json(["drop", "c"])["dropped"], "c");
    assert_fails(&node.run(["drop", "c"]), 1, &["no table \"c\""]);
    let listed = node.json(["tables"]);
    assert_eq!(
        (&listed["tables"], &listed["damaged"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    assert_eq!(node.json(["stat"])["memory_taken"], 0);
}

/// Overwrites the words of the first entry of a node's catalog that has any; its number.
fn damage(node: &Node, bytes: &[u8; 32]) -> u64 {
    let name = node.address.strip_prefix("shm://").unwrap();
    let memory = shm::attach(name, Rights::ALL).unwrap();
    let endpoint = Rc::new(ShmEndpoint::new(vec![memory], Limits::default()));
    let executor = Executor::new(Rc::clone(&endpoint));
    let data = endpoint.core().buffers.copy_of(bytes).unwrap();
    let entry_at = |number: u64| RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 4096 + number * 32,
    };
    let state = |number| {
        executor
            .block_on(endpoint.read(entry_at(number), 8))
            .unwrap()
            .words()[0]
    };
    let mut entries = 0..farslot::layout::most_tables(256 << 20) as u64;
    let first = entries.find(|number| state(*number) != 0).unwrap();
    executor
        .block_on(endpoint.write(entry_at(first), data))
        .unwrap();
    first
}

#[test]
fn an_entry_that_is_damaged_is_cleared_and_its_memory_is_free_again() {
    let node = Node::start();
    let nothing = node.run(["repair"]);
    assert!(nothing.status.success() && error_of(&nothing).contains("no entry of a catalog"));
    for table in ["a", "b"] {
        node.ok(["create", table, "-c", "1k"]);
        node.ok(["put", table, "k", table]);
    }
    let taken = |node: &Node| node.json(["stat"])["memory_taken"].as_u64().unwrap();
    let of_both = taken(&node);
    let entry = damage(&node, &[0xff; 32]);
    let is_there = |table: &&str| node.run(["get", *table, "k"]).status.success();
    let (lost, left) = match ["a", "b"].iter().position(is_there) {
        Some(0) => ("b", "a"),
        _ => ("a", "b"),
    };
    let named = format!("entry {entry} of the catalog");
    assert_fails(&node.run(["get", lost, "k"]), 1, &[&named]);
    // Without more ado it only says what there is.
    for _ in 0..2 {
        let said = node.json(["repair"]);
        let of_node = &said["nodes"][0];
        assert_eq!(
            (&said["cleared"], &of_node["entries"][0]["entry"]),
            (&false.into(), &entry.into())
        );
        // The second table ends where its last byte is, and the first where the second begins.
        let bytes = of_node["bytes"].as_u64().unwrap();
        assert!(bytes.next_multiple_of(4096) >= of_both / 2, "{said}");
        assert_eq!(text(node.ok(["repair"])).lines().count(), 2);
    }
    let cleared = text(node.ok(["repair", "--apply"]));
    assert!(
        cleared.contains(&format!("{named} is damaged")),
        "{cleared}"
    );
    assert_eq!(taken(&node), of_both / 2);
    assert_eq!(node.json(["tables"])["damaged"], serde_json::json!([]));
    assert_eq!(text(node.ok(["get", left, "k"])).trim_end(), left);
    node.ok(["create", lost, "-c", "1k"]);
    assert_eq!((node.count(lost), taken(&node)), (0, of_both));
}

/// Pages that a node has in memory.
fn resident_pages(node: &Node) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", node.process.id())).unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Makes a table, fills it and drops it, again and again.
fn come_and_go(rounds: u32) {
    let node = Node::start_at(ANY_PORT, "256MiB");
    let records = lines(0..30_000);
    let mut after_first = 0;
    for round in 0..rounds {
        node.ok(["create", "t"]);
        let loaded = node.feed(["load", "t"], records.as_bytes());
        assert!(loaded.status.success(), "{}", error_of(&loaded));
        node.ok(["drop", "t"]);
        let pages = resident_pages(&node);
        if round == 0 {
            after_first = pages;
        }
        // Less than the records of two rounds take: it is the same memory.
        assert!(
            pages < after_first * 5 / 4,
            "{round}: {pages} pages, and {after_first}"
        );
    }
    assert!(after_first > 500, "{after_first} pages hold the records");
    println!(
        "{after_first} pages after the first of {rounds}, {} now",
        resident_pages(&node)
    );
    assert_eq!(node.json(["stat"])["memory_taken"], 0);
}

#[test]
fn a_node_takes_no_more_memory_however_often_tables_come_and_go() {
    come_and_go(4);
}

#[test]
#[ignore = "takes minutes: scripts/test --all"]
fn a_node_takes_no_more_memory_after_100_tables() {
    come_and_go(100);
}

#[test]
fn a_table_needs_no_numbers_and_counts() {
    let node = Node::start();
    let created = node.json(["create", "sessions"]);
    assert_eq!(created["scheme"], "race");
    assert!(
        created["most_slots"].as_u64().unwrap() > 100_000,
        "{created}"
    );
    assert_eq!(node.ok(["increment", "sessions", "visits"]), b"1\n");
    assert_eq!(
        node.json(["increment", "sessions", "visits", "-3"])["value"],
        -2
    );
    node.ok(["compare-and-set", "sessions", "k", "v", "--absent"]);
    let other = node.run(["compare-and-set", "sessions", "k", "x", "w", "--json"]);
    assert_fails(&other, 1, &[]);
    assert_eq!(one_object(&other)["changed"], false);
    node.ok(["compare-and-set", "sessions", "k", "v", "w"]);
    assert_eq!(node.ok(["get", "sessions", "k"]), b"w\n");
    assert_fails(
        &node.run(["compare-and-set", "sessions", "k", "v"]),
        2,
        &["--absent"],
    );
    node.ok(["exists", "sessions", "k"]);
    assert_fails(&node.run(["exists", "sessions", "none"]), 1, &[]);
    assert_eq!(node.ok(["get", "sessions", "none", "--or", "-1"]), b"-1\n");
    assert_fails(
        &node.run(["increment", "sessions", "k"]),
        1,
        &["\"w\"", "64 bits"],
    );
    // As many come as go.
    for round in 0..3 {
        let first = round * 2_000;
        let loaded = node.feed(["load", "sessions"], lines(first..first + 2_000).as_bytes());
        assert!(loaded.status.success(), "{}", error_of(&loaded));
        let keys = (first..first + 2_000).map(|number| format!("key-{number}"));
        node.ok(["del".to_owned(), "sessions".to_owned()]
            .into_iter()
            .chain(keys));
    }
    assert_eq!(node.count("sessions"), 2);
}

#[test]
fn a_dump_that_is_interrupted_leaves_no_file() {
    let node = Node::start();
    let create = [
        "load",
        "t",
        "--create=200k",
        "--max-key",
        "16",
        "--max-value",
        "32",
    ];
    let loaded = node.feed(create, lines(0..200_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let directory = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut interrupted = 0;
    // It may have ended before it was told to: then the dump is there, and nothing else.
    for attempt in 0..20 {
        let file = directory.path().join(format!("{attempt}.csv"));
        let mut dump = node.spawn(["dump".as_ref(), "t".as_ref(), file.as_os_str()]);
        let since = Instant::now();
        while files() == 0 && dump.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < DEADLINE);
            std::thread::yield_now();
        }
        let killed = Command::new("kill")
            .args(["-INT", &dump.id().to_string()])
            .status();
        assert!(killed.is_ok());
        let ended = dump.wait().unwrap();
        let dumped = usize::from(file.exists());
        assert_eq!(files(), dumped, "{ended}");
        assert_eq!(ended.success(), dumped == 1);
        interrupted += 1 - dumped;
        let _ = std::fs::remove_file(file);
    }
    assert!(interrupted > 0, "all dumps were faster than the signal");
}

#[test]
fn repro_lists_and_fails_only_for_what_it_cannot_do() {
    let listed = farslot(["repro"]).output().unwrap();
    assert!(listed.status.success());
    assert!(text(listed.stdout).contains("farslot-lab -- repro"));
    assert_fails(
        &farslot(["repro", "000-table1"]).output().unwrap(),
        2,
        &["repro 000-table1"],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_the_work() {
    let since = Instant::now();
    let calibrate = ["calibrate", "embedded", "-o", "/nonexistent/mine.toml"];
    let output = farslot(calibrate).output().unwrap();
    assert_fails(&output, 1, &["/nonexistent/mine.toml", "No such file"]);
    // It measures for minutes.
    assert!(since.elapsed() < DEADLINE);
}

#[test]
fn a_dump_to_nowhere_names_what_the_user_has_named() {
    let node = Node::start();
    node.ok(["create", "t"]);
    let output = node.run(["dump", "t", "/nonexistent/t.csv"]);
    assert_fails(&output, 1, &["/nonexistent/t.csv: No such file"]);
    assert!(!error_of(&output).contains(".tmp"), "{output:?}");
}

#[test]
fn tables_fit_the_width_that_there_is() {
    let node = Node::start();
    for table in ["a", "b"] {
        node.ok(["create", table, "-c", "100"]);
    }
    for columns in ["60", "80"] {
        let output = node
            .command(["stat"])
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        let shown = text(output.stdout);
        let table = shown.lines().skip(1);
        let widest = table.map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{shown}");
    }
}

#[test]
fn spans_of_time_are_said_in_units_that_people_use() {
    use farslot_fabric::{FabricError, NodeId};
    let error = FabricError::TimedOut {
        node: NodeId(1),
        after: 2_500_000_000,
    };
    assert_eq!(error.to_string(), "node 1 did not answer within 2.5 s");
}

#[test]
fn shells_and_manuals_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = farslot(["completions", shell]).output().unwrap();
        let script = text(script.stdout);
        assert!(
            script.contains("take-over") && script.contains("max-bad"),
            "{shell}"
        );
    }
    assert_fails(
        &farslot(["completions", "cmd.exe"]).output().unwrap(),
        2,
        &["bash"],
    );
    let directory = tempfile::tempdir().unwrap();
    let man = farslot(["man".as_ref(), directory.path().as_os_str()])
        .output()
        .unwrap();
    assert!(man.status.success(), "{}", error_of(&man));
    let load = std::fs::read_to_string(directory.path().join("farslot-load.1")).unwrap();
    assert!(load.contains("max\\-bad"), "{load}");
    assert!(directory.path().join("farslot.1").exists());
    let nowhere = farslot(["man", "/nonexistent"]).output().unwrap();
    assert_fails(&nowhere, 1, &["/nonexistent"]);
}
