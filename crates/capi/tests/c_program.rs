//! C programs over the library, and the header that they include.

use farslot::admission::Secret;
use farslot::{Server, ServerOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

const HOW: &str = "FARSLOT_WRITE_HEADER=1 cargo test -p farslot-capi, which writes it";

#[test]
fn the_header_is_what_cbindgen_makes() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(here())
        .with_config(config)
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let header = here().join("include/farslot.h");
    if std::env::var_os("FARSLOT_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&header).unwrap();
    let made = String::from_utf8(made).unwrap();
    for (number, (new, old)) in made.lines().zip(committed.lines()).enumerate() {
        assert_eq!(new, old, "line {}; see {HOW}", number + 1);
    }
    assert_eq!(made.len(), committed.len(), "see {HOW}");
}

/// The static library that cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let files = std::fs::read_dir(directory).unwrap();
    let archives = files.map(|file| file.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libfarslot_capi") && name.ends_with(".a")
    });
    let built = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    archives
        .max_by_key(built)
        .expect("cargo builds the library as an archive")
}

fn compiled(directory: &Path, source: &str) -> PathBuf {
    let program = directory.join("program");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
    ]);
    compiler.arg("-I").arg(here().join("include"));
    compiler.arg(here().join(source)).arg(library());
    compiler
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    assert!(compiler.status().unwrap().success());
    program
}

#[test]
fn a_c_program_of_one_or_three_processes_inserts_each_word_once() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "tests/program.c");
    // A loopback address of this process's own, on which nobody else takes ports.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{middle}.{low}:7004", 1 + high % 250);
    for ranks in [1, 3] {
        let processes: Vec<_> = (0..ranks)
            .map(|rank| {
                let mut command = Command::new(&program);
                command.env("RENDEZVOUS", &address);
                command.env("PMI_RANK", rank.to_string());
                command.env("PMI_SIZE", ranks.to_string());
                command.stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut inserted = 0;
        for process in processes {
            let output = process.wait_with_output().unwrap();
            assert!(output.status.success());
            let said = String::from_utf8(output.stdout).unwrap();
            let number = said.trim().strip_prefix("inserted ").unwrap();
            inserted += number.parse::<u64>().unwrap();
        }
        assert_eq!(inserted, 20_000, "{ranks} processes");
    }
}

/// Runs a program to its end: what it prints.
fn said(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

const MEMORY: u64 = 256 << 20;

fn served(addresses: &[&str], options: &ServerOptions) -> (Server, Vec<String>) {
    let server = Server::start_with(addresses, MEMORY, options).unwrap();
    let addresses = server.addresses().iter().map(ToString::to_string).collect();
    (server, addresses)
}

#[test]
fn a_c_program_uses_tables_at_every_address() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "tests/table.c");
    let run = |address: &str, options: &str, forks: bool| {
        let mut command = Command::new(&program);
        command.arg(address).env("OPTIONS", options);
        if forks {
            command.env("FORKS", "yes");
        }
        assert_eq!(said(&mut command), "done\n", "{address}");
    };
    run("embedded", "memory=256MiB", true);
    let name = format!("shm://capi-tables-{}", std::process::id());
    let (_shm, addresses) = served(&[&name], &ServerOptions::default());
    run(&addresses[0], "", true);
    let (_tcp, tcp) = served(&["tcp://127.0.0.1:0"], &ServerOptions::default());
    run(&tcp[0], "connect_timeout=5", true);
    // Several nodes that want a secret to be known.
    let guarded = ServerOptions {
        secrets: vec![Secret::new("a secret of this test").unwrap()],
        ..ServerOptions::default()
    };
    let (_one, one) = served(&["tcp://127.0.0.1:0"], &guarded);
    let (_other, other) = served(&["tcp://127.0.0.1:0"], &guarded);
    let both = format!("{},{}", one[0], other[0].trim_start_matches("tcp://"));
    run(&both, "secret='a secret of this test'", false);
}

/// All of it but forks, of which valgrind would look at the child, too.
#[test]
fn a_c_program_leaves_no_memory_behind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("NOT TESTED: needs valgrind");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "tests/table.c");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    let definite = [
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    command.args(definite);
    command.arg(&program).arg("embedded");
    command.env("OPTIONS", "memory=64MiB").env("SHORT", "yes");
    assert_eq!(said(&mut command), "done\n");
}

#[test]
fn the_example_prints_what_it_has_put() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "examples/users.c");
    let expected = "ada is Ada Lovelace\n3 of 3 are there\nAnn has 85 cents, Bob has 15\n";
    assert_eq!(said(&mut Command::new(&program)), expected);
    let (_tcp, addresses) = served(&["tcp://127.0.0.1:0"], &ServerOptions::default());
    assert_eq!(said(Command::new(&program).arg(&addresses[0])), expected);
}

/// The blocks of C in the book are whole programs.
#[test]
fn the_books_program_prints_what_it_has_put() {
    let page = std::fs::read_to_string(here().join("../../docs/guide/c.md")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("page.c");
    let blocks: Vec<_> = page.split("\n```c\n").skip(1).collect();
    assert_eq!(blocks.len(), 1);
    std::fs::write(&source, blocks[0].split("```").next().unwrap()).unwrap();
    let program = compiled(directory.path(), source.to_str().unwrap());
    assert_eq!(said(&mut Command::new(program)), "Ada Lovelace\n");
}

/// A node that ends while a program uses it, and one whose secret it does not know.
#[test]
fn a_c_program_is_told_of_outages_and_refusals() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "tests/outage.c");
    let guarded = ServerOptions {
        secrets: vec![Secret::new("a secret of this test").unwrap()],
        ..ServerOptions::default()
    };
    let (server, addresses) = served(&["tcp://127.0.0.1:0"], &guarded);
    let mut command = Command::new(&program);
    command
        .arg(&addresses[0])
        .arg("secret='a secret of this test' timeout=2");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(server);
    child.stdin.take().unwrap().write_all(b"on\n").unwrap();
    assert!(child.wait().unwrap().success());
}
