//! The grants of `farslot serve --grants FILE`: tables that are opened to those who know a secret
//! of their own.
//!
//! ```toml
//! # Clients ask for it by its name: --grant reporting --secret-file reporting.secret
//! [reporting]
//! tables = ["users", "prices"]
//! rights = "read"                      # or "all"
//! secret_file = "reporting.secret"     # relative to this file
//! ```
//!
//! A grant opens its tables, the catalog to be read, and nothing else. It comes into force when all
//! of its tables are there: a node starts empty, and its tables are made by clients. SIGHUP has the
//! file read again: grants that it lacks are revoked, those that have changed are put in force
//! anew, and the clients of all others notice nothing. A file with a mistake changes nothing.

use crate::context::secret_in;
use crate::failure::{Failure, Result};
use crate::output;
use farslot::fabric::Rights;
use farslot::fabric::tcp::Grant;
use farslot::{READ_ONLY, Secret, Server, StoreError, TableGrant};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More than any such file has.
const LONGEST_FILE: u64 = 1 << 20;

/// The longest name of a grant, in bytes, as the handshake has room for it.
const LONGEST_NAME: usize = 64;

/// A grant as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Entry {
    tables: Vec<String>,
    rights: Opened,
    secret_file: PathBuf,
}

/// What may be done to the tables of a grant.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "lowercase")]
enum Opened {
    Read,
    All,
}

impl Opened {
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
    #[error("its name is empty")]
    NoName,
    #[error("its name has {bytes} bytes, and may have {LONGEST_NAME}")]
    LongName { bytes: usize },
    #[error("there is a grant of that name to more than single tables already; choose another")]
    TakenName,
    #[error("it names no table")]
    NoTables,
    #[error("it names the table {table:?} twice")]
    RepeatedTable { table: String },
    #[error("its secret is one of those that open more than its tables; make it one of its own")]
    SharedSecret,
}

/// The grants of a file, and which of them are in force.
pub struct Grants {
    file: PathBuf,
    /// Secrets that open more than single tables.
    mightier: Vec<Secret>,
    held: BTreeMap<String, Held>,
}

/// A grant of the file.
struct Held {
    grant: TableGrant,
    in_force: bool,
    /// The ids of its tables when it was put in force.
    ids: Vec<Option<u64>>,
    /// Why it is not in force, as was told last.
    told: Option<String>,
}

impl Held {
    fn new(grant: TableGrant) -> Self {
        Self {
            grant,
            in_force: false,
            ids: Vec::new(),
            told: None,
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
            self.told = None;
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
                format!("the grant {name:?} is in force: {tables} can be {may}")
            }
            Err(StoreError::NoSuchTable { name: table, .. }) => {
                format!("the grant {name:?} waits for the table {table:?}")
            }
            Err(error) => format!("the grant {name:?} is not in force: {error}"),
        };
        if self.told.as_ref() != Some(&news) {
            output::note(&news);
            self.told = Some(news);
        }
    }

    fn end(self, server: &Server) {
        if self.in_force {
            server.revoke(&self.grant.name);
            output::note(format_args!("the grant {:?} is revoked", self.grant.name));
        }
    }
}

impl Grants {
    /// Reads a file of grants. `mightier` are the secrets that open more than single tables: none
    /// of the file may be one of them.
    ///
    /// # Errors
    /// A file that cannot be read or is not one of grants, with the grant that is wrong; a secret's
    /// file, as [`secret_in`].
    pub fn read(file: &Path, mightier: Vec<Secret>) -> Result<Self> {
        let grants = grants_of(file, &mightier)?;
        let held = grants
            .into_iter()
            .map(|grant| (grant.name.clone(), Held::new(grant)));
        Ok(Self {
            file: file.into(),
            mightier,
            held: held.collect(),
        })
    }

    /// Puts those in force that are not, as far as their tables are there.
    pub fn put_in_force(&mut self, server: &Server) {
        for held in self.held.values_mut() {
            held.try_put_in_force(server);
        }
    }

    /// Notes other secrets that open more than single tables.
    pub fn set_mightier(&mut self, mightier: Vec<Secret>) {
        self.mightier = mightier;
    }

    /// Reads the file again, and does what it says now. Where something is wrong with it, it says
    /// so and nothing changes.
    pub fn reload(&mut self, server: &Server) {
        let grants = match grants_of(&self.file, &self.mightier) {
            Ok(grants) => grants,
            Err(failure) => {
                output::note(format_args!(
                    "error: {failure}\n  all grants stay as they were"
                ));
                return;
            }
        };
        let mut before = std::mem::take(&mut self.held);
        for grant in grants {
            let held = match before.remove(&grant.name) {
                Some(held) if held.grant == grant => held,
                Some(other) => {
                    other.end(server);
                    Held::new(grant)
                }
                None => Held::new(grant),
            };
            self.held.insert(held.grant.name.clone(), held);
        }
        for held in before.into_values() {
            held.end(server);
        }
        self.put_in_force(server);
    }
}

/// The grants of a file, with their secrets.
fn grants_of(file: &Path, mightier: &[Secret]) -> Result<Vec<TableGrant>> {
    let shown = file.display();
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_string(&mut text))
        .map_err(Failure::io(shown.to_string()))?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(Failure::Failed(format!(
            "{shown}: a file of grants has at most {LONGEST_FILE} bytes"
        )));
    }
    let entries: BTreeMap<String, Entry> = toml::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{shown}: {}", error.to_string().trim_end())))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut grants = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let secret = secret_in(&directory.join(&entry.secret_file))?;
        check(&name, &entry, &secret, mightier)
            .map_err(|wrong| Failure::Failed(format!("{shown}: the grant {name:?}: {wrong}")))?;
        grants.push(TableGrant {
            name,
            secret: Some(secret),
            tables: entry.tables,
            rights: entry.rights.rights(),
        });
    }
    Ok(grants)
}

fn check(
    name: &str,
    entry: &Entry,
    secret: &Secret,
    mightier: &[Secret],
) -> std::result::Result<(), BadGrant> {
    if name.is_empty() {
        return Err(BadGrant::NoName);
    }
    if name.len() > LONGEST_NAME {
        return Err(BadGrant::LongName { bytes: name.len() });
    }
    if [Grant::DEFAULT, READ_ONLY].contains(&name) {
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
    if mightier.contains(secret) {
        return Err(BadGrant::SharedSecret);
    }
    Ok(())
}
