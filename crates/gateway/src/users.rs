//! The users that clients can be besides `default`, who may do everything: grants of tables, by
//! their names.

use crate::commands::{Command, DatabaseCommand, Request, Session, Transaction};
use crate::databases::{DATABASES, table_name};
use crate::failure::Failure;
use crate::revocable::{InForce, Revocable};
use farslot::Rights;
use farslot::admission::{Rate, TableGrant};
use std::sync::Arc;

/// One of them.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct User {
    grant: TableGrant,
    /// Bit N says whether it opens database N.
    databases: u16,
}

/// The user of a name, if that is its secret. The names are no secret.
pub(crate) fn proved(
    users: &InForce<User>,
    name: &[u8],
    secret: &[u8],
) -> Option<Arc<Revocable<User>>> {
    let user = users.find(|user| user.name().as_bytes() == name)?;
    let mut secrets = user.grant.secrets.iter();
    let is_right = secrets.any(|right| right.is(secret));
    is_right.then_some(user)
}

impl User {
    pub(crate) fn new(grant: TableGrant) -> Self {
        let opened = (0..DATABASES).filter(|number| grant.tables.contains(&table_name(*number)));
        Self {
            databases: opened.fold(0, |all, number| all | 1 << number),
            grant,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.grant.name
    }

    /// Whether it opens all of a database to be read.
    pub(crate) fn opens_all_of(&self, database: u8) -> bool {
        self.opens(database) && self.grant.prefix.is_none() && self.grant.rights.allow(Rights::READ)
    }

    fn opens(&self, database: u8) -> bool {
        self.databases & 1 << database != 0
    }

    /// Refuses what no client of Redis can be held to.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let why = if self.databases == 0 {
            "opens none of the tables redis-0 to redis-15"
        } else if self.grant.rate != Rate::default() {
            "has a rate, which only clients of the store are held to"
        } else {
            return Ok(());
        };
        Err(Failure::NoUser {
            grant: self.name().into(),
            why,
        })
    }

    /// Refuses a request on a database that it may not do.
    pub(crate) fn check_request(
        &self,
        command: &Command,
        database: u8,
        request: &Request<'_>,
    ) -> Result<(), Failure> {
        let user = || self.name().to_owned();
        let no_command = || Failure::CommandDenied {
            user: user(),
            command: command.name,
        };
        let no_database = |database| Failure::DatabaseDenied {
            user: user(),
            database,
        };
        match request {
            Request::Session(Session::Select(number)) => {
                let number = u8::try_from(*number).ok();
                let number = number.filter(|number| *number < DATABASES);
                let denied = number.filter(|number| !self.opens(*number));
                return denied.map_or(Ok(()), |number| Err(no_database(number)));
            }
            // Others' keys are told there.
            Request::Session(
                Session::SlowLogGet(_) | Session::SlowLogLen | Session::SlowLogReset,
            ) => return Err(no_command()),
            Request::Transaction(Transaction::Watch(_)) => {}
            Request::Session(_) | Request::Transaction(_) => return Ok(()),
            Request::One(..) | Request::Each(..) | Request::Keyspace(_) => {}
        }
        let needed = match command.flags.contains(&"write") {
            true => Rights::ALL,
            false => Rights::READ,
        };
        if !self.grant.rights.allow(needed) {
            return Err(no_command());
        }
        if !self.opens(database) {
            return Err(no_database(database));
        }
        let prefix = self.grant.prefix.as_deref().unwrap_or_default();
        let may = |key: &[u8]| key.starts_with(prefix);
        let may_all = match request {
            Request::One(key, _) => may(key),
            Request::Each(steps, _) => steps.iter().all(|(key, _)| may(key)),
            Request::Transaction(Transaction::Watch(keys)) => keys.iter().all(|key| may(key)),
            Request::Keyspace(DatabaseCommand::SetAbsent(pairs)) => {
                pairs.iter().all(|(key, _)| may(key))
            }
            // What concerns other keys too.
            Request::Keyspace(DatabaseCommand::Flush { all: true })
                if self.databases != u16::MAX =>
            {
                return Err(no_command());
            }
            Request::Keyspace(_) if self.grant.prefix.is_some() => return Err(no_command()),
            Request::Keyspace(_) | Request::Session(_) | Request::Transaction(_) => true,
        };
        match may_all {
            true => Ok(()),
            false => Err(Failure::KeyDenied { user: user() }),
        }
    }
}
