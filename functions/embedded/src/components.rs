//! Opens store, broker and worker of the embedded host, and assembles the [`App`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_app::Fleet;
use pilothouse_app::http::Keyring;
use pilothouse_app::integrations::Integrations;
use pilothouse_app::models::{EmbeddingClient, EmbeddingSettings, ModelClient, ModelKey, ModelSettings};
use pilothouse_app::placement::{WorkerAssigner, WorkerRuntime};
use pilothouse_app::run_exit::RunExitReporter;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::webhook::EgressPolicy;
use pilothouse_domain::{Deadlines, UserId};
use pilothouse_local_keys::{AUDIENCE, DEFAULT_OWNER, ISSUER, LocalKeys};
use pilothouse_sqlite::{Clock, Database};
use pilothouse_store::Store;
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_wire::launch::RunAccessIssuer;
use pilothouse_worker::{Ports, Worker, WorkerConfig, WorkerSecrets};

use super::change_notifier::TableChangeNotifier;
use super::combined_runtime::CombinedRuntime;
use super::confinement::{AgentConfinement, FirstOwner};
use super::connections::Connections;
use super::data_format;
use super::delivery_sender::HttpDeliverySender;
use super::local_run_events::LocalRunEvents;
use super::model_transport::{HttpModelTransport, read_key};
use super::run_claims::StoreRunClaims;
use super::{
    DEADLINE_DIVISOR, EMBEDDINGS_KEY_FILE, MODEL_KEY_FILE, OFFLINE_ALLOWANCE, Options, SIDECAR, StartError,
    WEB_PUSH_CONTACT, WEBHOOK_EGRESS, default_adapter,
};

/// Has everything except blobs and runs.
const DATABASE: &str = "pilothouse.db";

pub(super) struct Components {
    pub(super) app: App,
    pub(super) table: SqliteTable,
    pub(super) broker: EmbeddedBroker,
    pub(super) worker: Arc<Worker>,
    pub(super) db: Database,
    pub(super) confinement: AgentConfinement,
}

/// The URLs at which the server is reached.
pub(super) struct ServerUrls {
    /// For clients and remote workers.
    pub(super) clients: String,
    /// For the sidecars of the built-in worker.
    pub(super) sidecars: String,
}

/// Opens everything in the data folder. The server is reached at `urls`, over `connections`.
pub(super) async fn open(
    options: &Options,
    keys: &LocalKeys,
    urls: &ServerUrls,
    connections: &Arc<Connections>,
    clock: Clock,
) -> Result<Components, StartError> {
    let Options { data, confine, secrets, .. } = options;
    data_format::check(data, &data.join(DATABASE))?;
    let db = Database::open(data.join(DATABASE), &[sqlite::SCHEMA, embedded::SCHEMA])?;
    let table = SqliteTable::new(db.clone(), Arc::clone(&clock));
    let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await?;
    queues::create(&broker).await?;
    let default_adapter =
        default_adapter::choose(data, options.default_adapter.clone(), |name| std::env::var_os(name))?;
    let store = Store::new(Arc::new(table.clone())).with_retention(options.retention);
    let secret = keys.root_secret().clone();

    let deadline_divisor = deadline_divisor();
    let mut config = WorkerConfig::new(data, sidecar_program().ok_or(StartError::NoSidecar)?);
    config.environment = config.environment.passing(&options.pass_env);
    // All owners whom the server admits may run agents on this machine.
    config.secrets = WorkerSecrets { file: secrets.clone(), several_owners: true };
    let confinement = AgentConfinement::detect(&config.sidecar, confine.is_some()).await;
    config.confine_agents = confinement.is_enforced();
    let keys_of_models = [MODEL_KEY_FILE, EMBEDDINGS_KEY_FILE].into_iter().filter_map(key_file);
    config.hidden = confine.iter().flatten().cloned().chain(keys_of_models).collect();
    let mut run_access_issuer = RunAccessIssuer::via_gateway(&urls.clients).shortened(deadline_divisor);
    if let Some(allowance) = std::env::var(OFFLINE_ALLOWANCE).ok().filter(|text| !text.is_empty()) {
        run_access_issuer.offline.allowance_usd = allowance.parse()?;
    }
    let claims = Arc::new(StoreRunClaims::new(
        store.clone(),
        secret.clone(),
        RunAccessIssuer { url: urls.sidecars.clone(), ..run_access_issuer.clone() },
        Arc::clone(&clock),
    ));
    let reporter = RunExitReporter::new(Arc::new(broker.clone()), secret.clone(), Arc::clone(&clock));
    let events = Arc::new(LocalRunEvents { reporter, db: db.clone() });
    let worker = Arc::new(Worker::start(config, Ports { claims, events }).await?);

    let deadlines = Deadlines::default().shortened(deadline_divisor);
    let dispatch = WorkerAssigner::new(
        store.clone(),
        Arc::new(broker.clone()),
        secret.clone(),
        &deadlines,
        Arc::clone(&clock),
    );
    let runtime = CombinedRuntime {
        local: Arc::clone(&worker),
        remote: WorkerRuntime::new(dispatch),
        connections: Arc::clone(connections),
        data: data.clone(),
    };
    let operators = UserId::parse(DEFAULT_OWNER).into_iter().collect();

    let app = App::new(Parts {
        store,
        blobs: Arc::new(FileBlobs::open(data.join("blobs"))?),
        broker: Arc::new(broker.clone()),
        runtime: Arc::new(runtime),
        keyring: Keyring::new(
            ISSUER,
            AUDIENCE,
            HashMap::from([(keys.kid().to_owned(), keys.decoding_key().clone())]),
        )
        .admitting(FirstOwner::new(data, confinement)),
        secret,
        deadlines,
        clock,
        change_notifier: Arc::new(TableChangeNotifier(table.clone())),
        fleet: Some(Fleet { run_access_issuer, vendor: None, operators }),
        integrations: integrations(connections.limits().deliveries)?,
        default_adapter,
        allowed_models: options.allowed_models.clone(),
    });
    Ok(Components { app, table, broker, worker, db, confinement })
}

/// The server itself sends webhooks, `parallel` at once, and calls the models. There is no external event bus.
fn integrations(parallel: usize) -> Result<Integrations, StartError> {
    let egress_policy: EgressPolicy = match std::env::var(WEBHOOK_EGRESS) {
        Ok(text) if !text.is_empty() => text.parse()?,
        _ => EgressPolicy::default(),
    };
    let (model, embeddings) = (model()?, embeddings()?);
    Ok(Integrations {
        has_bus: false,
        event_bus: None,
        delivery_sender: Some(Arc::new(HttpDeliverySender::new(egress_policy, parallel)?)),
        egress_policy,
        web_push_contact: std::env::var(WEB_PUSH_CONTACT).ok().filter(|contact| !contact.is_empty()),
        has_model: model.is_some(),
        model,
        has_embeddings: embeddings.is_some(),
        embeddings,
    })
}

/// The model that the server is configured with.
fn model() -> Result<Option<ModelClient>, StartError> {
    let Some(settings) = ModelSettings::read(|name| std::env::var(name).ok())? else { return Ok(None) };
    let key = key_in(MODEL_KEY_FILE)?;
    Ok(Some(ModelClient::new(settings, key, Arc::new(HttpModelTransport::new()?))))
}

/// The embedding model that the server is configured with.
fn embeddings() -> Result<Option<EmbeddingClient>, StartError> {
    let Some(settings) = EmbeddingSettings::read(|name| std::env::var(name).ok())? else { return Ok(None) };
    let key = key_in(EMBEDDINGS_KEY_FILE)?;
    Ok(Some(EmbeddingClient::new(settings, key, Arc::new(HttpModelTransport::new()?))))
}

/// The key in the file that a variable names.
fn key_in(variable: &'static str) -> Result<Option<ModelKey>, StartError> {
    let Some(path) = key_file(variable) else { return Ok(None) };
    let key = read_key(&path).map_err(|source| StartError::ModelKey { variable, path, source })?;
    Ok(Some(key))
}

/// A file with a key of the server, which a variable names. Agents must not read it.
fn key_file(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The divisor of all deadlines, from the environment; 1 by default.
pub(super) fn deadline_divisor() -> u32 {
    std::env::var(DEADLINE_DIVISOR).ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1)
}

/// Path of the sidecar program: from the environment, or beside this program.
pub fn sidecar_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(SIDECAR) {
        return Some(named.into());
    }
    let beside = std::env::current_exe().ok()?.with_file_name("pilothouse-sidecar");
    beside.is_file().then_some(beside)
}
