//! What is shipped beside the program: the unit, the image, the Debian package, the crates.

use crate::common::{Node, error_of, farslot};
use crate::variables::read_by_program;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

const UNIT: &str = include_str!("../../../../packaging/systemd/farslot.service");
const CONTAINER: &str = include_str!("../../../../packaging/Containerfile");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(path: &str) -> toml::Table {
    read(path).parse().unwrap()
}

/// As systemd starts it: without a secret, with snapshots.
#[test]
fn a_node_as_it_is_packaged_keeps_its_tables_and_says_when_it_serves() {
    for line in [
        "Type=notify",
        "ExecStart=/usr/bin/farslot serve --config /etc/farslot/farslot.toml",
        "ExecReload=/usr/bin/farslot serve --config /etc/farslot/farslot.toml --check-config",
        "StateDirectory=farslot",
        "User=farslot",
    ] {
        assert!(UNIT.lines().any(|there| there == line), "{line}");
    }
    let users = read("packaging/systemd/farslot.sysusers");
    assert!(users.lines().any(|line| line.starts_with("u farslot ")));
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("farslot.toml");
    let packaged = read("packaging/systemd/farslot.toml")
        .replace(":7000", ":0")
        .replace(":9464", ":0")
        .replace("/var/lib/farslot", directory.path().to_str().unwrap());
    std::fs::write(&configuration, packaged).unwrap();
    let serve = |args: &[&str]| {
        let mut command = farslot(["serve", "--config"]);
        command.arg(&configuration).args(args);
        command
    };
    let checked = serve(&["--check-config"]).output().unwrap();
    assert!(checked.status.success(), "{}", error_of(&checked));

    let manager = directory.path().join("manager");
    let told = UnixDatagram::bind(&manager).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let states = || {
        let mut said = [0; 4096];
        let length = told.recv(&mut said).unwrap();
        String::from_utf8(said[..length].to_vec()).unwrap()
    };
    let start = || {
        let mut command = serve(&["--while-stdin"]);
        command.env("NOTIFY_SOCKET", &manager);
        command.env("FARSLOT_MEMORY", "64MiB");
        Node::start_command(command)
    };
    let mut node = start();
    let serving = format!(
        "READY=1\nSTATUS=serving 64.0 MiB at {} and http://",
        node.address
    );
    let said = states();
    assert!(said.starts_with(&serving), "{said}");
    node.ok(["create", "t"]);
    node.ok(["put", "t", "key", "value"]);
    node.end();
    assert_eq!(states(), "STOPPING=1\n");
    assert_eq!(start().ok(["get", "t", "key"]), b"value\n");
}

#[test]
fn a_node_whose_service_manager_is_gone_serves() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = farslot(["serve", "tcp://127.0.0.1:0", "--memory", "64MiB"]);
    command.arg("--while-stdin");
    command.env("NOTIFY_SOCKET", directory.path().join("absent"));
    Node::start_command(command).ok(["create", "t"]);
}

/// The words of an array in a line of the container file that begins so.
fn words_of(instruction: &str) -> Vec<String> {
    let lines = CONTAINER.lines();
    let mut found = lines.filter_map(|line| line.split_once(instruction));
    let words = found.next_back();
    let words = words.unwrap_or_else(|| panic!("{instruction}")).1;
    serde_json::from_str(words).unwrap()
}

#[test]
fn an_image_runs_commands_and_has_variables_that_the_program_knows() {
    let program = words_of("ENTRYPOINT ");
    assert_eq!(program, ["/usr/bin/farslot"]);
    let health = words_of("HEALTHCHECK --interval=10s --timeout=5s CMD ");
    for words in [[&program[..], &words_of("CMD ")].concat(), health] {
        assert_eq!(words[0], program[0]);
        let parsed = farslot_cli::definition().try_get_matches_from(&words);
        parsed.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
    let is_user = |line: &str| line == "USER 65532:65532";
    assert!(CONTAINER.lines().any(is_user), "not root");
    let known = read_by_program();
    let mut named = 0;
    for text in [CONTAINER, UNIT, &read("packaging/README.md")] {
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        for word in words.filter(|word| word.starts_with("FARSLOT_")) {
            assert!(known.contains(word), "{word}");
            named += 1;
        }
    }
    assert!(named > 6, "{named}");
}

/// How many files a pattern names whose last part may begin with `*`, in its folder, or behind `**`
/// in all folders below.
fn matching(pattern: &Path) -> usize {
    let name = pattern.file_name().unwrap().to_str().unwrap();
    let folder = pattern.parent().unwrap();
    let (folder, below) = match folder.file_name() {
        Some(last) if last == "**" => (folder.parent().unwrap(), true),
        _ => (folder, false),
    };
    let entries = std::fs::read_dir(folder).unwrap();
    let counts = entries.map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() && below {
            return matching(&path.join("**").join(name));
        }
        let found = path.file_name().unwrap().to_str().unwrap();
        usize::from(match name.strip_prefix('*') {
            Some(end) => found.ends_with(end),
            None => found == name,
        })
    });
    counts.sum()
}

#[test]
fn a_debian_package_has_files_that_are_there_or_that_the_script_makes() {
    let manifest = manifest("crates/cli/Cargo.toml");
    let package = &manifest["package"]["metadata"]["deb"];
    let script = read("scripts/packages");
    let mut placed = Vec::new();
    for asset in package["assets"].as_array().unwrap() {
        let [source, destination, mode] = &asset.as_array().unwrap()[..] else {
            panic!("{asset}");
        };
        let (source, mode) = (source.as_str().unwrap(), mode.as_str().unwrap());
        let made = source.strip_prefix("target/release/");
        match made.map(|made| made.trim_end_matches("/*.gz")) {
            Some(made) => assert!(script.contains(&format!("$built/{made}\"")), "{made}"),
            None => assert!(matching(&repository().join("crates/cli").join(source)) > 0),
        }
        assert_eq!(mode == "755", made == Some("farslot"), "{source}");
        let name = Path::new(source).file_name().unwrap().to_str().unwrap();
        placed.push(format!("/{}{name}", destination.as_str().unwrap()));
    }
    for word in UNIT.split([' ', '=', '\n']) {
        if word.starts_with("/usr/") || word.starts_with("/etc/") {
            assert!(placed.iter().any(|path| path == word), "{word}");
        }
    }
    // Where cargo-deb finds the unit, and the file of its user.
    let units = repository()
        .join("crates/cli")
        .join(package["maintainer-scripts"].as_str().unwrap());
    for file in ["farslot.service", "farslot.sysusers"] {
        assert_eq!(matching(&units.join(file)), 1, "{file}");
    }
}

#[test]
fn every_crate_that_is_published_has_what_registries_show() {
    let workspace = manifest("Cargo.toml");
    let license = read("LICENSE");
    let mut published = 0;
    let crates = ["crates", "lab"].map(|of| std::fs::read_dir(repository().join(of)).unwrap());
    for entry in crates.into_iter().flatten() {
        let folder = entry.unwrap().path();
        let of_crate = folder.join("Cargo.toml");
        let package = &manifest(of_crate.to_str().unwrap())["package"];
        let name = package["name"].as_str().unwrap();
        if package.get("publish").is_some() && name != "farslot-python" {
            continue;
        }
        // Cargo packages what the link leads to.
        assert_eq!(read(folder.join("LICENSE")), license, "{name}");
        if name == "farslot-python" {
            continue;
        }
        published += 1;
        for inherited in ["license", "repository", "readme", "rust-version"] {
            assert!(
                package[inherited]["workspace"].as_bool().unwrap(),
                "{name}: {inherited}"
            );
        }
        let documentation = package["documentation"].as_str().unwrap();
        let repository = workspace["workspace"]["package"]["repository"]
            .as_str()
            .unwrap();
        let of_itself = format!("https://docs.rs/{name}");
        assert!(
            documentation == of_itself
                || name == "farslot-cli" && documentation.starts_with(repository),
            "{documentation}"
        );
        let docs = &package["metadata"]["docs"]["rs"];
        assert!(docs["all-features"].as_bool().unwrap(), "{name}");
        assert!(!docs["targets"].as_array().unwrap().is_empty(), "{name}");
    }
    assert!(published > 12, "{published}");
}

/// Registries show the README apart from the repository, so its links are to there.
#[test]
fn links_of_the_readme_are_absolute() {
    let readme = read("README.md");
    let inline = readme.split("](").skip(1);
    let inline = inline.map(|rest| rest.split(')').next().unwrap());
    let defined = readme.lines().filter(|line| line.starts_with('['));
    let defined = defined.filter_map(|line| Some(line.split_once("]: ")?.1));
    let links: Vec<_> = inline.chain(defined).collect();
    assert!(links.len() > 8, "{links:?}");
    for link in links {
        assert!(link.starts_with("https://"), "{link}");
    }
}
