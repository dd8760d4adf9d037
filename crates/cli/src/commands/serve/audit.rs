//! The audit log of `farslot serve --audit FILE`.

use farslot::Server;
use farslot::admission::{Audit, AuditEvent, AuditKind};
use farslot_terminal::failure::{Failure, Result};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// An audit log that is appended to a file, which nobody else may read if it is made for this.
///
/// # Errors
/// Of opening it.
pub fn audit_to(path: &Path) -> Result<Arc<Audit>> {
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(path);
    Ok(Audit::to(
        file.map_err(Failure::io(path.display().to_string()))?,
    ))
}

/// Which tables there are. Clients make and drop them by themselves: the node only sees which there
/// are at times, and writes down what has changed.
pub struct Tables {
    audit: Arc<Audit>,
    known: BTreeSet<String>,
}

impl Tables {
    /// As they are now.
    pub fn new(audit: Arc<Audit>, server: &Server) -> Self {
        let known = names(server).unwrap_or_default();
        Self { audit, known }
    }

    /// Writes down which were made and dropped since the last look.
    pub fn look(&mut self, server: &Server) {
        // A catalog that cannot be read is told of to those who use it.
        let Some(now) = names(server) else { return };
        for name in now.difference(&self.known) {
            self.tell(AuditKind::TableMade, name);
        }
        for name in self.known.difference(&now) {
            self.tell(AuditKind::TableDropped, name);
        }
        self.known = now;
    }

    fn tell(&self, kind: AuditKind, name: &str) {
        self.audit.record(&AuditEvent {
            kind,
            peer: None,
            grant: None,
            detail: Some(format_args!("{name}")),
        });
    }
}

fn names(server: &Server) -> Option<BTreeSet<String>> {
    let tables = server.store().tables().ok()?;
    Some(tables.into_iter().map(|table| table.name).collect())
}
