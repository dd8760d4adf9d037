//! A C program over the library, by one process and by three; and the header that it includes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `FARSLOT_WRITE_HEADER=1 cargo test -p farslot-capi` writes it.
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
    assert_eq!(String::from_utf8(made).unwrap(), committed);
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

fn compiled(directory: &Path) -> PathBuf {
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
    compiler.arg(here().join("tests/program.c")).arg(library());
    compiler
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    assert!(compiler.status().unwrap().success());
    program
}

#[test]
fn a_c_program_of_one_or_three_processes_inserts_each_word_once() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path());
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
