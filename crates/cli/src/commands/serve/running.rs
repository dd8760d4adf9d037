//! A node that serves, until it is told to end.

use super::admission::Admission;
use super::args::Args;
use super::audit::Tables;
use super::kept::SupervisedKeeper;
use super::reload::{OptionChanges, OptionValues, values_of};
use super::side_services::SideServices;
use super::snapshots::Snapshots;
use farslot::Server;
use farslot::health::give_back_freed;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;
use farslot_terminal::serve_signal::ServeSignal;
use farslot_terminal::settings::Settings;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a node looks whether tables have been made that a grant waits for, or dropped that one
/// opens: well before the memory of one that was dropped is another's.
const LOOK_FOR_TABLES: Duration = Duration::from_millis(100);
/// How often it looks which tables were made and dropped, to write that down.
const AUDIT_TABLES: Duration = Duration::from_secs(1);
/// How often it looks whether the keeper of its memory is there.
const LOOK_FOR_KEEPER: Duration = Duration::from_secs(1);
/// How often it looks whether much of its memory was freed, to give that back to the system.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// Freed bytes that stay for what is allocated next.
const KEPT: usize = 32 << 20;

/// A node that serves.
pub(super) struct ServingNode<'r> {
    server: &'r Server,
    /// Where clients are admitted: over a network.
    admission: Option<Admission>,
    services: SideServices,
    snapshots: Option<&'r Snapshots>,
    tables: Option<Tables>,
    kept: Option<SupervisedKeeper>,
    settings: &'r Settings,
    in_force: OptionValues,
}

impl<'r> ServingNode<'r> {
    pub(super) fn new(
        server: &'r Server,
        admission: Option<Admission>,
        services: SideServices,
        snapshots: Option<&'r Snapshots>,
        tables: Option<Tables>,
        kept: Option<SupervisedKeeper>,
        settings: &'r Settings,
    ) -> Self {
        Self {
            in_force: values_of(settings),
            server,
            admission,
            services,
            snapshots,
            tables,
            kept,
            settings,
        }
    }

    /// Does what is to be done beside serving, which other threads do, until the process is to end.
    /// Then nothing is served beside the memory any more.
    pub(super) fn run(mut self, signals: &Receiver<ServeSignal>) {
        let mut gave_back = Instant::now();
        loop {
            if gave_back.elapsed() >= GIVE_BACK {
                give_back_freed(KEPT);
                gave_back = Instant::now();
            }
            let grants = self.admission.as_mut().and_then(|all| all.grants.as_mut());
            let look = grants.map(|grants| {
                grants.put_in_force(self.server);
                LOOK_FOR_TABLES
            });
            let audit = self.tables.as_mut().map(|tables| {
                tables.look(self.server);
                AUDIT_TABLES
            });
            let kept = self.kept.as_mut().map(|kept| {
                kept.look();
                LOOK_FOR_KEEPER
            });
            match signals.recv_timeout(look.or(audit).or(kept).unwrap_or(GIVE_BACK)) {
                Ok(ServeSignal::Reload) => self.reload(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(ServeSignal::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does what the files say now, as far as that can change while it serves.
    fn reload(&mut self) {
        let (args, context) = match self.read_again() {
            Ok(read) => read,
            Err(failure) => {
                return output::note(format_args!(
                    "error: {failure}\n  everything stays as it was"
                ));
            }
        };
        let mut changes = OptionChanges::new(&mut self.in_force, values_of(&context.settings));
        if let Some(admission) = &mut self.admission {
            admission.reload(&args, &context, self.server, &mut changes);
        }
        let admission = self.admission.as_ref();
        self.services
            .reload(&args, &context, admission, &mut changes);
        if let Some(snapshots) = self.snapshots {
            snapshots.reload(&args.snapshots, &mut changes);
        }
        changes.tell_the_rest();
    }

    fn read_again(&self) -> Result<(Args, Context)> {
        let settings = self.settings.read_again()?;
        let args = settings.parsed()?;
        let context = settings.parsed()?;
        Ok((
            args,
            Context {
                settings,
                ..context
            },
        ))
    }
}
