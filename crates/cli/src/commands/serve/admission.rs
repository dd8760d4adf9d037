//! Who is admitted to what: the secrets and certificates of `farslot serve`, and what SIGHUP
//! changes of them.

use super::args::Args;
use super::audit::Tables;
use super::grants::{Grants, Mightier};
use super::told::Told;
use crate::context::{Context, certificates_in, secrets_in};
use crate::failure::{Failure, Result};
use crate::output;
use farslot::{Clients, Secret, Server, StoreError, TlsServer, give_back_freed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a node looks whether tables have been made that a grant waits for, or dropped that one
/// opens: well before the memory of one that was dropped is another's.
const LOOK_FOR_TABLES: Duration = Duration::from_millis(100);
/// How often it looks which tables were made and dropped, to write that down.
const AUDIT_TABLES: Duration = Duration::from_secs(1);

/// How often it looks whether much of its memory was freed, to give that back to the system.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// Who is admitted to what.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) secrets: Vec<Secret>,
    pub(super) read_only_secrets: Vec<Secret>,
    /// Certificates that open everything.
    pub(super) clients: Option<Clients>,
    pub(super) grants: Option<Grants>,
    pub(super) tls: Option<TlsServer>,
}

const NO_CERTIFICATE: &str = "a tcps:// address is served with a certificate: --tls-cert FILE --tls-key FILE
  to try it:  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \\
                -keyout key.pem -out cert.pem -subj /CN=farslot -addext subjectAltName=IP:127.0.0.1";

impl Admission {
    /// Of memory that only processes of this user reach, by its name: they need no secret, and may
    /// do everything.
    pub(super) fn of_this_user(args: &Args) -> Result<Self> {
        let client_ca = args.tls_client_ca.as_ref().map(|_| "--tls-client-ca");
        let Some(option) = limiting_option(args).or(client_ca) else {
            return Ok(Self::default());
        };
        Err(Failure::Usage(format!(
            "{option} is for tcp:// and verbs:// addresses: whoever reaches a shm:// address may do everything"
        )))
    }

    /// Of memory that is served over a network.
    pub(super) fn read(args: &Args, context: &Context, under_tls: bool) -> Result<Self> {
        let clients = args
            .tls_client_ca
            .as_ref()
            .map(|_| match &*args.tls_client {
                [] => Clients::Any,
                names => Clients::Named(names.into()),
            });
        if clients.is_some() && !under_tls {
            return Err(Failure::Usage(
                "--tls-client-ca is for tcps:// addresses: no certificate is shown at others"
                    .into(),
            ));
        }
        let tls = if under_tls {
            Some(tls_of(args, context)?)
        } else {
            None
        };
        let [secrets, read_only_secrets] = secrets_of(args, context)?;
        let mut admission = Self {
            secrets,
            read_only_secrets,
            clients,
            grants: None,
            tls,
        };
        // Whoever may do less must not be able to ask for the grant to everything.
        if let Some(option) = limiting_option(args)
            && admission.is_open()
        {
            return Err(Failure::Usage(format!(
                "{option} needs --secret-file as well: without one anybody can write"
            )));
        }
        if let Some(file) = &args.grants {
            admission.grants = Some(Grants::read(file, admission.mightier())?);
        }
        Ok(admission)
    }

    /// Whether clients may do everything that prove nothing.
    pub(super) fn is_open(&self) -> bool {
        self.secrets.is_empty() && self.clients.is_none()
    }

    /// What opens more than single tables.
    fn mightier(&self) -> Mightier {
        let both = self.secrets.iter().chain(&self.read_only_secrets);
        Mightier {
            secrets: both.cloned().collect(),
            clients: self.clients.clone(),
        }
    }

    /// Keeps grants, secrets and certificates as their files say, until the process is to end.
    pub(super) fn keep_in_force(
        &mut self,
        args: &Args,
        context: &Context,
        server: &Server,
        told: &Receiver<Told>,
        tables: &mut Option<Tables>,
    ) {
        let mut gave_back = Instant::now();
        loop {
            // This thread serves nobody.
            if gave_back.elapsed() >= GIVE_BACK {
                give_back_freed();
                gave_back = Instant::now();
            }
            if let Some(grants) = &mut self.grants {
                grants.put_in_force(server);
            }
            if let Some(tables) = tables {
                tables.look(server);
            }
            let look = self.grants.as_ref().map(|_| LOOK_FOR_TABLES);
            let look = look.or(tables.as_ref().map(|_| AUDIT_TABLES));
            match told.recv_timeout(look.unwrap_or(GIVE_BACK)) {
                Ok(Told::Reload) => self.reload(args, context, server),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Told::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads all files again. Where something is wrong with one, it says so and nothing of it
    /// changes.
    fn reload(&mut self, args: &Args, context: &Context, server: &Server) {
        if let Err(failure) = self.reload_tls(args, context, server) {
            output::note(format_args!(
                "error: {failure}\n  all certificates stay as they were"
            ));
        }
        if let Err(failure) = self.reload_secrets(args, context, server) {
            output::note(format_args!(
                "error: {failure}\n  all secrets stay as they were"
            ));
        }
        if let Some(grants) = &mut self.grants {
            grants.reload(server);
        }
    }

    fn reload_tls(&mut self, args: &Args, context: &Context, server: &Server) -> Result<()> {
        let Some(before) = &self.tls else {
            return Ok(());
        };
        let now = tls_of(args, context)?;
        if now == *before {
            return Ok(());
        }
        server.change_tls(&now)?;
        output::note(format_args!(
            "the certificates are others now; the fingerprint, for --tls-pin: {}",
            now.fingerprint()
        ));
        self.tls = Some(now);
        Ok(())
    }

    fn reload_secrets(&mut self, args: &Args, context: &Context, server: &Server) -> Result<()> {
        let [secrets, read_only_secrets] = secrets_of(args, context)?;
        server.change_secrets(&secrets, &read_only_secrets)?;
        for (before, now, option) in [
            (&self.secrets, &secrets, "--secret-file"),
            (
                &self.read_only_secrets,
                &read_only_secrets,
                "--read-only-secret-file",
            ),
        ] {
            if before.iter().any(|secret| !now.contains(secret)) {
                output::note(format_args!(
                    "the secret of {option} is another now: clients with the one before connect anew"
                ));
            } else if before != now {
                output::note(format_args!(
                    "{option} has another secret as well now: clients with either are admitted"
                ));
            }
        }
        (self.secrets, self.read_only_secrets) = (secrets, read_only_secrets);
        let mightier = self.mightier();
        if let Some(grants) = &mut self.grants {
            grants.set_mightier(mightier);
        }
        Ok(())
    }
}

/// The secrets that open everything, and those that open everything to be read.
fn secrets_of(args: &Args, context: &Context) -> Result<[Vec<Secret>; 2]> {
    let all = context.secrets()?;
    let read_only = args.read_only_secret_file.as_deref().map(secrets_in);
    let read_only = read_only.transpose()?.unwrap_or_default();
    if read_only.iter().any(|secret| all.contains(secret)) {
        return Err(Failure::Usage(
            "--read-only-secret-file must have another secret than --secret-file: with that one \
             clients can write"
                .into(),
        ));
    }
    Ok([all, read_only])
}

/// How `tcps://` addresses are served, as the files say.
fn tls_of(args: &Args, context: &Context) -> Result<TlsServer> {
    let own = context.own_certificate()?;
    let (chain, key) = own.ok_or_else(|| Failure::Usage(NO_CERTIFICATE.into()))?;
    let client_ca = args
        .tls_client_ca
        .as_deref()
        .map(certificates_in)
        .transpose()?;
    let tls = TlsServer::new(&chain, &key, client_ca.as_deref()).map_err(StoreError::from)?;
    if let Some(reason) = tls.not_valid_now() {
        output::note(format_args!(
            "warning: the certificate in --tls-cert is not valid now ({reason}): clients with \
             --tls-ca refuse it, those with --tls-pin do not"
        ));
    }
    Ok(tls)
}

/// An option that admits some clients to less than everything.
fn limiting_option(args: &Args) -> Option<&'static str> {
    let grants = args.grants.as_ref().map(|_| "--grants");
    let read_only = args.read_only_secret_file.as_ref();
    read_only.map(|_| "--read-only-secret-file").or(grants)
}
