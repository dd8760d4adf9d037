//! The variables of the environment that the program reads, and the book's table of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The variables of options, as clap has them.
fn of_options(command: &clap::Command, variables: &mut BTreeSet<String>) {
    let options = command.get_arguments().filter_map(clap::Arg::get_env);
    variables.extend(options.map(|variable| variable.to_str().unwrap().to_owned()));
    for command in command.get_subcommands() {
        of_options(command, variables);
    }
}

/// The folders of the crates that the program is made of.
fn crates() -> BTreeSet<PathBuf> {
    let all: toml::Table = read(workspace().join("Cargo.toml")).parse().unwrap();
    let all = all["workspace"]["dependencies"].as_table().unwrap();
    let mut found = BTreeSet::new();
    let mut left = vec![PathBuf::from("crates/cli")];
    while let Some(folder) = left.pop() {
        let manifest = workspace().join(&folder).join("Cargo.toml");
        let manifest: toml::Table = read(manifest).parse().unwrap();
        found.insert(folder);
        for name in manifest["dependencies"].as_table().unwrap().keys() {
            let path = all.get(name).and_then(|dependency| dependency.get("path"));
            let path = path.map(|path| PathBuf::from(path.as_str().unwrap()));
            left.extend(path.filter(|path| !found.contains(path)));
        }
    }
    assert!(found.len() > 8, "{found:?}");
    found
}

/// The sources in a folder without those of tests, which their parents declare as such.
fn sources(folder: &Path, sources: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "rs");
    let texts: Vec<String> = entries.iter().filter(is_source).map(read).collect();
    // A folder's modules are declared in it, or in the file beside it.
    let beside = folder.with_extension("rs");
    let beside = beside.exists().then(|| read(beside));
    let is_test = |path: &Path| {
        let module = path.file_stem().unwrap().to_str().unwrap();
        texts.iter().chain(&beside).any(|text| {
            let declared = text
                .split("#[cfg(")
                .filter(|part| part.starts_with("test)]") || part.starts_with("all(test"));
            declared.into_iter().any(|part| {
                let declaration = part.lines().nth(1).unwrap_or_default();
                declaration.ends_with(&format!("mod {module};"))
            })
        })
    };
    for path in &entries {
        if is_test(path) {
            continue;
        }
        if path.is_dir() {
            self::sources(path, sources);
        } else if is_source(&path) {
            let text = read(path);
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            sources.push(code.to_owned());
        }
    }
}

/// The names in quotes that are words as variables have them, in a text.
fn names(text: &str) -> impl Iterator<Item = String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let is_name = |name: &&str| {
        let mut letters = name.chars();
        name.contains('_') && letters.all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    quoted.filter(is_name).map(ToOwned::to_owned)
}

/// The variables that code reads by itself.
fn of_code(variables: &mut BTreeSet<String>) {
    for folder in crates() {
        let mut texts = Vec::new();
        sources(&workspace().join(folder).join("src"), &mut texts);
        let constants: BTreeMap<&str, &str> = texts
            .iter()
            .flat_map(|text| text.split("const ").skip(1))
            .filter_map(|rest| rest.split_once(": &str = \""))
            .filter_map(|(name, rest)| Some((name, rest.split_once('"')?.0)))
            .collect();
        for text in &texts {
            for asks in ["env::var(", "env::var_os(", "filter_or("] {
                for asked in text.split(asks).skip(1) {
                    let asked = asked.split([')', ',']).next().unwrap().trim();
                    let literal = asked.strip_prefix('"').map(|name| name.trim_matches('"'));
                    match literal.or_else(|| constants.get(asked).copied()) {
                        Some(name) => drop(variables.insert(name.to_owned())),
                        // One of those that stand elsewhere in the file.
                        None => variables.extend(names(text)),
                    }
                }
            }
        }
    }
}

/// The variables that the program reads.
pub fn read_by_program() -> BTreeSet<String> {
    let mut variables = BTreeSet::new();
    of_options(&farslot_cli::definition(), &mut variables);
    assert!(variables.contains("FARSLOT_ADDRESS"));
    of_code(&mut variables);
    for found in ["COLUMNS", "FARSLOT_SECRET", "FARSLOT_TRACE", "PMI_RANK"] {
        assert!(variables.contains(found), "{found}");
    }
    variables
}

#[test]
fn the_book_has_every_variable_that_the_program_reads() {
    let page = read(workspace().join("docs/operate/configuration.md"));
    let (_, table) = page
        .split_once("\n| variable | for |\n|---|---|\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let listed = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed: BTreeSet<String> = listed.map(ToOwned::to_owned).collect();
    assert_eq!(listed, read_by_program());
}
