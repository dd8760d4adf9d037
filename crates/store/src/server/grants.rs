//! Grants of single tables.

use super::{REGION, Server};
use crate::catalog::pool::blocks_of;
use crate::catalog::record::pooled;
use crate::catalog::{TableRecord, catalog_bytes};
use crate::clients::executes;
use crate::names::{check_grant_name, check_name, listed};
use crate::{Result, StoreError};
use farslot_fabric::tcp::Secret;
use farslot_fabric::tcp::{Area, Clients, Grant, PrefixArea, Rate};
use farslot_fabric::{FabricError, Rights};

/// Tables that are opened to those who know a secret or have a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableGrant {
    /// Its name, by which clients ask for it: at most 64 bytes.
    pub name: String,
    /// What clients must know: any one of these.
    pub secrets: Vec<Secret>,
    /// Certificates that do instead of a secret, at `tcps://` addresses. Without these and without
    /// a secret the grant is to anybody of a trusted network.
    pub clients: Option<Clients>,
    /// Names of the tables.
    pub tables: Vec<String>,
    /// What may be done to them: `Rights::READ` for lookups, `Rights::ALL` for everything.
    pub rights: Rights,
    /// What the keys begin with that it opens; all keys and all of the tables' bytes if there is
    /// none. Clients of a grant with a prefix get, put, update and remove single keys by calls, and
    /// nothing else: they cannot scan, ask for a table's occupancy, or read any memory. What they
    /// need to know of these tables they are told by calls, without what keys are hashed by. It can
    /// be given at `tcp://` and `tcps://` addresses, for tables of which the owner executes
    /// lookups, and writes if it opens these: linear, RACE and cuckoo tables; to read, also sealed
    /// ones.
    pub prefix: Option<Vec<u8>>,
    /// How much its clients may ask for, all together.
    pub rate: Rate,
}

impl Server {
    /// Opens tables, and nothing besides but the catalog to be read, to those who know a secret or
    /// have a certificate; with a prefix, no memory but single keys to calls. They ask for it by
    /// its name ([`OpenOptions::grant`](crate::OpenOptions::grant)). A grant of that name that is
    /// in force is revoked, and its clients must open the store anew. Shared memory has no grants.
    ///
    /// # Errors
    /// [`StoreError::BadGrant`] of a name that no grant can have, or a prefix that is longer than
    /// the keys of a table; [`StoreError::BadName`] of one that no table can have;
    /// [`StoreError::NoSuchTable`]: a table is granted once it is there.
    /// [`NotEnforceable`](FabricError::NotEnforceable) of a prefix, if nobody executes the calls
    /// that it opens. As [`Agent::grant`](farslot_fabric::tcp::Agent::grant).
    ///
    /// ```
    /// # use farslot::admission::{Rate, TableGrant};
    /// # use farslot::{OpenOptions, Rights, Server, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let server = Server::start("tcp://127.0.0.1:0", 64 << 20)?;
    /// server.store().create("prices", &TableOptions::default())?;
    /// server.grant(&TableGrant {
    ///     name: "shop".into(),
    ///     secrets: Vec::new(),
    ///     clients: None,
    ///     tables: vec!["prices".into()],
    ///     rights: Rights::READ,
    ///     prefix: None,
    ///     rate: Rate::default(),
    /// })?;
    /// let options = OpenOptions {
    ///     grant: "shop".into(),
    ///     ..OpenOptions::default()
    /// };
    /// let shop = Store::open_with(&server.addresses()[0].to_string(), options)?;
    /// assert!(shop.table("prices")?.put(b"pears", b"7").is_err());
    ///
    /// assert!(server.revoke("shop"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn grant(&self, grant: &TableGrant) -> Result<()> {
        check_grant_name(&grant.name)?;
        grant.tables.iter().try_for_each(|name| check_name(name))?;
        let all = self.store.tables()?;
        let region_bytes = self.node.info().regions[0].len;
        let mut areas = Vec::new();
        let (mut by_prefix, mut tagged) = (Vec::new(), Vec::new());
        // Clients of a prefix ask the owner: the catalog says what keys are hashed by.
        if grant.prefix.is_none() {
            areas.push(Area {
                region: REGION,
                bytes: 0..catalog_bytes(region_bytes),
                rights: grant.rights.masked_by(Rights::READ),
            });
        }
        for name in &grant.tables {
            let table = all.iter().find(|table| table.name == *name);
            let table = table.ok_or_else(|| no_such_table(name, &all))?;
            let Some(prefix) = &grant.prefix else {
                let is_pooled = pooled(&table.scheme).is_some();
                if is_pooled {
                    tagged.push(blocks_of(table, region_bytes, grant.rights));
                }
                areas.push(Area {
                    region: REGION,
                    bytes: table.extent(),
                    // Whoever may change the list of its segments reaches all memory by calls.
                    rights: match is_pooled {
                        true => grant.rights.masked_by(Rights::READ),
                        false => grant.rights,
                    },
                });
                continue;
            };
            self.check_prefix(grant, prefix, table)?;
            by_prefix.push(PrefixArea {
                region: REGION,
                bytes: table.scheme_bytes(),
                rights: grant.rights,
                prefix: prefix.clone(),
            });
        }
        let grant = Grant {
            name: grant.name.clone(),
            secrets: grant.secrets.clone(),
            clients: grant.clients.clone(),
            areas: Some(areas),
            by_prefix,
            tagged,
            rate: grant.rate,
        };
        self.put_in_force(&grant)
    }

    /// Refuses a prefix that nobody could hold the clients of a table to.
    fn check_prefix(&self, grant: &TableGrant, prefix: &[u8], table: &TableRecord) -> Result<()> {
        let (bytes, longest) = (prefix.len(), table.scheme.record_sizes().0.most());
        if bytes > longest {
            return Err(StoreError::BadGrant {
                name: grant.name.clone(),
                reason: format!(
                    "its prefix of {bytes} bytes is longer than the keys of table {:?}, of {longest} at most",
                    table.name
                ),
            });
        }
        let reason = match executes(&table.scheme) {
            _ if self.agents.is_empty() && self.nic.is_none() => {
                "shared memory has no grants: whoever has attached reads all of it"
            }
            (false, _) => {
                "keys with a prefix are opened to calls, and CuckooDuo tables are used by READs"
            }
            (true, false) if grant.rights != Rights::READ => {
                "keys with a prefix are opened to calls, and sealed tables are never written: open \
                 them to be read"
            }
            (true, _) => return Ok(()),
        };
        let grant = grant.name.clone();
        Err(FabricError::NotEnforceable { grant, reason }.into())
    }

    /// The ids of the tables of a grant, in its order: they change when one is dropped and made
    /// anew, cleared or renamed. What was granted is then another table's memory soon, and the
    /// grant to be ended or made anew.
    ///
    /// # Errors
    /// As [`Store::tables`](crate::Store::tables).
    pub fn ids_of(&self, grant: &TableGrant) -> Result<Vec<Option<u64>>> {
        let all = self.store.tables()?;
        let id_of = |name: &String| {
            all.iter()
                .find(|table| table.name == *name)
                .map(|table| table.id)
        };
        Ok(grant.tables.iter().map(id_of).collect())
    }
}

fn no_such_table(name: &str, all: &[TableRecord]) -> StoreError {
    let names: Vec<_> = all.iter().map(|table| &*table.name).collect();
    StoreError::NoSuchTable {
        name: name.into(),
        tables: listed(&names),
    }
}
