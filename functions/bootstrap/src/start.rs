//! From the environment to a [`Dispatch`]: once in the life of an environment, before the first event.

mod bus;
mod clients;
mod connections;
mod courier;
mod fleet;
mod keys;
mod quiet;
mod refusal;
mod secret;
mod warm;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::sqs::{InvalidPrefix, SqsBroker, SqsConfig};
use pilothouse_domain::Deadlines;
use pilothouse_functions::catalogue::needs::{DELIVER, Needs, TableAccess};
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::outside::Outside;
use pilothouse_functions::stream::authorize::Authorizer;
use pilothouse_functions::{App, Parts};
use pilothouse_runtime::vendor::sts::InvalidRole;
use pilothouse_store::blob::S3Blobs;
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::{Store, system_clock};

use crate::dispatch::{Dispatch, Ground, Named};
use crate::settings::{Settings, SettingsError};
use clients::Clients;
use fleet::Engines;

pub use refusal::tell;
pub use secret::SecretError;
pub use warm::TableProblem;

/// What the name of a handler is where nobody chose one.
const UNNAMED: &str = "bootstrap";
/// The timeout of a function whose own is not known, in seconds.
const SOME_TIMEOUT: u32 = 10;

/// Why a function does not start. The environment is of no use; Lambda makes another.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `_HANDLER` names nothing that the cloud has.
    #[error("_HANDLER names `{0}`, which is no function of the cloud in the catalogue")]
    UnknownFunction(String),
    /// The environment is not complete.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The prefix makes no names of queues.
    #[error("PILOTHOUSE_PREFIX cannot be used")]
    Prefix(#[from] InvalidPrefix),
    /// A role is none.
    #[error("a role that credentials are vended from is none")]
    Role(#[from] InvalidRole),
    /// An operator is none.
    #[error("PILOTHOUSE_OPERATORS names somebody who cannot be an owner")]
    Operators,
    /// The root secret is not to be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The table cannot be used.
    #[error(transparent)]
    Table(#[from] TableProblem),
}

impl StartError {
    /// A name that alarms and filters can rely on.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownFunction(_) => "Pilothouse.UnknownFunction",
            Self::Settings(_) | Self::Prefix(_) | Self::Role(_) | Self::Operators => "Pilothouse.Settings",
            Self::Secret(_) => "Pilothouse.Secret",
            Self::Table(_) => "Pilothouse.Table",
        }
    }
}

/// Reads the environment and makes everything ready.
///
/// # Errors
/// One sentence that says what is missing.
pub async fn start(variable: impl Fn(&str) -> Option<String>) -> Result<Dispatch, StartError> {
    let function = match variable("_HANDLER").filter(|name| !name.is_empty() && name != UNNAMED) {
        None => None,
        Some(name) => Some(Named::find(&name).ok_or(StartError::UnknownFunction(name))?),
    };
    let needs = function.as_ref().map(Named::needs);
    let settings = Settings::read(needs, variable)?;
    let clients = Clients::load(timeout(needs)).await;
    let ground = ground(&clients, &settings, needs).await?;
    Ok(Dispatch::new(ground, function))
}

/// The ways outside that a function has: those who publish have a bus, those who deliver a courier.
fn outside(clients: &Clients, settings: &Settings, needs: Option<&Needs>) -> Outside {
    let publishes = needs.is_none_or(|needs| needs.access.publishes);
    let delivers = needs.is_none_or(|needs| *needs == DELIVER);
    let named = settings.bus.as_deref().zip(settings.topic_arn.as_deref()).filter(|_| publishes);
    Outside {
        has_bus: settings.bus.is_some(),
        bus: named
            .and_then(|(bus, topic)| bus::AwsBus::new(clients, bus, topic))
            .map(|bus| Arc::new(bus) as Arc<_>),
        courier: delivers.then(|| Arc::new(courier::Guarded::new(settings.webhook_reach)) as Arc<_>),
        reach: settings.webhook_reach,
    }
}

fn timeout(needs: Option<&Needs>) -> Duration {
    Duration::from_secs(needs.map_or(SOME_TIMEOUT, |needs| needs.timeout_seconds).into())
}

async fn ground(clients: &Clients, settings: &Settings, needs: Option<&Needs>) -> Result<Ground, StartError> {
    let access = needs.map(|needs| needs.access);
    let reads_secret = access.is_none_or(|access| access.secret);
    let touches_table = access.is_none_or(|access| access.table != TableAccess::None);
    // Both wait for a handshake: together they take as long as one.
    let (secret, warm) = tokio::join!(
        async {
            match settings.secret.as_deref().filter(|_| reads_secret) {
                Some(arn) => secret::read(&clients.secrets, arn).await,
                None => Ok(secret::withheld()),
            }
        },
        async { if touches_table { warm::up(&clients.table, &settings.table).await } else { Ok(()) } },
    );
    warm?;
    let secret = secret?;
    let clock = system_clock();
    let broker = SqsBroker::new(clients.queues.clone(), SqsConfig::new(settings.prefix.clone()))?;
    let table = DynamoTable::new(clients.table.clone(), &settings.table, Arc::clone(&clock));
    let engines = Engines { store: Store::new(Arc::new(table)), broker: Arc::new(broker), secret, clock };
    let deadlines = Deadlines::default().shortened(settings.hurry);
    let runtime = fleet::runtime(clients, settings, &deadlines, &engines);
    let Engines { store, broker, secret, clock } = engines;
    let app = App::new(Parts {
        store,
        blobs: Arc::new(S3Blobs::new(clients.blobs.clone(), &settings.bucket, None)),
        broker,
        runtime,
        // API Gateway verifies tokens; a request that it did not verify is nobody's.
        keyring: Keyring::new("", "", HashMap::new()),
        secret,
        deadlines,
        clock,
        wakes: Arc::new(quiet::NoWakes),
        fleet: fleet::fleet(clients, settings)?,
        outside: outside(clients, settings, needs),
    });
    let connections =
        settings.connections_url.as_deref().map(|url| connections::management(clients, url) as Arc<_>);
    let authorizer =
        settings.issuer.as_deref().zip(settings.audience.as_deref()).zip(settings.jwks_url.as_deref());
    let authorizer = authorizer
        .map(|((issuer, audience), jwks)| Authorizer::new(issuer, audience, keys::Published::new(jwks)));
    Ok(Ground { app, connections, authorizer })
}
