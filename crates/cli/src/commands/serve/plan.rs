//! What `farslot serve` is to serve, and to whom: read and checked before anything is served.

use super::admission::{Admission, note_validity, tls_of};
use super::args::Args;
use super::{metrics, redis};
use farslot::admission::{Secret, TableGrant, TlsServer};
use farslot::{Address, Server, ServerOptions};
use farslot_gateway::GatewayOptions;
use farslot_operate::PageOptions;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use farslot_terminal::settings::{Origin, SECRET, Setting};
use std::collections::BTreeMap;

/// What is to be served, and to whom.
pub(super) struct Plan {
    pub(super) addresses: Vec<Address>,
    pub(super) bytes: u64,
    /// Where clients are admitted: over a network.
    pub(super) admission: Option<Admission>,
    /// What Redis clients and those of the metrics are shown, where one of both is under TLS: it
    /// asks them for no certificate.
    pub(super) tls_beside: Option<TlsServer>,
    pub(super) redis: Option<GatewayOptions>,
    pub(super) metrics: Option<PageOptions>,
}

impl Plan {
    /// As the options say, and the files that they name.
    ///
    /// # Errors
    /// What is wrong with one, or does not go with another.
    pub(super) fn read(args: &Args, context: &Context) -> Result<Self> {
        context.check_certificate()?;
        let Some(address) = args.at.as_ref().or(context.address.as_ref()) else {
            return Err(Failure::Usage(
                "nothing says where to serve\n  try:  farslot serve shm://work &".into(),
            ));
        };
        let addresses = std::iter::once(address).chain(&args.also);
        let addresses: Vec<_> = addresses.cloned().collect();
        let by_network =
            |address: &Address| matches!(address, Address::Tcp { .. } | Address::Verbs { .. });
        for address in &addresses {
            if !matches!(address, Address::Shm { .. }) && !by_network(address) {
                return Err(Failure::Usage(format!(
                    "{address} has no process that could serve it: use shm://NAME, tcp://HOST:PORT, tcps://HOST:PORT or verbs://HOST:PORT"
                )));
            }
        }
        args.keep.check(&addresses)?;
        let under_tls = addresses
            .iter()
            .any(|address| matches!(address, Address::Tcp { tls: true, .. }));
        let admission = if addresses.iter().any(by_network) {
            Some(Admission::read(args, context, under_tls)?)
        } else {
            Admission::check_none(args)?;
            None
        };
        let is_beside = args.redis.is_under_tls() || args.metrics.is_under_tls();
        let tls_beside = is_beside.then(|| tls_of(context, None)).transpose()?;
        let of_agents = admission.as_ref().and_then(|all| all.tls.as_ref());
        if let Some(tls) = of_agents.or(tls_beside.as_ref()) {
            note_validity(tls);
        }
        let tls = tls_beside.as_ref();
        let mut redis = redis::options(&args.redis, args.insecure, tls)?;
        if let Some(redis) = &mut redis {
            redis.users = users(args, admission.as_ref(), &redis.secrets)?;
        }
        Ok(Self {
            admission,
            redis,
            metrics: metrics::options(&args.metrics, &args.trust, args.insecure, tls)?,
            tls_beside,
            bytes: args.memory.map_or_else(
                || farslot::health::available_memory() / 2,
                |size| size.as_u64(),
            ),
            addresses,
        })
    }

    /// The addresses as text, as the server takes them.
    pub(super) fn names(&self) -> Vec<String> {
        self.addresses.iter().map(ToString::to_string).collect()
    }

    /// How the memory is served; without an audit log.
    pub(super) fn options(&self, args: &Args) -> ServerOptions {
        let options = ServerOptions {
            threads: args.threads,
            trusted: args.trust.clone(),
            insecure: args.insecure,
            restoring: args.snapshots.restores(),
            ..ServerOptions::default()
        };
        match &self.admission {
            None => options,
            Some(Admission { proofs, tls, .. }) => ServerOptions {
                secrets: proofs.secrets.clone(),
                clients: proofs.clients.clone(),
                read_only_secrets: proofs.read_only_secrets.clone(),
                tls: tls.clone(),
                ..options
            },
        }
    }

    /// Checks what else can be checked without serving, and prints what would be in force and where
    /// it comes from.
    ///
    /// # Errors
    /// What could not be served.
    pub(super) fn check_and_print(&self, args: &Args, context: &Context) -> Result<()> {
        let names = self.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Server::check(&names, self.bytes, &self.options(args))
            .map_err(|error| Failure::from(error).at(&self.addresses[0]))?;
        args.snapshots.check()?;
        if let Some(audit) = &args.audit {
            output::check_writable(audit)?;
        }
        let mut settings = context.settings.all();
        if args.memory.is_none() {
            settings.push(Setting {
                key: "memory".into(),
                value: i64::try_from(self.bytes).unwrap_or(i64::MAX).into(),
                origin: Origin::Default,
            });
        }
        // The secret itself is not shown.
        let secret = context.secret_file.is_none() && std::env::var_os(SECRET).is_some();
        let secret = secret.then_some(SECRET);
        if context.json {
            let by_key = settings.iter().map(|setting| (&setting.key, setting));
            let by_key: BTreeMap<_, _> = by_key.collect();
            return output::json(&serde_json::json!({
                "config": context.settings.file(), "options": by_key, "secret_from": secret,
            }));
        }
        for Setting { key, value, origin } in &settings {
            // As a file that comes to the same.
            let unsaid = match origin {
                Origin::Default => "# ",
                _ => "",
            };
            output::line(format!("{unsaid}{key} = {value} # {origin}"))?;
        }
        if let Some(variable) = secret {
            output::line(format!("# the secret # environment, {variable}"))?;
        }
        Ok(())
    }
}

/// The users that Redis clients can be.
///
/// # Errors
/// As [`redis::users`].
pub(super) fn users(
    args: &Args,
    admission: Option<&Admission>,
    secrets: &[Secret],
) -> Result<Vec<TableGrant>> {
    let grants = admission.and_then(|all| all.grants.as_ref());
    // Those of a network are what the file says, or what it has said while nothing was wrong.
    let file = args.grants.as_deref().filter(|_| admission.is_none());
    redis::users(grants, file, secrets)
}
