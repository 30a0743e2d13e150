//! The engines and ports of the embedded profile, put together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::webhook::Reach;
use pilothouse_domain::{Deadlines, UserId};
use pilothouse_functions::app::Fleet;
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::outside::Outside;
use pilothouse_functions::workers::{CloudRuntime, Dispatch, Ends};
use pilothouse_functions::{App, Parts, queues};
use pilothouse_runtime::{Ports, Worker, WorkerConfig};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::Store;
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_wire::launch::Entrance;

use super::courier::Guarded;
use super::ports::{Claims, TableWakes};
use super::runtime::HereOrElsewhere;
use super::{HURRY, SIDECAR, StartError, WEBHOOK_REACH};
use crate::keys::{AUDIENCE, DEFAULT_OWNER, ISSUER, LocalKeys};

/// The file that holds everything but blobs and runs.
const DATABASE: &str = "pilothouse.db";

pub(super) struct Engines {
    pub(super) app: App,
    pub(super) table: SqliteTable,
    pub(super) broker: EmbeddedBroker,
    pub(super) worker: Arc<Worker>,
}

/// Opens everything in `data`. Sidecars reach the server at `url`.
pub(super) async fn open(data: &Path, keys: &LocalKeys, url: &str) -> Result<Engines, StartError> {
    let clock = system_clock();
    let db = Database::open(data.join(DATABASE), &[sqlite::SCHEMA, embedded::SCHEMA])?;
    let table = SqliteTable::new(db.clone(), Arc::clone(&clock));
    let broker = EmbeddedBroker::open(db, Arc::clone(&clock)).await?;
    queues::create(&broker).await?;
    let store = Store::new(Arc::new(table.clone()));
    let secret = keys.root_secret().clone();

    let hurry = hurry();
    let config = WorkerConfig::new(data, sidecar().ok_or(StartError::NoSidecar)?);
    let mut entrance = Entrance::gateway(url);
    entrance.heartbeat /= hurry;
    entrance.isolation /= hurry;
    let claims = Arc::new(Claims::new(store.clone(), secret.clone(), entrance.clone(), Arc::clone(&clock)));
    let events = Arc::new(Ends::new(Arc::new(broker.clone()), secret.clone(), Arc::clone(&clock)));
    let worker = Arc::new(Worker::start(config, Ports { claims, events }).await?);

    let deadlines = Deadlines::default().shortened(hurry);
    let dispatch = Dispatch::new(
        store.clone(),
        Arc::new(broker.clone()),
        secret.clone(),
        &deadlines,
        Arc::clone(&clock),
    );
    let runtime = HereOrElsewhere { here: Arc::clone(&worker), elsewhere: CloudRuntime::new(dispatch) };
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
        ),
        secret,
        deadlines,
        clock,
        wakes: Arc::new(TableWakes(table.clone())),
        fleet: Some(Fleet { entrance, vendor: None, operators }),
        outside: outside()?,
    });
    Ok(Engines { app, table, broker, worker })
}

/// Webhooks are delivered by the server itself; there is no bus but the feed.
fn outside() -> Result<Outside, StartError> {
    let reach: Reach = match std::env::var(WEBHOOK_REACH) {
        Ok(text) if !text.is_empty() => text.parse()?,
        _ => Reach::default(),
    };
    Ok(Outside { has_bus: false, bus: None, courier: Some(Arc::new(Guarded::new(reach)?)), reach })
}

/// By how much every deadline is divided: 1, or what the environment says.
fn hurry() -> u32 {
    std::env::var(HURRY).ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1)
}

/// The sidecar's program: named in the environment, or beside this program.
pub(crate) fn sidecar() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(SIDECAR) {
        return Some(named.into());
    }
    let beside = std::env::current_exe().ok()?.with_file_name("pilothouse-sidecar");
    beside.is_file().then_some(beside)
}
