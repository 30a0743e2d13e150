//! The embedded server: every function in one process, on SQLite, with the worker built in.
//!
//! | file | what it holds |
//! |---|---|
//! | `courier` | brings deliveries to webhooks |
//! | `engines` | the engines and ports of the embedded profile, put together |
//! | `ports` | what the worker needs of the control plane, and live streams of the store |
//! | `runtime` | the built-in worker, and those elsewhere |
//! | `tasks` | the loops that trigger the functions that HTTP does not |
//!
//! The server may be killed at any time. At the next start it finds the sidecars that went on without it, and whatever
//! was committed and not yet acted upon.

mod courier;
mod engines;
mod ports;
mod runtime;
mod tasks;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::serve::ListenerExt;
use pilothouse_functions::{App, router};
use pilothouse_runtime::Worker;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use engines::Engines;
pub(crate) use engines::sidecar;

use crate::keys::{KeyError, LocalKeys};

/// The variable that divides every deadline, for tests and the impatient.
pub const HURRY: &str = "PILOTHOUSE_HURRY";
/// The variable that names the sidecar's program.
pub const SIDECAR: &str = "PILOTHOUSE_SIDECAR";
/// The variable that says how far webhooks may lead: `public` (the default), `loopback`, `private`.
pub const WEBHOOK_REACH: &str = "PILOTHOUSE_WEBHOOK_REACH";
/// How long requests may take to end when the server does.
const GRACE: Duration = Duration::from_secs(2);

/// How to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// The data folder.
    pub data: PathBuf,
    /// Whether the sidecars end with the server. Otherwise they go on and are taken over at the next start.
    pub ephemeral: bool,
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is another server running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error("the data folder cannot be used: {0}")]
    Database(#[from] pilothouse_sqlite::OpenError),
    /// The blob store cannot be opened.
    #[error("the blobs cannot be used: {0}")]
    Blobs(#[from] pilothouse_store::blob::BlobError),
    /// The broker cannot be opened.
    #[error("the broker cannot be used: {0}")]
    Broker(#[from] pilothouse_broker::QueueError),
    /// The worker cannot start.
    #[error("the worker cannot start: {0}")]
    Worker(#[from] pilothouse_runtime::StartError),
    /// It cannot send anything.
    #[error("nothing can be sent to webhooks: {0}")]
    Courier(#[from] reqwest::Error),
    /// It is not known how far webhooks may lead.
    #[error("{WEBHOOK_REACH} {0}")]
    Reach(#[from] pilothouse_domain::webhook::NoReach),
    /// There is no sidecar to run.
    #[error("the program pilothouse-sidecar is not beside this one; build it, or name it in {SIDECAR}")]
    NoSidecar,
}

/// A running server.
pub struct Server {
    url: String,
    listener: TcpListener,
    app: App,
    worker: std::sync::Arc<Worker>,
    tasks: JoinSet<()>,
    ephemeral: bool,
}

impl Server {
    /// Opens the data folder, takes over the sidecars that are alive, and starts to act. Requests are answered from
    /// [`Self::run_until`] on.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let keys = LocalKeys::open_or_create(&options.data)?;
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|source| StartError::Listen { address: options.listen, source })?;
        let address =
            listener.local_addr().map_err(|source| StartError::Listen { address: options.listen, source })?;
        let url = format!("http://{address}");
        let Engines { app, table, broker, worker } = engines::open(&options.data, &keys, &url).await?;
        let tasks = tasks::spawn(&app, &table, &broker);
        Ok(Self { url, listener, app, worker, tasks, ephemeral: options.ephemeral })
    }

    /// Where the server listens: `http://127.0.0.1:7433`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers requests until `shutdown` is ready, then ends.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send) {
        // Answers are small and awaited: waiting to fill a packet only makes them late.
        let listener = self.listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
        });
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serve = axum::serve(listener, router(self.app)).with_graceful_shutdown(async {
            let _ = stopped.await; // ends when the sender says so or is gone
        });
        let mut serving = tokio::spawn(serve.into_future());
        let answering = tokio::select! {
            () = shutdown => true,
            ended = &mut serving => {
                tracing::error!(?ended, "the server stopped answering");
                false
            },
        };
        let _ = stop.send(());
        if self.ephemeral {
            self.worker.stop_all(GRACE).await;
        }
        // Long polls and live streams do not end by themselves.
        if answering && tokio::time::timeout(GRACE, &mut serving).await.is_err() {
            serving.abort();
        }
        self.tasks.shutdown().await;
    }
}
