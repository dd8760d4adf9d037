//! What is served beside the memory: Redis clients, and the page of metrics.

use super::admission::{Admission, tls_of};
use super::args::Args;
use super::plan::{Plan, users};
use super::reload::Changes;
use super::snapshots::Snapshots;
use super::{metrics, redis};
use crate::context::Context;
use crate::failure::Result;
use crate::output;
use farslot::{Secret, Server, TlsServer};
use farslot_gateway::Gateway;
use farslot_operate::Page;
use std::sync::Arc;

/// What is served beside the memory. It ends when this is dropped.
pub(super) struct Beside {
    page: Option<Page>,
    gateway: Option<Gateway>,
    /// What those show that are under TLS.
    tls: Option<TlsServer>,
    /// What opens all databases to Redis clients.
    secret: Option<Secret>,
}

impl Beside {
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
            secret: redis.and_then(|options| options.secret.clone()),
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

    /// Reads the certificate and, where nobody else has, the grants again. Where something is wrong
    /// with either, it says so and nothing of it changes.
    pub(super) fn reload(
        &mut self,
        args: &Args,
        context: &Context,
        admission: Option<&Admission>,
        changes: &mut Changes<'_>,
    ) {
        self.reload_certificate(context, changes);
        let Some(gateway) = &self.gateway else { return };
        match users(args, admission, self.secret.as_ref()) {
            Ok(users) => {
                gateway.change_users(&users);
                if admission.is_none() {
                    changes.applied(&["grants"]);
                }
            }
            Err(failure) => output::note(format_args!(
                "error: {failure}\n  all users of Redis clients stay as they were"
            )),
        }
    }

    fn reload_certificate(&mut self, context: &Context, changes: &mut Changes<'_>) {
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
