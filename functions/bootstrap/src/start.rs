//! Creates a [`Dispatch`] from the environment, once per Lambda environment, before the first event.

mod clients;
mod connections;
mod delivery_sender;
mod event_bus;
mod fleet;
mod keys;
mod model_transport;
mod quiet;
mod refusal;
mod secret;
mod warm;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clients::Clients;
use fleet::Engines;
use pilothouse_app::function::Requirements;
use pilothouse_app::function::requirements::{TableAccess, WEBHOOK_DELIVERY};
use pilothouse_app::http::Keyring;
use pilothouse_app::integrations::Integrations;
use pilothouse_app::models::{EmbeddingClient, ModelClient, ModelKey};
use pilothouse_app::{App, Parts};
use pilothouse_broker::sqs::{InvalidPrefix, SqsBroker, SqsConfig};
use pilothouse_domain::Deadlines;
use pilothouse_functions::realtime::authorize::Authorizer;
use pilothouse_runtime::vendor::sts::InvalidRole;
use pilothouse_store::blob::S3Blobs;
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::{Store, system_clock};

use crate::dispatch::{Dispatch, FunctionDependencies, Named};
use crate::settings::{Settings, SettingsError};

pub use refusal::report_init_error;
pub use secret::SecretError;
pub use warm::TableProblem;

/// The handler name of a function without a configured one.
const UNNAMED: &str = "bootstrap";
/// The assumed timeout of an unknown function, in seconds.
const SOME_TIMEOUT: u32 = 10;

/// Why a function failed to start. Lambda replaces the environment.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("_HANDLER names `{0}`, which is not a cloud function of the catalog")]
    UnknownFunction(String),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("PILOTHOUSE_PREFIX cannot be used")]
    Prefix(#[from] InvalidPrefix),
    #[error("a role for credentials is invalid")]
    Role(#[from] InvalidRole),
    #[error("PILOTHOUSE_OPERATORS has an invalid owner")]
    Operators,
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Table(#[from] TableProblem),
}

impl StartError {
    /// A stable name for alarms and filters.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownFunction(_) => "Pilothouse.UnknownFunction",
            Self::Settings(_) | Self::Prefix(_) | Self::Role(_) | Self::Operators => "Pilothouse.Settings",
            Self::Secret(_) => "Pilothouse.Secret",
            Self::Table(_) => "Pilothouse.Table",
        }
    }
}

pub async fn start(variable: impl Fn(&str) -> Option<String>) -> Result<Dispatch, StartError> {
    let function = match variable("_HANDLER").filter(|name| !name.is_empty() && name != UNNAMED) {
        None => None,
        Some(name) => Some(Named::find(&name).ok_or(StartError::UnknownFunction(name))?),
    };
    let requirements = function.as_ref().map(Named::requirements);
    let settings = Settings::read(requirements, variable)?;
    let clients = Clients::load(timeout(requirements)).await;
    let dependencies = Box::pin(build_dependencies(&clients, &settings, requirements)).await?;
    Ok(Dispatch::new(dependencies, function))
}

/// The integrations of a function: an event bus if it publishes, a webhook sender if it delivers, the models that it calls.
fn integrations(
    clients: &Clients,
    settings: &Settings,
    requirements: Option<&Requirements>,
    (model_key, embeddings_key): (Option<ModelKey>, Option<ModelKey>),
) -> Integrations {
    let asks = requirements.is_none_or(|requirements| requirements.access.model);
    let model = settings.model.clone().filter(|_| asks);
    let embeds = requirements.is_none_or(|requirements| requirements.access.embeddings);
    let embeddings = settings.embeddings.clone().filter(|_| embeds);
    let publishes = requirements.is_none_or(|requirements| requirements.access.publishes);
    let delivers = requirements.is_none_or(|requirements| *requirements == WEBHOOK_DELIVERY);
    let named = settings.bus.as_deref().zip(settings.topic_arn.as_deref()).filter(|_| publishes);
    Integrations {
        has_bus: settings.bus.is_some(),
        event_bus: named
            .and_then(|(bus, topic)| event_bus::AwsEventBus::new(clients, bus, topic))
            .map(|bus| Arc::new(bus) as Arc<_>),
        delivery_sender: delivers.then(|| {
            Arc::new(delivery_sender::HttpDeliverySender::new(settings.webhook_egress_policy)) as Arc<_>
        }),
        egress_policy: settings.webhook_egress_policy,
        web_push_contact: settings.web_push_contact.clone(),
        has_model: settings.model.is_some(),
        model: model.map(|model| {
            let transport = Arc::new(model_transport::HttpModelTransport::new());
            ModelClient::new(model, model_key, transport)
        }),
        has_embeddings: settings.embeddings.is_some(),
        embeddings: embeddings.map(|settings| {
            let transport = Arc::new(model_transport::HttpModelTransport::new());
            EmbeddingClient::new(settings, embeddings_key, transport)
        }),
    }
}

/// The key of a model, from the secret with this ARN.
async fn model_key(clients: &Clients, arn: Option<&str>) -> Result<Option<ModelKey>, SecretError> {
    match arn {
        Some(arn) => secret::read_model_key(&clients.secrets, arn).await.map(Some),
        None => Ok(None),
    }
}

fn timeout(requirements: Option<&Requirements>) -> Duration {
    Duration::from_secs(requirements.map_or(SOME_TIMEOUT, |requirements| requirements.timeout_seconds).into())
}

async fn build_dependencies(
    clients: &Clients,
    settings: &Settings,
    requirements: Option<&Requirements>,
) -> Result<FunctionDependencies, StartError> {
    let access = requirements.map(|requirements| requirements.access);
    let reads_secret = access.is_none_or(|access| access.secret);
    let asks_model = settings.model.is_some() && access.is_none_or(|access| access.model);
    let embeds = settings.embeddings.is_some() && access.is_none_or(|access| access.embeddings);
    let touches_table = access.is_none_or(|access| access.table != TableAccess::None);
    // All wait for a TLS handshake, so they run concurrently.
    let (secret, model_key, embeddings_key, warm) = tokio::join!(
        async {
            match settings.secret.as_deref().filter(|_| reads_secret) {
                Some(arn) => secret::read(&clients.secrets, arn).await,
                None => Ok(secret::withheld()),
            }
        },
        model_key(clients, settings.model_key.as_deref().filter(|_| asks_model)),
        model_key(clients, settings.embeddings_key.as_deref().filter(|_| embeds)),
        async { if touches_table { warm::up(&clients.table, &settings.table).await } else { Ok(()) } },
    );
    warm?;
    let (secret, keys_of_models) = (secret?, (model_key?, embeddings_key?));
    let clock = system_clock();
    let broker = SqsBroker::new(clients.queues.clone(), SqsConfig::new(settings.prefix.clone()))?;
    let table = DynamoTable::new(clients.table.clone(), &settings.table, Arc::clone(&clock));
    let engines = Engines {
        store: Store::new(Arc::new(table)).with_retention(settings.retention),
        broker: Arc::new(broker),
        secret,
        clock,
    };
    let deadlines = Deadlines::default().shortened(settings.deadline_divisor);
    let runtime = fleet::runtime(clients, settings, &deadlines, &engines);
    let Engines { store, broker, secret, clock } = engines;
    let app = App::new(Parts {
        store,
        blobs: Arc::new(S3Blobs::new(clients.blobs.clone(), &settings.bucket, None)),
        broker,
        runtime,
        // API Gateway verifies tokens, so this keyring accepts none.
        keyring: Keyring::new("", "", HashMap::new()),
        secret,
        deadlines,
        clock,
        change_notifier: Arc::new(quiet::NoChanges),
        fleet: fleet::fleet(clients, settings)?,
        integrations: integrations(clients, settings, requirements, keys_of_models),
        default_adapter: settings.default_adapter.clone(),
        allowed_models: settings.allowed_models.clone(),
    });
    let connections =
        settings.connections_url.as_deref().map(|url| connections::management(clients, url) as Arc<_>);
    let authorizer =
        settings.issuer.as_deref().zip(settings.audience.as_deref()).zip(settings.jwks_url.as_deref());
    let authorizer = authorizer
        .map(|((issuer, audience), jwks)| Authorizer::new(issuer, audience, keys::Published::new(jwks)));
    Ok(FunctionDependencies { app, connections, authorizer })
}
