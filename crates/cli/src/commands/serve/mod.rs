//! `farslot serve`: lends memory, and does nothing else.

mod admission;
mod args;
mod audit;
mod grants;
mod kept;
mod listen;
mod metrics;
mod plan;
mod redis;
mod reload;
mod running;
mod side_services;
mod snapshots;

use self::admission::Admission;
use self::audit::{Tables, audit_to};
use self::plan::Plan;
use self::running::ServingNode;
use self::side_services::SideServices;
pub use args::Args;
use farslot::{Address, Server, ServerOptions};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use farslot_terminal::serve_signal::switch;
use sd_notify::NotifyState;
use std::net::IpAddr;
use std::sync::Arc;

/// Serves until the process is told to stop.
///
/// # Errors
/// That the memory cannot be had or the name is taken.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let mut plan = Plan::read(&args, context)?;
    if args.check_config {
        return plan.check_and_print(&args, context);
    }
    let audit = args.audit.as_deref().map(audit_to).transpose()?;
    let options = ServerOptions {
        audit: audit.clone(),
        ..plan.options(&args)
    };
    let names = plan.names();
    let served: Vec<&str> = names.iter().map(String::as_str).collect();
    // The switch is there before the line that says "ready": whoever reads it may end us at once.
    let reloads = args.config.is_some()
        || args.grants.is_some()
        || plan.tls_beside.is_some()
        || plan
            .admission
            .as_ref()
            .is_some_and(|admission| admission.tls.is_some() || context.secret_file.is_some());
    let signals = switch(args.while_stdin, reloads)?;
    let asked = args.memory.map(|size| size.as_u64());
    let kept = args.keep.memory(asked, plan.bytes)?;
    let is_back = kept.as_ref().map(|kept| kept.is_back);
    let restores = args.snapshots.restores() && is_back != Some(true);
    let options = ServerOptions {
        restoring: restores,
        ..options
    };
    let (server, kept) = match kept {
        None => (Server::start_with(&served, plan.bytes, &options), None),
        Some(kept) => {
            plan.bytes = kept.bytes();
            kept.serve(&served, &options)?
        }
    };
    let server = server.map_err(|error| Failure::from(error).at(&plan.addresses[0]))?;
    let server = Arc::new(server);
    if let Some(admission) = plan.admission.as_ref().filter(|_| !context.json) {
        note_openness(&args, &plan.addresses, admission);
    }
    let snapshots = snapshots::start(&args.snapshots, server.keeper(), &names, is_back)?;
    if restores {
        server.open_to_clients()?;
    }
    let services = SideServices::start(&plan, &server, snapshots.as_ref())?;
    announce(&plan, &server, &services, context.json)?;
    let node = ServingNode::new(
        &server,
        plan.admission,
        services,
        snapshots.as_ref(),
        audit.map(|audit| Tables::new(audit, &server)),
        kept,
        &context.settings,
    );
    node.run(&signals);
    tell_service_manager(&[NotifyState::Stopping]);
    if let Some(snapshots) = snapshots {
        // The last snapshots have all that was acknowledged.
        if let Err(error) = server.end_writes() {
            output::note(format_args!(
                "clients may write on while the last snapshots are taken: {error}"
            ));
        }
        snapshots.end();
    }
    drop(server);
    Ok(())
}

/// Notes what the owner may not expect of an address.
fn note_openness(args: &Args, addresses: &[Address], admission: &Admission) {
    if admission.proofs.is_open() {
        output::note(if args.insecure {
            "no secret is needed: whoever reaches this address can use the memory"
        } else if args.trust.is_empty() {
            "no secret is needed: whoever is on this machine can use the memory"
        } else {
            "no secret is needed: whoever is in a network of --trust can use the memory"
        });
    }
    let plain = |address: &&Address| match address {
        Address::Tcp {
            tls: false,
            authorities,
        } => !authorities.iter().all(|authority| is_loopback(authority)),
        _ => false,
    };
    if let Some(address) = addresses.iter().find(plain) {
        output::note(format_args!(
            "nothing is encrypted at {address}: on a network that is not yours serve tcps://"
        ));
    }
    if let Some(tls) = &admission.tls {
        output::note(format_args!(
            "the certificate's fingerprint, for --tls-pin: {}",
            tls.fingerprint()
        ));
    }
}

/// Whether no other machine reaches it.
fn is_loopback(authority: &str) -> bool {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

fn announce(plan: &Plan, server: &Server, services: &SideServices, as_json: bool) -> Result<()> {
    let pid = std::process::id();
    let bytes = plan.bytes;
    let addresses = server.addresses().iter();
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    let (redis, metrics) = (services.redis(plan), services.metrics(plan));
    let serving = format!(
        "serving {} at {}",
        output::sized(bytes),
        [&addresses[..], redis.as_slice(), metrics.as_slice()]
            .concat()
            .join(" and "),
    );
    let admission = plan.admission.as_ref();
    let of_agents = admission.and_then(|all| all.tls.as_ref());
    let tls = of_agents.or(plan.tls_beside.as_ref());
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": addresses.first(), "addresses": addresses, "memory_bytes": bytes, "pid": pid,
            "redis": redis, "metrics": metrics,
            "secret_needed": admission.is_some_and(|all| !all.proofs.secrets.is_empty()),
            "certificate_sha256": tls.map(|tls| tls.fingerprint().to_string()),
        }))
    } else {
        output::line(format!(
            "{serving} (process {pid}; Ctrl-C or kill {pid} ends it)"
        ))
    };
    tell_service_manager(&[NotifyState::Ready, NotifyState::Status(&serving)]);
    match said {
        // Nobody reads the line: the memory is served all the same.
        Err(failure) if failure.is_closed_output() => Ok(()),
        said => said,
    }
}

/// Tells the service manager that started this process, if one did, what the node does now.
fn tell_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        output::note(format_args!(
            "the service manager could not be notified: {error}"
        ));
    }
}
