//! Grants of single tables, by the file of `farslot serve --grants`.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, fresh_address, wait_for};
use farslot::admission::Secret;
use farslot::{OpenOptions, Store, Table};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ALL: &str = "a secret for everything";
const REPORTING: &str = "a secret for reporting";
const LOADING: &str = "a secret for loading";

/// A directory with secrets and a file of grants, and a node that it is for.
struct Bed {
    directory: tempfile::TempDir,
    node: Node,
}

impl Bed {
    fn new(grants: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("all"), ALL).unwrap();
        std::fs::write(at("reporting"), REPORTING).unwrap();
        std::fs::write(at("loading"), LOADING).unwrap();
        std::fs::write(at("grants.toml"), grants).unwrap();
        let mut command = serve(&at("all"), &at("grants.toml"));
        command.stderr(File::create(at("log")).unwrap());
        let node = Node::start_command(command);
        let bed = Self { directory, node };
        for table in ["users", "prices", "salaries"] {
            bed.ok(&["create", table, "-c", "100"]);
            bed.ok(&["put", table, "key", "value"]);
        }
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// With the secret to everything.
    fn ok(&self, args: &[&str]) {
        let mut command = self.node.command(args);
        let output = command.env("FARSLOT_SECRET", ALL).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
    }

    /// Under a grant, with the secret of that name.
    fn under(&self, grant: &str, secret: &str, args: &[&str]) -> Output {
        let mut command = self.node.command(args);
        command.args(["--grant", grant, "--secret-file"]);
        command.arg(self.path(secret)).output().unwrap()
    }

    /// What the node has said so far.
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    /// Waits until the node has said this so many times.
    fn wait_for(&self, times: usize, said: &str) {
        wait_for(&self.path("log"), times, said);
    }

    /// Has the node read another file.
    fn reload(&self, grants: &str) {
        std::fs::write(self.path("grants.toml"), grants).unwrap();
        self.node.hang_up();
    }

    /// A client that stays.
    fn table(&self, grant: &str, secret: &str, name: &str) -> Table {
        let options = OpenOptions {
            secret: Some(Secret::new(secret).unwrap()),
            grant: grant.into(),
            ..OpenOptions::default()
        };
        let store = Store::open_with(&self.node.address, options).unwrap();
        store.table(name).unwrap()
    }
}

fn serve(secret: &Path, grants: &Path) -> Command {
    let mut command = farslot(["serve", ANY_PORT, "--memory", "64MiB", "--while-stdin"]);
    command.arg("--secret-file").arg(secret);
    command.arg("--grants").arg(grants);
    command
}

fn grant(name: &str, tables: &str, rights: &str, secret: &str) -> String {
    format!("[{name}]\ntables = [{tables}]\nrights = \"{rights}\"\nsecret_file = \"{secret}\"\n")
}

fn reporting() -> String {
    grant("reporting", r#""users", "prices""#, "read", "reporting")
}

fn loading() -> String {
    grant("loading", r#""prices""#, "all", "loading")
}

/// A grant is one of tables, and not of the memory that they were in.
#[test]
fn a_grant_ends_with_its_tables_and_begins_again_with_new_ones() {
    let bed = Bed::new(&reporting());
    bed.wait_for(1, r#""reporting" is in force: users, prices can be read"#);
    let read = |table| bed.under("reporting", "reporting", &["get", table, "key"]);
    assert!(read("users").status.success());
    bed.ok(&["drop", "users"]);
    bed.wait_for(1, r#""reporting" is revoked: its tables have changed"#);
    assert!(!read("prices").status.success());
    bed.ok(&["create", "other", "-c", "100"]);
    bed.ok(&["create", "users", "-c", "100"]);
    bed.wait_for(2, r#""reporting" is in force: users, prices can be read"#);
    assert_eq!(read("prices").stdout, b"value\n");
    assert_fails(&read("users"), 1, &["no key"]);
    assert_fails(
        &read("other"),
        1,
        &["no right to read", "in the table \"other\""],
    );
}

#[test]
fn a_grant_of_a_prefix_opens_the_keys_that_begin_so_and_nothing_else() {
    let tenant = grant("tenant", r#""users""#, "all", "loading") + "prefix = \"ke\"\n";
    let bed = Bed::new(&tenant);
    bed.wait_for(
        1,
        r#""tenant" is in force: keys "ke"... of users can be written"#,
    );
    let by = |arguments: &[&str]| bed.under("tenant", "loading", arguments);
    assert_eq!(by(&["get", "users", "key"]).stdout, b"value\n");
    assert!(by(&["put", "users", "kept", "1"]).status.success());
    assert_eq!(by(&["get", "users", "kept"]).stdout, b"1\n");
    let refused = ["the grant opens keys with a prefix"];
    assert_fails(&by(&["get", "users", "other"]), 1, &refused);
    assert_fails(&by(&["put", "users", "other", "1"]), 1, &refused);
    assert_fails(&by(&["dump", "users"]), 1, &["single keys of the table"]);
    // What else there is, it is not told.
    let hidden = by(&["get", "prices", "key"]);
    assert_fails(&hidden, 1, &["no table \"prices\"", "users"]);
    assert!(!error_of(&hidden).contains("salaries"));
    let listed = String::from_utf8(by(&["tables"]).stdout).unwrap();
    assert!(
        listed.contains("users") && !listed.contains("prices"),
        "{listed}"
    );
    assert!(by(&["nodes"]).status.success());
}

#[test]
fn clients_under_a_grant_do_what_it_opens_and_nothing_else() {
    let bed = Bed::new(&(reporting() + &loading()));
    bed.wait_for(1, r#""reporting" is in force: users, prices can be read"#);
    bed.wait_for(1, r#""loading" is in force: prices can be written"#);

    for table in ["users", "prices"] {
        let read = bed.under("reporting", "reporting", &["get", table, "key"]);
        assert_eq!(read.stdout, b"value\n", "{}", error_of(&read));
        let written = bed.under("reporting", "reporting", &["put", table, "key", "new"]);
        let of = format!("in the table {table:?}");
        let parts = [
            "the grant \"reporting\" has no right to",
            &of,
            "grants read",
            "--grant",
        ];
        assert_fails(&written, 1, &parts);
    }
    let written = bed.under("loading", "loading", &["put", "prices", "key", "new"]);
    assert!(written.status.success(), "{}", error_of(&written));
    for (grant, table) in [
        ("reporting", "salaries"),
        ("loading", "salaries"),
        ("loading", "users"),
    ] {
        let read = bed.under(grant, grant, &["get", table, "key"]);
        assert_fails(&read, 1, &["needs the right to read", "--grant"]);
        assert!(read.stdout.is_empty());
    }
    let made = bed.under("loading", "loading", &["create", "more", "-c", "10"]);
    assert_fails(&made, 1, &["\"loading\" has no right", "in the catalog"]);

    // What the grant opens is listed, and of the rest that it is not.
    let listed = bed.under("reporting", "reporting", &["stat"]);
    assert!(listed.status.success(), "{}", error_of(&listed));
    let (tables, rest) = (String::from_utf8_lossy(&listed.stdout), error_of(&listed));
    assert!(tables.contains("users") && tables.contains("prices") && !tables.contains("salaries"));
    assert!(
        rest.contains("salaries: ") && rest.contains("needs the right to read"),
        "{rest}"
    );

    // A secret opens its own grant and no other.
    let other = bed.under("loading", "reporting", &["stat"]);
    assert_fails(&other, 1, &["the secret is wrong"]);
    let default = bed.under("default", "reporting", &["stat"]);
    assert_fails(&default, 1, &["the secret is wrong"]);
    for secret in [ALL, REPORTING, LOADING] {
        assert!(!bed.log().contains(secret));
    }
}

#[test]
fn a_file_that_is_read_again_revokes_and_grants() {
    let bed = Bed::new(&(reporting() + &loading()));
    let (read, written) = (r#""reporting" is in force"#, r#""loading" is in force"#);
    bed.wait_for(1, read);
    bed.wait_for(1, written);
    let reader = bed.table("reporting", REPORTING, "users");
    let loader = bed.table("loading", LOADING, "prices");
    assert_eq!(reader.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(!loader.put(b"key", b"new").unwrap());

    // One that is gone, one that stays as it was, and one for a table that comes later.
    let later = grant("later", r#""later""#, "read", "loading");
    bed.reload(&(reporting() + &later));
    bed.wait_for(1, r#""loading" is revoked"#);
    bed.wait_for(1, r#""later" waits for the table "later""#);
    let refused = loader.put(b"key", b"newer").unwrap_err().to_string();
    assert!(refused.contains("revoked"), "{refused}");
    let refused = bed.under("loading", "loading", &["stat"]);
    assert_fails(&refused, 1, &["the grant was revoked"]);
    assert!(reader.get(b"key").unwrap().is_some(), "it noticed nothing");
    assert_fails(
        &bed.under("later", "loading", &["count", "later"]),
        1,
        &["no such grant"],
    );
    bed.ok(&["create", "later", "-c", "10"]);
    bed.wait_for(1, r#""later" is in force"#);
    assert!(
        bed.under("later", "loading", &["count", "later"])
            .status
            .success()
    );

    // A mistake changes nothing.
    bed.reload(&(reporting() + "[loading]\n"));
    bed.wait_for(1, "all grants stay as they were");
    assert!(
        bed.log().contains("missing field `tables`"),
        "{}",
        bed.log()
    );
    assert!(reader.get(b"key").unwrap().is_some());
    assert!(
        bed.under("later", "loading", &["count", "later"])
            .status
            .success()
    );

    // One that opens less than before: its clients come anew.
    bed.reload(&grant("reporting", r#""prices""#, "read", "reporting"));
    bed.wait_for(2, read);
    assert!(reader.get(b"key").is_err());
    let users = bed.under("reporting", "reporting", &["get", "users", "key"]);
    assert_fails(&users, 1, &["needs the right"]);
    let prices = bed.under("reporting", "reporting", &["get", "prices", "key"]);
    assert_eq!(prices.stdout, b"new\n");
    assert_fails(
        &bed.under("later", "loading", &["count", "later"]),
        1,
        &["revoked"],
    );
}

#[test]
fn a_file_with_a_mistake_is_refused_with_the_grant_that_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (name, secret) in [
        ("all", ALL),
        ("reporting", REPORTING),
        ("readers", "a secret for readers"),
        ("short", "short"),
    ] {
        std::fs::write(at(name), secret).unwrap();
    }
    let started = |grants: &Path| {
        let mut command = serve(&at("all"), grants);
        command.arg("--read-only-secret-file").arg(at("readers"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let users = r#""users""#;
    let long = "n".repeat(65);
    for (text, parts) in [
        ("[some", &["grants.toml", "line 1"][..]),
        ("[some]\ntables = 3", &["invalid type"]),
        (
            &(reporting() + "hosts = []\n"),
            &["unknown field `hosts`", "tables"],
        ),
        (
            &grant("some", users, "write", "reporting"),
            &["unknown variant `write`", "`read` or `all`"],
        ),
        (
            &grant("some", "", "read", "reporting"),
            &[r#"the grant "some": it names no table"#],
        ),
        (
            &grant("some", r#""a", "b", "a""#, "read", "reporting"),
            &[r#"names the table "a" twice"#],
        ),
        (
            &grant("\"\"", users, "read", "reporting"),
            &["name is empty"],
        ),
        (
            &grant(&long, users, "read", "reporting"),
            &["65 bytes", "64"],
        ),
        (
            &grant("default", users, "read", "reporting"),
            &["that name to more than single tables"],
        ),
        (
            &grant("read-only", users, "read", "reporting"),
            &["that name to more than single tables"],
        ),
        (
            &grant("some", users, "read", "all"),
            &["open more than its tables"],
        ),
        (
            &grant("some", users, "read", "readers"),
            &["open more than its tables"],
        ),
        (
            &grant("some", users, "read", "short"),
            &["5 bytes is too short"],
        ),
        (
            &grant("some", users, "read", "none"),
            &["none", "No such file"],
        ),
        (&"# ".repeat(600_000), &["at most 1048576 bytes"]),
    ] {
        std::fs::write(at("grants.toml"), text).unwrap();
        assert_fails(&started(&at("grants.toml")), 1, parts);
    }
    assert_fails(&started(&at("absent")), 1, &["absent", "No such file"]);
    std::fs::write(at("grants.toml"), [0xff, 0xfe]).unwrap();
    assert_fails(&started(&at("grants.toml")), 1, &["grants.toml", "UTF-8"]);
    std::fs::write(at("grants.toml"), "").unwrap();
    let none = started(&at("grants.toml"));
    assert!(none.status.success(), "{}", error_of(&none));
}

#[test]
fn grants_are_for_who_is_admitted_by_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let grants = directory.path().join("grants.toml");
    std::fs::write(&grants, "").unwrap();
    let refused = |address: &str| {
        let mut command = farslot(["serve", address, "--memory", "4MiB", "--while-stdin"]);
        command.arg("--grants").arg(&grants);
        command.stdin(Stdio::null()).output().unwrap()
    };
    assert_fails(&refused(ANY_PORT), 2, &["--grants needs --secret-file"]);
    assert_fails(
        &refused(&fresh_address()),
        2,
        &["--grants is for tcp://", "may do everything"],
    );
}
