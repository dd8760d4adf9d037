//! Who is admitted to what: the secrets and certificates of `farslot serve`, and what SIGHUP
//! changes of them.

use super::args::Args;
use super::grants::{FullAccess, GrantFile};
use super::reload::OptionChanges;
use farslot::admission::{Clients, Secret, TlsServer};
use farslot::{Server, StoreError};
use farslot_terminal::context::{Context, certificates_in, secrets_in};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::path::Path;

/// Who is admitted to what.
pub(super) struct Admission {
    pub(super) proofs: Proofs,
    pub(super) grants: Option<GrantFile>,
    pub(super) tls: Option<TlsServer>,
}

/// What opens more than single tables.
pub(super) struct Proofs {
    pub(super) secrets: Vec<Secret>,
    pub(super) read_only_secrets: Vec<Secret>,
    /// Certificates that open everything.
    pub(super) clients: Option<Clients>,
}

const NO_CERTIFICATE: &str = "what is under TLS (tcps://, rediss://, https://) is served with a certificate: --tls-cert FILE --tls-key FILE
  to try it:  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \\
                -keyout key.pem -out cert.pem -subj /CN=farslot -addext subjectAltName=IP:127.0.0.1";

impl Admission {
    /// Memory that only processes of this user reach, by its name, has none: they need no secret,
    /// and may do everything. Only Redis clients may be held to grants.
    pub(super) fn check_none(args: &Args) -> Result<()> {
        let client_ca = args.tls_client_ca.as_ref().map(|_| "--tls-client-ca");
        match limiting_option(args).or(client_ca) {
            None => Ok(()),
            Some("--grants") if args.redis.needs_secret() => Ok(()),
            Some("--grants") => Err(Failure::Usage(
                "--grants is for tcp:// and verbs:// addresses, and for Redis clients where there is \
                 --redis-secret-file: whoever reaches a shm:// address may do everything"
                    .into(),
            )),
            Some(option) => Err(Failure::Usage(format!(
                "{option} is for tcp:// and verbs:// addresses: whoever reaches a shm:// address may do everything"
            ))),
        }
    }

    /// Of memory that is served over a network.
    pub(super) fn read(args: &Args, context: &Context, under_tls: bool) -> Result<Self> {
        let tls = under_tls
            .then(|| tls_of(context, args.tls_client_ca.as_deref()))
            .transpose()?;
        let proofs = Proofs::read(args, context, under_tls)?;
        let grants = args.grants.as_deref();
        let grants = grants.map(|file| GrantFile::read(file, proofs.full_access()));
        Ok(Self {
            grants: grants.transpose()?,
            proofs,
            tls,
        })
    }

    /// Reads all files again. Where something is wrong with one, it says so and nothing of it
    /// changes.
    pub(super) fn reload(
        &mut self,
        args: &Args,
        context: &Context,
        server: &Server,
        changes: &mut OptionChanges<'_>,
    ) {
        type Step = fn(&mut Admission, &Args, &Context, &Server) -> Result<()>;
        let certificates: (Step, _, &[_]) = (
            Self::reload_tls,
            "certificates",
            &["tls-cert", "tls-key", "tls-client-ca"],
        );
        let proofs: (Step, _, &[_]) = (
            Self::reload_proofs,
            "secrets",
            &["secret-file", "read-only-secret-file", "tls-client"],
        );
        let grants: (Step, _, &[_]) = (Self::reload_grants, "grants", &["grants"]);
        // A client authority is there for as long as anything is opened by its certificates.
        let steps = match args.tls_client_ca {
            Some(_) => [certificates, proofs, grants],
            None => [proofs, certificates, grants],
        };
        for (step, items, keys) in steps {
            match step(self, args, context, server) {
                Ok(()) => changes.applied(keys),
                Err(failure) => output::note(format_args!(
                    "error: {failure}\n  all {items} stay as they were"
                )),
            }
        }
    }

    fn reload_tls(&mut self, args: &Args, context: &Context, server: &Server) -> Result<()> {
        let Some(before) = &self.tls else {
            return Ok(());
        };
        let now = tls_of(context, args.tls_client_ca.as_deref())?;
        if now == *before {
            return Ok(());
        }
        note_validity(&now);
        server.change_tls(&now)?;
        output::note(format_args!(
            "the certificates are others now; the fingerprint, for --tls-pin: {}",
            now.fingerprint()
        ));
        self.tls = Some(now);
        Ok(())
    }

    fn reload_proofs(&mut self, args: &Args, context: &Context, server: &Server) -> Result<()> {
        let now = Proofs::read(args, context, self.tls.is_some())?;
        server.change_proofs(&now.secrets, now.clients.as_ref(), &now.read_only_secrets)?;
        let before = std::mem::replace(&mut self.proofs, now);
        let now = &self.proofs;
        let changed = [
            (&before.secrets, &now.secrets, "--secret-file"),
            (
                &before.read_only_secrets,
                &now.read_only_secrets,
                "--read-only-secret-file",
            ),
        ];
        // Where there were none, or are none now, the option has changed, which is told.
        let changed = changed
            .into_iter()
            .filter(|(before, now, _)| !before.is_empty() && !now.is_empty());
        for (before, now, option) in changed {
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
        if let Some(grants) = &mut self.grants {
            grants.set_full_access(self.proofs.full_access());
        }
        Ok(())
    }

    fn reload_grants(&mut self, args: &Args, _: &Context, server: &Server) -> Result<()> {
        match (&mut self.grants, &args.grants) {
            (None, None) => {}
            (Some(grants), Some(file)) => grants.reload(file, server)?,
            (Some(grants), None) => {
                grants.end(server);
                self.grants = None;
            }
            (None, Some(file)) => {
                self.proofs.check_limits(args)?;
                self.grants = Some(GrantFile::read(file, self.proofs.full_access())?);
            }
        }
        Ok(())
    }
}

impl Proofs {
    fn read(args: &Args, context: &Context, under_tls: bool) -> Result<Self> {
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
        let [secrets, read_only_secrets] = secrets_of(args, context)?;
        let proofs = Self {
            secrets,
            read_only_secrets,
            clients,
        };
        proofs.check_limits(args)?;
        Ok(proofs)
    }

    /// Whether clients may do everything that prove nothing.
    pub(super) fn is_open(&self) -> bool {
        self.secrets.is_empty() && self.clients.is_none()
    }

    /// Whoever may do less must not be able to ask for the grant to everything.
    fn check_limits(&self, args: &Args) -> Result<()> {
        match limiting_option(args) {
            Some(option) if self.is_open() => Err(Failure::Usage(format!(
                "{option} needs --secret-file as well: without one anybody can write"
            ))),
            _ => Ok(()),
        }
    }

    fn full_access(&self) -> FullAccess {
        let both = self.secrets.iter().chain(&self.read_only_secrets);
        FullAccess {
            secrets: both.cloned().collect(),
            clients: self.clients.clone(),
        }
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

/// How something is served under TLS, as the files say.
///
/// # Errors
/// That there is no certificate, or one that cannot be used.
pub(super) fn tls_of(context: &Context, client_ca: Option<&Path>) -> Result<TlsServer> {
    let certificate = context.own_certificate()?;
    let (chain, key) = certificate.ok_or_else(|| Failure::Usage(NO_CERTIFICATE.into()))?;
    let client_ca = client_ca.map(certificates_in).transpose()?;
    Ok(TlsServer::new(&chain, &key, client_ca.as_deref()).map_err(StoreError::from)?)
}

/// Notes that a certificate is not valid now, where it is not.
pub(super) fn note_validity(tls: &TlsServer) {
    if let Some(reason) = tls.not_valid_now() {
        output::note(format_args!(
            "warning: the certificate in --tls-cert is not valid now ({reason}): clients with \
             --tls-ca refuse it, those with --tls-pin do not"
        ));
    }
}

/// An option that admits some clients to less than everything.
fn limiting_option(args: &Args) -> Option<&'static str> {
    let grants = args.grants.as_ref().map(|_| "--grants");
    let read_only = args.read_only_secret_file.as_ref();
    read_only.map(|_| "--read-only-secret-file").or(grants)
}
