//! The embedded host: all functions in one process, on SQLite, with a worker inside.
//!
//! | module | content |
//! |---|---|
//! | `addresses` | the addresses at which the server listens, also for agents of earlier starts |
//! | `default_adapter` | chooses the adapter of sessions that name none |
//! | `confinement` | detects whether agents can be confined; otherwise the server serves only its first owner |
//! | `connections` | accepts connections and limits their number and duration |
//! | `console` | the web console: files, login, checks of requests from browsers |
//! | `model_transport` | sends requests to the models that review coherence issues and embed texts |
//! | `delivery_sender` | sends deliveries to webhooks and to push services of browsers |
//! | `file_descriptors` | the limit of open files |
//! | `disk_monitor` | pauses sessions while the disk is nearly full |
//! | `components` | opens store, broker and worker, and assembles the `App` |
//! | `pause_on_exit` | pauses the agents before the server ends |
//! | `run_claims` | claims runs in the store, for the built-in worker |
//! | `local_run_events` | reports the ends of the runs of the built-in worker |
//! | `change_notifier` | notifies live streams of commits |
//! | `combined_runtime` | runs sessions on the built-in worker or on remote workers |
//! | `steady_clock` | a clock that never goes back |
//! | `background` | supervises the background tasks: consumers, relay, clock, removal of expired items |
//! | `queue_consumers` | triggers functions with messages from queues |
//! | `journal_relay` | relays journal entries to queues |
//!
//! The server may be killed at any time. The next start adopts the running sidecars and processes the effects of all
//! earlier commits.

mod addresses;
mod background;
mod change_notifier;
mod combined_runtime;
mod components;
mod confinement;
mod connections;
mod console;
mod data_format;
mod default_adapter;
mod delivery_sender;
mod disk_monitor;
mod file_descriptors;
mod journal_relay;
mod local_run_events;
mod model_transport;
mod pause_on_exit;
mod port;
mod queue_consumers;
mod run_claims;
mod steady_clock;
mod waiting;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::UserId;
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use pilothouse_functions::events::clock;
use pilothouse_functions::router;
pub use pilothouse_store::Retention;
use pilothouse_worker::Worker;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use addresses::Listeners;
pub use components::sidecar_program;
use components::{Components, ServerUrls};
pub use confinement::AgentConfinement;
use connections::Connections;
use console::{LoginCodes, with_console};
use disk_monitor::DiskMonitor;
use pilothouse_local_keys::{KeyError, LocalKeys};
use steady_clock::SteadyClock;

/// Environment variable with a number that divides all deadlines, for tests.
pub const DEADLINE_DIVISOR: &str = "PILOTHOUSE_DEADLINE_DIVISOR";
/// Environment variable with the path of the program `pilothouse-sidecar`.
pub const SIDECAR: &str = "PILOTHOUSE_SIDECAR";
/// Environment variable with the path of a file whose content, in milliseconds, is added to the time: for tests that step the
/// clock.
pub const CLOCK_OFFSET: &str = "PILOTHOUSE_CLOCK_OFFSET_FILE";
/// Environment variable with the addresses that webhooks may reach: `public` (the default), `loopback`, `private`.
pub const WEBHOOK_EGRESS: &str = "PILOTHOUSE_WEBHOOK_REACH";
/// Environment variable with the operator's contact for push services of browsers: a `mailto:` or `https:` URL.
pub const WEB_PUSH_CONTACT: &str = "PILOTHOUSE_WEB_PUSH_CONTACT";
/// Environment variable with the path of a file that has the key of the model; without it, requests have no key.
pub const MODEL_KEY_FILE: &str = "PILOTHOUSE_MODEL_KEY_FILE";
/// The same for the embedding model.
pub const EMBEDDINGS_KEY_FILE: &str = "PILOTHOUSE_EMBEDDINGS_KEY_FILE";
/// Environment variable with the dollars that a run without a cap may spend while its sidecar is offline; 5 by default.
pub const OFFLINE_ALLOWANCE: &str = "PILOTHOUSE_OFFLINE_ALLOWANCE_USD";
/// Environment variable with the MiB that must stay free on the disk of the data folder; 64 by default.
pub const DISK_RESERVE: &str = "PILOTHOUSE_DISK_RESERVE_MIB";
/// How long requests may take to finish when the server ends.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub agents_on_exit: AgentsOnExit,
    /// Paths that agents must not access besides the data folder; `None` disables confinement.
    pub confine: Option<Vec<PathBuf>>,
    /// A file of secrets for agents; it must be private.
    pub secrets: Option<PathBuf>,
    /// Names of further variables that sidecars inherit.
    pub pass_env: Vec<String>,
    /// Names under which browsers may reach the console, besides IP addresses and `localhost`.
    pub console_hosts: Vec<String>,
    /// The adapter of sessions that name none. `None`: that of an earlier start, or of an agent that is installed.
    pub default_adapter: Option<AdapterName>,
    /// The models that sessions may use.
    pub allowed_models: AllowedModels,
    /// How long raw events, activity and notifications are kept.
    pub retention: Retention,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentsOnExit {
    /// The next start adopts them.
    Continue,
    Pause,
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error("cannot listen on {address}: {source}; is another server running there?")]
    Listen { address: SocketAddr, source: io::Error },
    /// Their reports would be lost, and they would be stopped as unresponsive.
    #[error(
        "agents of an earlier start reach this server only at http://{address}, and it cannot listen there: {source}; end the \
         program that listens there (another `pilothouse up`?) and start again"
    )]
    EarlierAddress { address: SocketAddr, source: io::Error },
    /// An earlier version gave agents an address of a network.
    #[error(
        "agents of an earlier start reach this server only at http://{0}; start it with `--listen {0}` until they have ended"
    )]
    EarlierNetwork(SocketAddr),
    #[error(transparent)]
    Format(#[from] data_format::FormatError),
    #[error("failed to open the database: {0}")]
    Database(#[from] pilothouse_sqlite::OpenError),
    #[error(transparent)]
    DefaultAdapter(#[from] default_adapter::DefaultAdapterError),
    #[error("failed to open the blob store: {0}")]
    Blobs(#[from] pilothouse_store::blob::BlobError),
    #[error("failed to open the queues: {0}")]
    Broker(#[from] pilothouse_broker::QueueError),
    #[error("the worker cannot start: {0}")]
    Worker(#[from] pilothouse_worker::StartError),
    #[error("failed to create an HTTP client: {0}")]
    HttpClient(#[from] reqwest::Error),
    #[error("{WEBHOOK_EGRESS} {0}")]
    EgressPolicy(#[from] pilothouse_domain::webhook::InvalidEgressPolicy),
    #[error("{OFFLINE_ALLOWANCE}: {0}")]
    OfflineAllowance(#[from] pilothouse_domain::money::InvalidUsd),
    #[error(transparent)]
    Model(#[from] pilothouse_app::models::InvalidModelSettings),
    #[error("failed to read the key of a model from `{}`, which {variable} names: {source}", .path.display())]
    ModelKey { variable: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to read the store: {0}")]
    Store(Problem),
    /// There is not even space to open the database.
    #[error(
        "the disk of the data folder `{}` is full; nothing was changed. Free some space there ({} MiB let its sessions work) and \
         start again; agents that still work keep their events until then",
        .0.display(), disk_monitor::reserve_mebibytes()
    )]
    DiskFull(PathBuf),
    #[error("the program pilothouse-sidecar is not beside this one; build it, or name it in {SIDECAR}")]
    NoSidecar,
}

#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// This build does not include the console; the text says why.
    #[error("{0}")]
    NotIncluded(&'static str),
    #[error(transparent)]
    Code(#[from] KeyError),
}

pub struct Server {
    url: String,
    address: SocketAddr,
    listeners: Vec<TcpListener>,
    connections: Arc<Connections>,
    app: App,
    confinement: AgentConfinement,
    worker: Arc<Worker>,
    tasks: JoinSet<()>,
    agents_on_exit: AgentsOnExit,
    keys: Arc<LocalKeys>,
    login_codes: LoginCodes,
    console_hosts: Vec<String>,
}

impl Server {
    /// Opens the data folder, adopts live sidecars, and starts background tasks. [`Self::run_until`] serves requests.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let descriptors = file_descriptors::raise_limit();
        if disk_monitor::is_full(&options.data) {
            return Err(StartError::DiskFull(options.data));
        }
        let keys = Arc::new(LocalKeys::open_or_create(&options.data)?);
        let Listeners { all: listeners, address, of_sidecars } =
            addresses::listen(options.listen, &options.data).await?;
        let urls =
            ServerUrls { clients: format!("http://{address}"), sidecars: format!("http://{of_sidecars}") };
        let connections = Connections::new(descriptors);
        let clock = SteadyClock::system();
        let components = components::open(&options, &keys, &urls, &connections, clock.clock()).await?;
        let Components { app, table, broker, worker, db, confinement } = components;
        let sweep = app.store.clock_sweep().await.map_err(|error| StartError::Store(error.into()))?;
        if let Some(sweep) = sweep {
            clock.advance_to(sweep.at);
        }
        clock::watch::started(&app).await.map_err(StartError::Store)?;
        let mut tasks = background::spawn(&app, &table, &broker, &db);
        let disk_monitor =
            DiskMonitor { folder: options.data, db, app: app.clone(), worker: Arc::clone(&worker) };
        tasks.spawn(disk_monitor.run());
        let agents_on_exit = options.agents_on_exit;
        Ok(Self {
            url: urls.clients,
            address,
            listeners,
            connections,
            app,
            confinement,
            worker,
            tasks,
            agents_on_exit,
            keys,
            login_codes: LoginCodes::default(),
            console_hosts: options.console_hosts,
        })
    }

    /// A link that opens the console, logged in as `owner`, once. Fails with the reason if this build has no console.
    pub fn console_link(&self, owner: UserId) -> Result<String, ConsoleError> {
        pilothouse_console::console().map_err(ConsoleError::NotIncluded)?;
        let code = self.login_codes.create(owner, None)?;
        Ok(pilothouse_api::console::link(&self.url, &code, None))
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The adapter of sessions that name none.
    pub fn default_adapter(&self) -> Option<&AdapterName> {
        self.app.default_adapter.as_ref()
    }

    /// Whether its agents are confined.
    pub const fn confinement(&self) -> AgentConfinement {
        self.confinement
    }

    /// Serves requests until `shutdown` is ready, then ends. Returns how many agents may still work although
    /// [`AgentsOnExit::Pause`] was requested.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send) -> usize {
        let (stop, stopped) = watch::channel(());
        let app = self.app.clone();
        let router = with_console(
            router(self.app.clone()),
            self.app,
            self.keys,
            self.login_codes,
            self.address.port(),
            self.console_hosts,
        );
        let mut serving = JoinSet::new();
        for listener in self.listeners {
            let connections = Arc::clone(&self.connections);
            serving.spawn(connections::serve(listener, router.clone(), connections, stopped.clone()));
        }
        let still_serving = tokio::select! {
            () = shutdown => true,
            ended = serving.join_next() => {
                tracing::error!(?ended, "the server stopped serving requests");
                false
            },
        };
        let unpaused = match self.agents_on_exit {
            AgentsOnExit::Pause if still_serving => pause_on_exit::pause_agents(&app, &self.worker).await,
            AgentsOnExit::Pause => self.worker.runs().len(),
            AgentsOnExit::Continue | AgentsOnExit::End => 0,
        };
        drop(stop);
        if self.agents_on_exit == AgentsOnExit::End {
            self.worker.stop_all(GRACE).await;
        }
        // Long polls and live streams do not end on their own.
        let all_served = async { while serving.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_served).await.is_err() {
            serving.abort_all();
        }
        self.tasks.shutdown().await;
        unpaused
    }
}
