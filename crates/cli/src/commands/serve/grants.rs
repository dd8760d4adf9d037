//! The grants of `farslot serve --grants FILE`: tables that are opened to clients with a secret or
//! a certificate of their own.
//!
//! ```toml
//! # Clients ask for it by its name: --grant reporting --secret-file reporting.secret
//! [reporting]
//! tables = ["users", "prices"]
//! rights = "read"                      # or "all"
//! secret_file = "reporting.secret"     # relative to this file
//! clients = ["reporting.example"]      # or certificates with this name, under TLS
//! operations_per_second = 10000        # more is slowed
//! bytes_per_second = "10MB"
//!
//! [tenant]
//! tables = ["users"]
//! rights = "all"
//! prefix = "tenant-17:"                # keys that begin so, to calls alone
//! secret_file = "tenant.secret"
//! ```
//!
//! A grant opens its tables, the catalog to be read, and nothing else. One with a prefix opens
//! single keys of its tables in place of all memory. It comes into force when all
//! of its tables are there: a node starts empty, and its tables are made by clients. SIGHUP has the
//! file read again: grants that it lacks are revoked, those that have changed are put in force
//! anew, and the clients of all others notice nothing. A file with a mistake changes nothing.

use bytesize::ByteSize;
use farslot::admission::{Clients, DEFAULT_GRANT, READ_ONLY, Rate, Secret, TableGrant};
use farslot::{Rights, Server, StoreError};
use farslot_terminal::context::secrets_in;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use farslot_terminal::settings::text_of;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// A grant as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Entry {
    tables: Vec<String>,
    rights: GrantedAccess,
    prefix: Option<String>,
    secret_file: Option<PathBuf>,
    #[serde(default)]
    clients: Vec<String>,
    operations_per_second: Option<u64>,
    bytes_per_second: Option<ByteSize>,
}

/// What may be done to the tables of a grant.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "lowercase")]
enum GrantedAccess {
    Read,
    All,
}

impl GrantedAccess {
    const fn rights(self) -> Rights {
        match self {
            Self::Read => Rights::READ,
            Self::All => Rights::ALL,
        }
    }
}

/// What is wrong with a grant of the file.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
enum BadGrant {
    #[error("{0}")]
    BadName(#[from] StoreError),
    #[error("there is a grant of that name to more than single tables already; choose another")]
    TakenName,
    #[error("it names no table")]
    NoTables,
    #[error("it names the table {table:?} twice")]
    RepeatedTable { table: String },
    #[error("its secret is one of those that open more than its tables; make it one of its own")]
    SharedSecret,
    #[error("it has neither a secret_file nor clients: anybody could use it")]
    NoProof,
    #[error("its clients are told by certificates, which need --tls-client-ca")]
    NoClientAuthority,
    #[error(
        "its clients could do everything: say with --tls-client NAME which certificates of \
         --tls-client-ca open more than single tables"
    )]
    ClientsOpenAll,
    #[error("the name {name:?} of its clients is one of --tls-client, which opens everything")]
    SharedClient { name: String },
    #[error("{limit} is 0: it could never do anything")]
    NoRate { limit: &'static str },
}

/// What opens more than single tables.
#[derive(Default)]
pub struct FullAccess {
    pub secrets: Vec<Secret>,
    pub clients: Option<Clients>,
}

/// The grants of a file, and which of them are in force.
pub struct GrantFile {
    full_access: FullAccess,
    states: BTreeMap<String, GrantState>,
}

/// A grant of the file, and whether it is in force.
struct GrantState {
    grant: TableGrant,
    in_force: bool,
    /// The ids of its tables when it was put in force.
    ids: Vec<Option<u64>>,
    /// Why it is not in force, as was told last.
    reported: Option<String>,
}

impl GrantState {
    fn new(grant: TableGrant) -> Self {
        Self {
            grant,
            in_force: false,
            ids: Vec::new(),
            reported: None,
        }
    }

    /// Puts it in force if its tables are there; tells what came of it, once.
    fn try_put_in_force(&mut self, server: &Server) {
        let ids = server.ids_of(&self.grant);
        if self.in_force {
            // A catalog that cannot be read now tells nothing of the tables.
            if ids.is_err() || ids.as_ref() == Ok(&self.ids) {
                return;
            }
            // The memory is about to be another table's.
            server.revoke(&self.grant.name);
            self.in_force = false;
            let name = &self.grant.name;
            output::note(format_args!(
                "the grant {name:?} is revoked: its tables have changed"
            ));
            self.reported = None;
        }
        let name = &self.grant.name;
        let news = match server.grant(&self.grant) {
            Ok(()) => {
                self.in_force = true;
                self.ids = ids.unwrap_or_default();
                let may = if self.grant.rights == Rights::ALL {
                    "written"
                } else {
                    "read"
                };
                let tables = self.grant.tables.join(", ");
                let keys = match &self.grant.prefix {
                    None => String::new(),
                    Some(prefix) => {
                        format!("keys {:?}... of ", String::from_utf8_lossy(prefix))
                    }
                };
                format!("the grant {name:?} is in force: {keys}{tables} can be {may}")
            }
            Err(StoreError::NoSuchTable { name: table, .. }) => {
                format!("the grant {name:?} waits for the table {table:?}")
            }
            Err(error) => format!("the grant {name:?} is not in force: {error}"),
        };
        if self.reported.as_ref() != Some(&news) {
            output::note(&news);
            self.reported = Some(news);
        }
    }

    /// Has the same tables opened to those who prove themselves otherwise: who does so as before
    /// notices nothing.
    fn change_proof(self, grant: TableGrant, server: &Server) -> Self {
        let TableGrant {
            name,
            secrets,
            clients,
            ..
        } = &grant;
        match server.change_proof(name, secrets, clients.as_ref()) {
            Ok(true) => {
                output::note(format_args!(
                    "the grant {name:?} has other secrets or clients now: those of before that are gone \
                     connect anew"
                ));
                Self { grant, ..self }
            }
            // It has ended meanwhile, or cannot be changed: it is put in force anew.
            Ok(false) | Err(_) => {
                self.end(server);
                Self::new(grant)
            }
        }
    }

    fn end(self, server: &Server) {
        if self.in_force {
            server.revoke(&self.grant.name);
            output::note(format_args!("the grant {:?} is revoked", self.grant.name));
        }
    }
}

impl GrantFile {
    /// Reads a file of grants. None of its secrets and names of clients may be among the mightier.
    ///
    /// # Errors
    /// A file that cannot be read or is not one of grants, with the grant that is wrong; a secret's
    /// file, as [`secrets_in`].
    pub fn read(file: &Path, full_access: FullAccess) -> Result<Self> {
        let grants = grants_of(file, &full_access)?;
        let states = grants
            .into_iter()
            .map(|grant| (grant.name.clone(), GrantState::new(grant)));
        Ok(Self {
            full_access,
            states: states.collect(),
        })
    }

    /// All of them, in force or not.
    pub fn all(&self) -> Vec<TableGrant> {
        self.states
            .values()
            .map(|state| state.grant.clone())
            .collect()
    }

    /// Puts those in force that are not, as far as their tables are there.
    pub fn put_in_force(&mut self, server: &Server) {
        for state in self.states.values_mut() {
            state.try_put_in_force(server);
        }
    }

    /// Notes what else opens more than single tables from now on.
    pub fn set_full_access(&mut self, full_access: FullAccess) {
        self.full_access = full_access;
    }

    /// Reads the file again, or another in its place, and does what it says now.
    ///
    /// # Errors
    /// Where something is wrong with it: nothing changes then.
    pub fn reload(&mut self, file: &Path, server: &Server) -> Result<()> {
        let grants = grants_of(file, &self.full_access)?;
        let mut before = std::mem::take(&mut self.states);
        for grant in grants {
            let state = match before.remove(&grant.name) {
                Some(state) if state.grant == grant => state,
                Some(state) if state.in_force && differ_in_proof_alone(&state.grant, &grant) => {
                    state.change_proof(grant, server)
                }
                Some(other) => {
                    other.end(server);
                    GrantState::new(grant)
                }
                None => GrantState::new(grant),
            };
            self.states.insert(state.grant.name.clone(), state);
        }
        for state in before.into_values() {
            state.end(server);
        }
        self.put_in_force(server);
        Ok(())
    }

    /// Revokes all.
    pub fn end(&mut self, server: &Server) {
        for state in std::mem::take(&mut self.states).into_values() {
            state.end(server);
        }
    }
}

/// Whether two grants differ in who may use them and in nothing else.
fn differ_in_proof_alone(one: &TableGrant, other: &TableGrant) -> bool {
    let with_proof_of_other = TableGrant {
        secrets: other.secrets.clone(),
        clients: other.clients.clone(),
        ..one.clone()
    };
    with_proof_of_other == *other
}

/// The grants of a file, with their secrets.
///
/// # Errors
/// As [`GrantFile::read`].
pub fn grants_of(file: &Path, full_access: &FullAccess) -> Result<Vec<TableGrant>> {
    let shown = file.display();
    let text = text_of(file, "grants")?;
    let entries: BTreeMap<String, Entry> = toml::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{shown}: {}", error.to_string().trim_end())))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut grants = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let secret_file = entry.secret_file.as_ref();
        let secrets = secret_file.map(|secrets| secrets_in(&directory.join(secrets)));
        let secrets = secrets.transpose()?.unwrap_or_default();
        check(&name, &entry, &secrets, full_access)
            .map_err(|wrong| Failure::Failed(format!("{shown}: the grant {name:?}: {wrong}")))?;
        grants.push(TableGrant {
            name,
            secrets,
            clients: (!entry.clients.is_empty()).then_some(Clients::Named(entry.clients)),
            tables: entry.tables,
            rights: entry.rights.rights(),
            prefix: entry.prefix.map(String::into_bytes),
            rate: Rate {
                operations: entry.operations_per_second,
                bytes: entry.bytes_per_second.map(|size| size.as_u64()),
            },
        });
    }
    Ok(grants)
}

fn check(
    name: &str,
    entry: &Entry,
    secrets: &[Secret],
    full_access: &FullAccess,
) -> std::result::Result<(), BadGrant> {
    farslot::admission::check_grant_name(name)?;
    if [DEFAULT_GRANT, READ_ONLY].contains(&name) {
        return Err(BadGrant::TakenName);
    }
    if entry.tables.is_empty() {
        return Err(BadGrant::NoTables);
    }
    let mut seen = HashSet::new();
    if let Some(table) = entry.tables.iter().find(|table| !seen.insert(*table)) {
        return Err(BadGrant::RepeatedTable {
            table: table.clone(),
        });
    }
    if secrets
        .iter()
        .any(|secret| full_access.secrets.contains(secret))
    {
        return Err(BadGrant::SharedSecret);
    }
    if secrets.is_empty() && entry.clients.is_empty() {
        return Err(BadGrant::NoProof);
    }
    for (rate, limit) in [
        (entry.operations_per_second, "operations_per_second"),
        (
            entry.bytes_per_second.map(|size| size.as_u64()),
            "bytes_per_second",
        ),
    ] {
        if rate == Some(0) {
            return Err(BadGrant::NoRate { limit });
        }
    }
    if entry.clients.is_empty() {
        return Ok(());
    }
    match &full_access.clients {
        None => Err(BadGrant::NoClientAuthority),
        Some(Clients::Any) => Err(BadGrant::ClientsOpenAll),
        Some(Clients::Named(names)) => match entry.clients.iter().find(|name| names.contains(name))
        {
            Some(name) => Err(BadGrant::SharedClient { name: name.clone() }),
            None => Ok(()),
        },
    }
}
