//! What is served beside the memory: Redis clients, and the page of metrics.

use super::admission::{Admission, tls_of};
use super::args::Args;
use super::plan::{Plan, users};
use super::reload::OptionChanges;
use super::snapshots::Snapshots;
use super::{metrics, redis};
use farslot::Server;
use farslot::admission::{Secret, TableGrant, TlsServer};
use farslot_gateway::Gateway;
use farslot_operate::Page;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;
use std::sync::Arc;

/// What is served beside the memory. It ends when this is dropped.
pub(super) struct SideServices {
    page: Option<Page>,
    gateway: Option<Gateway>,
    /// What those show that are under TLS.
    tls: Option<TlsServer>,
    /// What opens all databases to Redis clients.
    secrets: Vec<Secret>,
}

impl SideServices {
    /// Serves what is asked for.
    ///
    /// # Errors
    /// That an address cannot be listened at.
    pub(super) fn start(
        plan: &Plan,
        server: &Arc<Server>,
        snapshots: Option<&Snapshots>,
    ) -> Result<Self> {
        let redis = plan.redis.as_ref();
        let gateway = redis.map(|options| redis::start(options, server));
        let gateway = gateway.transpose()?;
        let page = plan
            .metrics
            .as_ref()
            .map(|options| metrics::start(options, server, gateway.as_ref(), snapshots));
        Ok(Self {
            page: page.transpose()?,
            gateway,
            tls: plan.tls_beside.clone(),
            secrets: redis.map_or_else(Vec::new, |options| options.secrets.clone()),
        })
    }

    /// Where Redis clients are served.
    pub(super) fn redis(&self, plan: &Plan) -> Option<String> {
        let (gateway, options) = (self.gateway.as_ref()?, plan.redis.as_ref()?);
        let scheme = if options.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        Some(format!("{scheme}://{}", gateway.address()))
    }

    /// Where metrics are served.
    pub(super) fn metrics(&self, plan: &Plan) -> Option<String> {
        let (page, options) = (self.page.as_ref()?, plan.metrics.as_ref()?);
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        Some(format!("{scheme}://{}/metrics", page.address()))
    }

    /// Reads the certificate, the secrets of Redis clients and, where nobody else has, the grants
    /// again. Where something is wrong with the certificate or with who may come, it says so and
    /// nothing of that changes.
    pub(super) fn reload(
        &mut self,
        args: &Args,
        context: &Context,
        admission: Option<&Admission>,
        changes: &mut OptionChanges<'_>,
    ) {
        self.reload_certificate(context, changes);
        let Some(gateway) = &self.gateway else { return };
        match self.who_may_come(args, admission) {
            Ok((secrets, users)) => {
                gateway.change_users(&users);
                if let Some(secrets) = secrets {
                    changes.applied(&["redis-secret-file"]);
                    if secrets != self.secrets {
                        gateway.change_secrets(&secrets);
                        output::note("the secret of Redis clients is another now");
                        self.secrets = secrets;
                    }
                }
                if admission.is_none() {
                    changes.applied(&["grants"]);
                }
            }
            Err(failure) => output::note(format_args!(
                "error: {failure}\n  all users of Redis clients stay as they were"
            )),
        }
    }

    /// The secrets of Redis clients, where they need one and needed one before, and the users.
    fn who_may_come(
        &self,
        args: &Args,
        admission: Option<&Admission>,
    ) -> Result<(Option<Vec<Secret>>, Vec<TableGrant>)> {
        let secrets = redis::secrets(&args.redis)?.filter(|_| !self.secrets.is_empty());
        let in_force = secrets.as_deref().unwrap_or(&self.secrets);
        let users = users(args, admission, in_force)?;
        Ok((secrets, users))
    }

    fn reload_certificate(&mut self, context: &Context, changes: &mut OptionChanges<'_>) {
        let Some(before) = &self.tls else { return };
        let now = match tls_of(context, None) {
            Ok(now) => now,
            Err(failure) => {
                return output::note(format_args!(
                    "error: {failure}\n  the certificate for Redis clients and metrics stays as it was"
                ));
            }
        };
        changes.applied(&["tls-cert", "tls-key"]);
        if now == *before {
            return;
        }
        if let Some(gateway) = &self.gateway {
            gateway.change_tls(&now);
        }
        if let Some(page) = &self.page {
            page.change_tls(&now);
        }
        output::note("the certificate for Redis clients and metrics is another now");
        self.tls = Some(now);
    }
}
