mod gates;
mod handlers;
mod record;
mod routes;
mod shared;
mod stream;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{net::TcpListener, task::JoinHandle};

pub use self::record::{Dialect, Kind, Outcome, Request};
use self::{
    gates::Gates,
    record::{Exchange, Records},
    shared::Shared,
};
use crate::{director::Director, script::Script};

/// A model server on a loopback port. Dropping it ends the server.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl ModelServer {
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::start_on(script, 0).await
    }

    pub async fn start_on(script: Script, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(script)),
            director: Mutex::new(Director::default()),
            gates: Arc::new(Gates::default()),
            records: Arc::new(Records::default()),
        });
        let router = routes::router(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            // Ends with its task. Clients report connection errors.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, shared, serving })
    }

    /// URL without a path, as for `ANTHROPIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// URL of the OpenAI protocols with `/v1`, as OpenAI clients expect it.
    pub fn openai_base_url(&self) -> String {
        format!("{}/v1", self.base_url())
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.records.all()
    }

    /// All prompts for the script, including refused ones, without side requests of the runtimes.
    pub fn prompts(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.kind == Kind::Prompt).collect()
    }

    /// All requests for embeddings, including failed ones.
    pub fn embeddings(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.kind == Kind::Embeddings).collect()
    }

    /// Without a time limit, which the caller sets.
    pub async fn wait_for(&self, prompts: usize) -> Vec<Request> {
        let enough =
            |all: &[Request]| all.iter().filter(|request| request.kind == Kind::Prompt).count() >= prompts;
        self.wait_until(enough).await;
        self.prompts()
    }

    pub async fn wait_until(&self, mut fits: impl FnMut(&[Request]) -> bool) -> Vec<Request> {
        let mut changes = self.shared.records.changes();
        loop {
            let all = self.requests();
            if fits(&all) || changes.changed().await.is_err() {
                return all;
            }
        }
    }

    /// Opens a gate for current and later replies.
    pub fn open(&self, gate: &str) {
        self.shared.gates.open(gate);
    }

    pub fn close(&self, gate: &str) {
        self.shared.gates.close(gate);
    }

    pub fn set(&self, name: &str, value: impl Into<String>) {
        let mut script = self.shared.script.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut script).vars.insert(name.to_owned(), value.into());
    }

    /// Resets the progress, and keeps the recorded requests.
    pub fn play(&self, script: Script) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
        *self.shared.director.lock().unwrap_or_else(PoisonError::into_inner) = Director::default();
    }

    /// For the program: serves until the task is cancelled.
    pub async fn serve(mut self) {
        let _ = (&mut self.serving).await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
