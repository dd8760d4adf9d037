//! Nodes at `tcps://` addresses, as their owners and their clients use them.

use crate::authority::{Authority, Issued};
use crate::common::{Node, assert_fails, error_of, farslot, wait_for, wait_until};
use farslot::admission::Fingerprint;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ANY_PORT: &str = "tcps://127.0.0.1:0";

/// A directory with certificates and secrets.
pub struct Bed {
    directory: tempfile::TempDir,
    authority: Authority,
    clients: Authority,
}

impl Bed {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bed = Self {
            directory,
            authority: Authority::new(),
            clients: Authority::new(),
        };
        bed.write("ca", bed.authority.pem());
        bed.write("client-ca", bed.clients.pem());
        bed.issue_own();
        bed
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.at(name), content).unwrap();
        std::fs::set_permissions(self.at(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn keep(&self, name: &str, issued: &Issued) {
        self.write(&format!("{name}.pem"), issued.pem());
        self.write(&format!("{name}.key"), issued.key());
    }

    /// Another certificate of the node; returns its fingerprint.
    pub fn issue_own(&self) -> String {
        let own = self.authority.issue(&["127.0.0.1"]);
        self.keep("own", &own);
        Fingerprint::of(&own.der).to_string()
    }

    /// A certificate of a client for this name.
    fn issue_client(&self, name: &str) {
        self.keep(name, &self.clients.issue(&[name]));
    }

    fn serve(&self, args: &[&str]) -> Command {
        let mut command = farslot(["serve", ANY_PORT, "--memory", "64MiB", "--while-stdin"]);
        self.prove(&mut command, "own");
        for arg in args {
            match arg.strip_prefix('@') {
                Some(name) => command.arg(self.at(name)),
                None => command.arg(arg),
            };
        }
        command.stderr(File::create(self.at("log")).unwrap());
        command
    }

    /// Adds that certificate to a command.
    pub fn prove(&self, command: &mut Command, name: &str) {
        command
            .arg("--tls-cert")
            .arg(self.at(&format!("{name}.pem")));
        command
            .arg("--tls-key")
            .arg(self.at(&format!("{name}.key")));
    }

    /// A client that trusts the authority and has that certificate, if any.
    fn client(&self, node: &Node, certificate: Option<&str>, args: &[&str]) -> Output {
        let mut command = node.command(args);
        command.arg("--tls-ca").arg(self.at("ca"));
        if let Some(name) = certificate {
            self.prove(&mut command, name);
        }
        command.output().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap()
    }

    /// Has the node read its files again, and waits until it has said this so many times.
    fn reload(&self, node: &Node, times: usize, said: &str) {
        node.hang_up();
        wait_for(&self.at("log"), times, said);
    }
}

fn ok(output: &Output) {
    assert!(output.status.success(), "{}", error_of(output));
}

fn pinned(node: &Node, fingerprint: &str, args: &[&str]) -> Output {
    let mut command = node.command(args);
    command
        .env("FARSLOT_TLS_PIN", fingerprint)
        .output()
        .unwrap()
}

#[test]
fn a_node_under_tls_is_trusted_by_its_authority_or_its_fingerprint() {
    let bed = Bed::new();
    let first = bed.issue_own();
    let node = Node::start_command(bed.serve(&[]));
    assert!(
        node.address.starts_with("tcps://127.0.0.1:"),
        "{}",
        node.address
    );
    assert!(bed.log().contains(&first), "{}", bed.log());
    ok(&bed.client(&node, None, &["create", "users", "-c", "10"]));
    ok(&pinned(&node, &first, &["put", "users", "key", "value"]));
    let read = bed.client(&node, None, &["get", "users", "key"]);
    assert_eq!(read.stdout, b"value\n", "{}", error_of(&read));

    let nothing = node.command(["stat"]).output().unwrap();
    assert_fails(
        &nothing,
        2,
        &["which nodes are trusted", "--tls-ca", "--tls-pin"],
    );
    let wrong = pinned(&node, &"ab".repeat(32), &["stat"]);
    assert_fails(&wrong, 1, &["another fingerprint", "--tls-pin"]);
    let none = pinned(&node, "ab", &["stat"]);
    assert_fails(&none, 2, &["64 hexadecimal digits"]);
    bed.write("ca", bed.clients.pem());
    let other = bed.client(&node, None, &["stat"]);
    assert_fails(&other, 1, &["no authority that is trusted", "--tls-ca"]);
    bed.write("ca", bed.authority.pem());
    let plain = node.address.replacen("tcps", "tcp", 1);
    let plain = farslot(["-a", &plain, "stat"]).output().unwrap();
    assert_fails(&plain, 1, &["speaks TLS", "use -a tcps://127"]);

    // A new certificate, and then one with a mistake, which changes nothing.
    let second = bed.issue_own();
    bed.reload(&node, 1, &second);
    assert_fails(
        &pinned(&node, &first, &["stat"]),
        1,
        &["another fingerprint"],
    );
    ok(&pinned(&node, &format!("{first},{second}"), &["stat"]));
    bed.write("own.pem", b"nothing");
    bed.reload(&node, 1, "all certificates stay as they were");
    // One that is not valid any more is told of: clients that were given its fingerprint take it.
    let old = bed.authority.issue_from_to(&["127.0.0.1"], 2020, 2021);
    bed.keep("own", &old);
    bed.reload(&node, 1, "is not valid now");
    let old = Fingerprint::of(&old.der).to_string();
    ok(&pinned(&node, &old, &["stat"]));
    assert!(!bed.client(&node, None, &["stat"]).status.success());
    let second = bed.issue_own();
    bed.reload(&node, 3, "the certificates are others now");
    ok(&pinned(&node, &second, &["get", "users", "key"]));
}

#[test]
fn a_certificate_does_instead_of_a_secret() {
    let bed = Bed::new();
    for name in ["owner.example", "reader.example", "nobody.example"] {
        bed.issue_client(name);
    }
    let grants =
        "[reading]\ntables = [\"users\"]\nrights = \"read\"\nclients = [\"reader.example\"]\n";
    bed.write("grants", grants.as_bytes());
    let args = ["--tls-client-ca", "@client-ca", "--grants", "@grants"];
    let open = bed.serve(&args).output().unwrap();
    assert_eq!(open.status.code(), Some(1));
    assert!(bed.log().contains("--tls-client NAME"), "{}", bed.log());

    let named = [&args[..], &["--tls-client", "owner.example"]].concat();
    let node = Node::start_command(bed.serve(&named));
    ok(&bed.client(
        &node,
        Some("owner.example"),
        &["create", "users", "-c", "10"],
    ));
    ok(&bed.client(
        &node,
        Some("owner.example"),
        &["put", "users", "key", "value"],
    ));
    let needed = ["no certificate that opens", "--tls-cert"];
    for (certificate, args) in [
        (None, &["stat"][..]),
        (Some("reader.example"), &["stat"]),
        (Some("nobody.example"), &["stat"]),
        (Some("nobody.example"), &["--grant", "reading", "stat"]),
    ] {
        assert_fails(&bed.client(&node, certificate, args), 1, &needed);
    }
    let get = ["--grant", "reading", "get", "users", "key"];
    let has_got = || bed.client(&node, Some("reader.example"), &get);
    wait_until(|| has_got().status.success(), || bed.log());
    let put = ["--grant", "reading", "put", "users", "key", "other"];
    let put = bed.client(&node, Some("reader.example"), &put);
    assert_fails(&put, 1, &["no right to"]);

    // Another authority of clients: those of the one before are refused by TLS.
    bed.write("client-ca", Authority::new().pem());
    bed.reload(&node, 1, "the certificates are others now");
    let refused = bed.client(&node, Some("owner.example"), &["stat"]);
    assert_fails(
        &refused,
        1,
        &["refuses this side's certificate", "--tls-client-ca"],
    );
}

#[test]
fn two_secrets_are_valid_until_one_is_taken_out_of_the_file() {
    const OLD: &str = "the secret before";
    const NEW: &str = "the secret of now";
    let bed = Bed::new();
    bed.write("secret", OLD.as_bytes());
    let node = Node::start_command(bed.serve(&["--secret-file", "@secret"]));
    let with = |secret: &str| {
        let mut command = node.command(["stat"]);
        command.env("FARSLOT_SECRET", secret);
        command.arg("--tls-ca").arg(bed.at("ca")).output().unwrap()
    };
    ok(&with(OLD));
    assert_fails(&with(NEW), 1, &["the secret is wrong"]);
    bed.write("secret", format!("{NEW}\n{OLD}\n").as_bytes());
    bed.reload(&node, 1, "has another secret as well");
    ok(&with(OLD));
    ok(&with(NEW));
    // A client uses the first.
    ok(&with(&format!("{NEW}\n{OLD}")));
    bed.write(
        "secret",
        format!("{NEW}\n{OLD}\na third of secrets").as_bytes(),
    );
    bed.reload(&node, 1, "at most 2 secrets are valid");
    ok(&with(OLD));
    bed.write("secret", NEW.as_bytes());
    bed.reload(&node, 1, "is another now");
    assert_fails(&with(OLD), 1, &["the secret is wrong"]);
    ok(&with(NEW));
}

#[test]
fn what_does_not_go_together_is_told_with_what_to_do() {
    let bed = Bed::new();
    let serve = |args: &[&str]| {
        let mut command = farslot(["serve", "--memory", "64MiB", "--while-stdin"]);
        command.args(args).output().unwrap()
    };
    let path = |path: &Path| path.display().to_string();
    let [own, key, ca] = ["own.pem", "own.key", "client-ca"].map(|name| path(&bed.at(name)));
    assert_fails(&serve(&[ANY_PORT]), 2, &["--tls-cert FILE", "openssl req"]);
    assert_fails(&serve(&[ANY_PORT, "--tls-cert", &own]), 2, &["--tls-key"]);
    let no_tls = ["shm://of-no-use", "--tls-key", &key];
    assert_fails(&serve(&no_tls), 2, &["--tls-cert", "not given"]);
    let plain = ["tcp://127.0.0.1:0", "--tls-client-ca", &ca];
    assert_fails(&serve(&plain), 2, &["--tls-client-ca is for tcps://"]);
    let key_alone = [ANY_PORT, "--tls-cert", &key, "--tls-key", &key];
    assert_fails(
        &serve(&key_alone),
        1,
        &["the certificate cannot be used for TLS"],
    );
    // Under TLS as without it, what needs no proof is for this machine or for networks by name.
    let everywhere = ["tcps://0.0.0.0:0", "--tls-cert", &own, "--tls-key", &key];
    assert_fails(&serve(&everywhere), 1, &["other machines", "--trust"]);
    let trusted = [&everywhere[..], &["--trust", "10.0.0.0/8,fd00::/8"]].concat();
    let trusted = serve(&trusted);
    ok(&trusted);
    assert!(error_of(&trusted).contains("in a network of --trust"));
    let no_network = serve(&["tcp://0.0.0.0:0", "--trust", "10.0.0.1/8"]);
    assert_fails(&no_network, 2, &["is no network such as"]);
    // A node that others reach without TLS says that nothing is encrypted.
    bed.write("secret", b"a secret that is long enough");
    let secret = path(&bed.at("secret"));
    let plain = serve(&["tcp://0.0.0.0:0", "--secret-file", &secret]);
    ok(&plain);
    assert!(
        error_of(&plain).contains("nothing is encrypted"),
        "{}",
        error_of(&plain)
    );
}

#[test]
fn sighup_changes_whose_certificates_open_everything_as_the_configuration_says() {
    let bed = Bed::new();
    bed.write("secret", b"a secret that is long enough");
    for name in ["first.example", "second.example"] {
        bed.issue_client(name);
    }
    let configure = |authority: &str| {
        let secret = bed.at("secret");
        let text = format!(
            "secret-file = {:?}\n{authority}",
            secret.display().to_string()
        );
        bed.write("farslot.toml", text.as_bytes());
    };
    let client_ca = bed.at("client-ca").display().to_string();
    let named = |name: &str| format!("tls-client-ca = {client_ca:?}\ntls-client = {name:?}\n");
    configure("");
    let node = Node::start_command(bed.serve(&["--config", "@farslot.toml"]));
    let opens = |name: &str| bed.client(&node, Some(name), &["stat"]).status.success();
    let both = || [opens("first.example"), opens("second.example")];
    assert_eq!(both(), [false, false]);
    configure(&named("first.example"));
    bed.reload(
        &node,
        1,
        "tls-client is [\"first.example\"] now; it was not set",
    );
    assert_eq!(both(), [true, false]);
    configure(&named("second.example"));
    bed.reload(&node, 1, "tls-client is [\"second.example\"] now");
    assert_eq!(both(), [false, true]);
    // None are asked for any more.
    configure("");
    bed.reload(&node, 1, "tls-client-ca is not set now");
    assert_eq!(both(), [false, false]);
    let log = bed.log();
    assert!(
        !log.contains("stay as they were") && !log.contains("restart"),
        "{log}"
    );
}
