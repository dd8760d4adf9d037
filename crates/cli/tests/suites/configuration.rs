//! Where the options of `farslot serve` come from: flags, the environment, a file; and what SIGHUP
//! changes of them.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, one_object, wait_for};
use crate::tls::Bed;
use clap::{Arg, ArgAction, Command as Definition};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Every command of the program, with the program's own options.
fn commands() -> Vec<Definition> {
    let mut definition = farslot_cli::definition();
    definition.build();
    definition.get_subcommands().cloned().collect()
}

/// What a file may say of `serve`: all of its flags, but those that are about the file itself.
fn options() -> (Definition, Vec<Arg>) {
    let commands = commands().into_iter();
    let serve = commands.filter(|command| command.get_name() == "serve");
    let serve: Definition = serve.last().unwrap();
    let options = serve.get_arguments().filter(|option| {
        let key = option.get_long().unwrap_or_default();
        !["", "config", "check-config", "help", "version"].contains(&key)
    });
    let options: Vec<Arg> = options.cloned().collect();
    assert!(options.len() > 25, "{}", options.len());
    (serve, options)
}

fn key(option: &Arg) -> &str {
    option.get_long().unwrap()
}

/// A value that `serve` takes for an option, beside those of all others.
fn sample(bed: &Bed, option: &Arg) -> String {
    let name = option.get_value_names().unwrap().first().unwrap();
    let file = match (name.as_str(), key(option)) {
        ("ADDRESS", _) => return "tcps://127.0.0.1:0".into(),
        ("HEX", _) => return bed.issue_own(),
        ("HOST:PORT", _) => return "127.0.0.1:0".into(),
        ("HOW", _) => return "calls".into(),
        ("N", _) => return "3".into(),
        ("NAME", _) => return "some.example".into(),
        ("NETWORK", _) => return "10.0.0.0/8".into(),
        ("POLICY", _) => return "volatile-lru".into(),
        ("SIZE", _) => return "64MiB".into(),
        ("TIME", _) => return "5m".into(),
        ("FILE", "tls-cert") => "own.pem",
        ("FILE", "tls-key") => "own.key",
        ("FILE", "tls-ca") => "ca",
        ("FILE", "tls-client-ca") => "client-ca",
        (_, key) => key,
    };
    bed.at(file).display().to_string()
}

/// What is checked and printed as JSON, by the options' keys.
fn checked(command: &mut Command) -> BTreeMap<String, Value> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let options = one_object(&output)["options"].take();
    serde_json::from_value(options).unwrap()
}

#[test]
fn every_option_is_taken_from_the_file_a_flag_or_its_variable_alike() {
    let bed = Bed::new();
    bed.write("secret-file", b"a secret for everything");
    bed.write("read-only-secret-file", b"a secret for readers");
    bed.write("redis-secret-file", b"a secret for redis");
    bed.write("grants", b"");
    let (serve, options) = options();
    let mut variables = 0;
    for option in &options {
        let excluded = serve.get_arg_conflicts_with(option);
        let excludes = |other: &&Arg| !excluded.iter().any(|arg| arg.get_id() == other.get_id());
        let others = options.iter().filter(excludes);
        // What excludes one of the others goes without it, and is looked at by itself.
        let others = others.filter(|other| {
            other.get_id() == option.get_id() || serve.get_arg_conflicts_with(other).is_empty()
        });
        let (mut all, mut rest) = (String::new(), String::new());
        let mut said = None;
        for other in others {
            let value = match other.get_action() {
                ArgAction::SetTrue => toml::Value::from(true),
                ArgAction::Append => vec![sample(&bed, other)].into(),
                _ => sample(&bed, other).into(),
            };
            let line = format!("{} = {value}\n", key(other));
            all += &line;
            if other.get_id() == option.get_id() {
                said = Some(value);
            } else {
                rest += &line;
            }
        }
        bed.write("all.toml", all.as_bytes());
        bed.write("rest.toml", rest.as_bytes());
        let check = |file: &str| {
            let mut command = farslot(["serve", "--json", "--check-config", "--config"]);
            command.arg(bed.at(file));
            command
        };
        let value = match said.unwrap() {
            toml::Value::Array(values) => values[0].as_str().map(Into::into),
            value => value.as_str().map(ToOwned::to_owned),
        };
        let mut by_flag = check("rest.toml");
        match &value {
            None if key(option) == "json" => {}
            None => drop(by_flag.arg(format!("--{}", key(option)))),
            Some(value) => drop(by_flag.arg(format!("--{}={value}", key(option)))),
        }
        let mut ways = vec![("file", check("all.toml")), ("flag", by_flag)];
        if let (Some(variable), Some(value)) = (option.get_env(), &value) {
            let mut by_variable = check("rest.toml");
            by_variable.env(variable, value);
            ways.push(("environment", by_variable));
            variables += 1;
        }
        let mut found: Vec<BTreeMap<String, Value>> = Vec::new();
        for (from, mut command) in ways {
            let mut options = checked(&mut command);
            let of_this = options.get_mut(key(option)).unwrap();
            if key(option) != "json" {
                assert_eq!(of_this["from"], from, "{option}: {of_this}");
            }
            // All but where they come from.
            for said in options.values_mut() {
                *said = said["value"].take();
            }
            found.push(options);
        }
        assert!(
            found.iter().all(|one| *one == found[0]),
            "{option}: {found:?}"
        );
    }
    assert!(variables > 4, "{variables}");
}

/// A directory with a configuration.
struct Place(tempfile::TempDir);

impl Place {
    fn new(configuration: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("farslot.toml", configuration);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    /// `serve` by this configuration, in this directory.
    fn serve(&self, args: &[&str]) -> Command {
        let mut command = farslot(["serve", "--config", "farslot.toml"]);
        command.args(args).current_dir(self.0.path());
        command
    }

    fn check(&self, args: &[&str]) -> Output {
        self.serve(args).arg("--check-config").output().unwrap()
    }

    fn log(&self) -> PathBuf {
        self.at("log")
    }

    fn start(&self, args: &[&str]) -> Node {
        let mut command = self.serve(args);
        command.arg("--while-stdin");
        command.stderr(File::create(self.log()).unwrap());
        Node::start_command(command)
    }
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let place = Place::new("address = 'tcp://127.0.0.1:1'\nsecret-file = 'absent'\nthreads = 2\n");
    place.write("secret", "a secret in a file");
    let address = |command: &mut Command| {
        let options = checked(command.args(["--check-config", "--json"]));
        let said = &options["address"];
        format!("{} {}", said["value"].as_str().unwrap(), said["from"])
    };
    assert_fails(&place.check(&[]), 1, &["absent: No such file"]);
    // The variable has the secret itself.
    let by_variables = |args: &[&str]| {
        let mut command = place.serve(args);
        command.env("FARSLOT_SECRET", "a secret of the environment");
        command.env("FARSLOT_ADDRESS", "tcp://127.0.0.1:2");
        command
    };
    assert_eq!(
        address(&mut by_variables(&[])),
        "tcp://127.0.0.1:2 \"environment\""
    );
    for args in [
        &["--address", "tcp://127.0.0.1:3", "--secret-file", "secret"][..],
        &["tcp://127.0.0.1:3"],
    ] {
        assert_eq!(
            address(&mut by_variables(args)),
            "tcp://127.0.0.1:3 \"flag\""
        );
    }
    let with_secret = place.check(&["--secret-file", "secret", "--grant", "some"]);
    let said = String::from_utf8(with_secret.stdout).unwrap();
    for line in [
        "address = \"tcp://127.0.0.1:1\" # file, line 1",
        "secret-file = \"secret\" # flag",
        "threads = 2 # file, line 3",
        "grant = \"some\" # flag",
        "# redis-threads = 1 # default",
    ] {
        assert!(said.lines().any(|there| there == line), "{line}: {said}");
    }
    let shown = by_variables(&["--check-config"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("FARSLOT_SECRET"), "{shown}");
    assert!(!shown.contains("a secret of the environment"), "{shown}");
}

#[test]
fn what_is_printed_is_a_configuration_that_comes_to_the_same() {
    let place = Place::new("memory = '64MiB'\nalso = ['tcp://127.0.0.1:0']\ninsecure = true\n");
    let values = |output: &Output| -> Vec<String> {
        assert!(output.status.success(), "{}", error_of(output));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines = text.lines().map(|line| line.rsplit_once(" # ").unwrap().0);
        lines.map(Into::into).collect()
    };
    let printed = place.check(&["shm://printed", "--snapshot-dir", "a \"b\" # c"]);
    place.write("farslot.toml", &String::from_utf8_lossy(&printed.stdout));
    let mut expected = values(&printed);
    let mut again = values(&place.check(&[]));
    expected.sort();
    again.sort();
    assert_eq!(expected, again);
}

#[test]
fn a_configuration_is_checked_beside_the_node_that_runs_with_it() {
    let place = Place::new("memory = '64MiB'\nsnapshot-dir = 'snapshots'\nrestore = true\n");
    let node = place.start(&[ANY_PORT]);
    node.ok(["create", "t", "-c", "10"]);
    let checked = place.check(&[&node.address, "--metrics", "127.0.0.1:0"]);
    assert!(checked.status.success(), "{}", error_of(&checked));
    node.ok(["put", "t", "key", "value"]);
    drop(node);
    for (args, code, parts) in [
        (
            &["tcp://0.0.0.0:0"][..],
            1,
            &["can be reached from other machines"][..],
        ),
        (&["tcp://no.such.host.example:0"], 1, &["no.such.host"]),
        (&["tcps://127.0.0.1:0"], 2, &["--tls-cert FILE"]),
        (&["embedded"], 2, &["no process that could serve it"]),
        (
            &["verbs://127.0.0.1:0", "--also", ANY_PORT],
            2,
            &["no other address"],
        ),
        (
            &[ANY_PORT, "--threads", "2000"],
            1,
            &["threads is 2000", "from 1 to 1024"],
        ),
        (&[ANY_PORT, "--memory", "1"], 1, &["bytes of memory, not 1"]),
        (&[ANY_PORT, "--metrics", "0.0.0.0:0"], 1, &["--trust"]),
        (&[ANY_PORT, "--redis", "0.0.0.0:0"], 1, &["--redis-secret"]),
        (
            &[ANY_PORT, "--redis", "127.0.0.1:0", "--redis-threads", "0"],
            2,
            &["threads cannot be 0"],
        ),
        (
            &[ANY_PORT, "--audit", "absent/audit"],
            1,
            &["absent/audit: No such file"],
        ),
        (&[ANY_PORT, "--grants", "grants"], 2, &["--secret-file"]),
        (&[], 2, &["nothing says where to serve"]),
    ] {
        assert_fails(&place.check(args), code, parts);
    }
    let file = Place::new("snapshot-dir = 'farslot.toml'\n");
    assert_fails(&file.check(&[ANY_PORT]), 1, &["farslot.toml"]);
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line_and_what_is_wanted() {
    let nearest = |key: &str| format!("a similar one is {key:?}");
    for (text, parts) in [
        ("memroy = '1GiB'", &["memroy", &nearest("memory")][..]),
        ("snapshot_dir = 'a'", &[&nearest("snapshot-dir")]),
        ("xyz = 1", &["unknown key \"xyz\"", "serve --help"]),
        // A file that names another, and what is no option of serving.
        ("config = 'other.toml'", &["unknown key \"config\""]),
        (
            "confg = 'other.toml'",
            &["keys are the flags of `serve --help`"],
        ),
        ("check-config = true", &["unknown key \"check-config\""]),
        ("help = true", &["unknown key \"help\""]),
        (
            "threads = true",
            &["threads: a string or a number", "boolean"],
        ),
        ("threads = 'four'", &["'four'", "--threads <N>"]),
        ("threads = [1]", &["threads: a string or a number", "array"]),
        ("memory = 'lots'", &["'lots'", "--memory <SIZE>"]),
        ("insecure = 'yes'", &["insecure: true or false", "string"]),
        (
            "audit = 5",
            &["audit: a string is wanted (FILE)", "integer"],
        ),
        (
            "trust = [true]",
            &["trust: ", "an array of such", "boolean"],
        ),
        ("trust = '10.0.0.1/8'", &["10.0.0.1/8", "is no network"]),
        ("also = ['tpc://a:1']", &["unknown scheme \"tpc\""]),
        ("access = 'none'", &["'none'", "reads, calls, auto"]),
        ("[redis]\nthreads = 1", &["redis: a string", "table"]),
        ("snapshot-every = '5m'", &["--snapshot-dir <DIR>"]),
        ("snapshot-every = 5", &["no time such as 500us"]),
        ("memory = ", &["column 10"]),
        ("memory = 1\nmemory = 2", &["duplicate key"]),
    ] {
        let place = Place::new(&format!("# A comment.\ngrant = 'some'\n{text}\n"));
        let refused = place.check(&[ANY_PORT]);
        assert_fails(&refused, 2, &["farslot.toml"]);
        // A key that is there twice is wrong where it is there again.
        let line = match parts {
            ["duplicate key"] => "line 4",
            _ => "line 3",
        };
        assert_fails(&refused, 2, &[line]);
        assert_fails(&refused, 2, parts);
        // It serves as little.
        assert_fails(&place.serve(&[ANY_PORT]).output().unwrap(), 2, parts);
    }
    let place = Place::new(&"# ".repeat(600_000));
    assert_fails(&place.check(&[]), 1, &["at most 1048576 bytes"]);
    std::fs::write(place.at("farslot.toml"), [0xff]).unwrap();
    assert_fails(&place.check(&[]), 1, &["farslot.toml", "UTF-8"]);
    std::fs::remove_file(place.at("farslot.toml")).unwrap();
    assert_fails(&place.check(&[]), 1, &["farslot.toml: No such file"]);
    // What is wrong with the command line is not the file's fault.
    place.write("farslot.toml", "threads = 2\n");
    let output = place.check(&[ANY_PORT, "--memory", "lots"]);
    assert_fails(&output, 2, &["'lots'"]);
    assert!(!error_of(&output).contains("farslot.toml"));
}

fn with_secret(node: &Node, secret: &Path, args: &[&str]) -> Output {
    let mut command = node.command(args);
    command.arg("--secret-file").arg(secret).output().unwrap()
}

#[test]
fn sighup_applies_what_can_change_and_names_what_needs_a_restart() {
    let place = Place::new("");
    place.write("first", "the first of the secrets");
    place.write("second", "the second of the secrets");
    place.write("grants.toml", "");
    let say = |node: &Node, text: &str| {
        place.write("farslot.toml", text);
        node.hang_up();
    };
    place.write(
        "farslot.toml",
        "memory = '64MiB'\nsecret-file = 'first'\nthreads = 3\nsnapshot-dir = 'snapshots'\n\
         snapshot-every = '1h'\n",
    );
    let node = place.start(&[ANY_PORT, "--threads", "2"]);
    let told = |said: &str| wait_for(&place.log(), 1, said);
    let create = ["create", "t", "-c", "10"];
    assert!(
        with_secret(&node, &place.at("first"), &create)
            .status
            .success()
    );

    say(
        &node,
        "memory = '128MiB'\nsecret-file = 'second'\nthreads = 4\nsnapshot-dir = 'snapshots'\n\
         snapshot-every = '50ms'\nsnapshot-keep = 1\ngrants = 'grants.toml'\nredis = '127.0.0.1:0'\n",
    );
    for said in [
        "secret-file is \"second\" now; it was \"first\"",
        "snapshot-every is \"50ms\" now; it was \"1h\"",
        "snapshot-keep is 1 now; it was 2",
        "grants is \"grants.toml\" now; it was not set",
        "memory is \"64MiB\" until a restart; then it is \"128MiB\"",
        "redis is not set until a restart; then it is \"127.0.0.1:0\"",
    ] {
        told(said);
    }
    let has_snapshot = || std::fs::read_dir(place.at("snapshots")).unwrap().count() > 0;
    crate::common::wait_until(has_snapshot, || "no snapshot".into());
    let stat = |secret: &str| with_secret(&node, &place.at(secret), &["stat"]);
    assert_fails(&stat("first"), 1, &["the secret is wrong"]);
    assert!(stat("second").status.success());

    // Nothing of a damaged file is in force, and nothing of the other files is read again.
    for (before, damaged) in ["memory = ", "memroy = 1\n"].into_iter().enumerate() {
        say(&node, &format!("secret-file = 'first'\n{damaged}"));
        wait_for(&place.log(), before + 1, "everything stays as it was");
    }
    told("a similar one is \"memory\"");
    assert!(stat("second").status.success());

    // What can be used no more without a secret stays closed.
    say(&node, "memory = '64MiB'\nsnapshot-dir = 'snapshots'\n");
    told("all secrets stay as they were");
    told("grants is not set now; it was \"grants.toml\"");
    told("snapshot-every is not set now; it was \"50ms\"");
    told("secret-file is \"second\" until a restart; then it is not set");
    assert_fails(&node.run(["stat"]), 1, &["needs a secret"]);
    let log = std::fs::read_to_string(place.log()).unwrap();
    // The flag says the number of threads.
    assert!(!log.contains("threads"), "{log}");
}

#[test]
fn a_node_that_was_open_can_be_closed_while_it_serves() {
    let place = Place::new("memory = '64MiB'\n");
    place.write("secret", "a secret for everything");
    let node = place.start(&[ANY_PORT]);
    node.ok(["create", "t", "-c", "10"]);
    place.write("farslot.toml", "memory = '64MiB'\nsecret-file = 'secret'\n");
    node.hang_up();
    let said = "secret-file is \"secret\" now; it was not set";
    wait_for(&place.log(), 1, said);
    assert_fails(&node.run(["stat"]), 1, &["needs a secret"]);
    let stat = with_secret(&node, &place.at("secret"), &["stat"]);
    assert!(stat.status.success(), "{}", error_of(&stat));
}

#[test]
fn a_node_of_shared_memory_reads_its_file_again_too() {
    let place = Place::new("memory = '64MiB'\n");
    // Names are the machine's: another checkout may be tested beside this one.
    let node = place.start(&[&format!("shm://configured-{}", std::process::id())]);
    place.write(
        "farslot.toml",
        "memory = '64MiB'\nsnapshot-dir = 'snapshots'\n",
    );
    node.hang_up();
    let said = "snapshot-dir is not set until a restart; then it is \"snapshots\"";
    wait_for(&place.log(), 1, said);
    node.ok(["stat"]);
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
