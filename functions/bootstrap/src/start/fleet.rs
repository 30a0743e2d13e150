//! The runtime of sidecars, and the services for remote workers and sidecars.

use std::sync::Arc;

use pilothouse_app::Fleet;
use pilothouse_app::placement::{WorkerAssigner, WorkerRuntime};
use pilothouse_broker::Broker;
use pilothouse_domain::{Deadlines, UserId};
use pilothouse_runtime::ecs::EcsRuntime;
use pilothouse_runtime::vendor::{StsSettings, StsVendor};
use pilothouse_runtime::{AgentRuntime, CredentialVendor};
use pilothouse_store::{Clock, Store};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::RunAccessIssuer;

use super::StartError;
use super::clients::Clients;
use crate::settings::{RuntimeKind, Settings};

pub(super) struct Engines {
    pub(super) store: Store,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) secret: RootSecret,
    pub(super) clock: Clock,
}

pub(super) fn runtime(
    clients: &Clients,
    settings: &Settings,
    deadlines: &Deadlines,
    engines: &Engines,
) -> Arc<dyn AgentRuntime> {
    let Engines { store, broker, secret, clock } = engines;
    match &settings.runtime {
        RuntimeKind::Workers => Arc::new(WorkerRuntime::new(WorkerAssigner::new(
            store.clone(),
            Arc::clone(broker),
            secret.clone(),
            deadlines,
            Arc::clone(clock),
        ))),
        RuntimeKind::Ecs(ecs) => {
            let url = settings.api_url.clone().unwrap_or_default();
            let client = aws_sdk_ecs::Client::new(&clients.shared);
            Arc::new(EcsRuntime::new(client, (**ecs).clone(), url, secret.clone()))
        }
    }
}

/// Creates the services for workers and sidecars, if the address of the HTTP API is known.
pub(super) fn fleet(clients: &Clients, settings: &Settings) -> Result<Option<Fleet>, StartError> {
    let Some(url) = &settings.api_url else { return Ok(None) };
    let run_access_issuer =
        RunAccessIssuer { sqs: true, ..RunAccessIssuer::via_gateway(url.trim_end_matches('/')) };
    let run_access_issuer = run_access_issuer.shortened(settings.deadline_divisor);
    let operators = settings.operators.iter().map(|operator| UserId::parse(operator.clone()));
    let operators = operators.collect::<Result<_, _>>().map_err(|_| StartError::Operators)?;
    Ok(Some(Fleet { run_access_issuer, vendor: vendor(clients, settings)?, operators }))
}

fn vendor(clients: &Clients, settings: &Settings) -> Result<Option<Arc<dyn CredentialVendor>>, StartError> {
    let Some((sidecar_role, worker_role)) = settings.sidecar_role.clone().zip(settings.worker_role.clone())
    else {
        return Ok(None);
    };
    let shared = &clients.shared;
    let sts_settings = StsSettings {
        prefix: settings.prefix.clone(),
        region: shared.region().map(ToString::to_string).unwrap_or_default(),
        endpoint: shared.endpoint_url().map(ToOwned::to_owned),
        bucket: settings.bucket.clone(),
        sidecar_role,
        worker_role,
    };
    Ok(Some(Arc::new(StsVendor::new(aws_sdk_sts::Client::new(shared), sts_settings)?)))
}
