//! Connections to providers, which outlive a model: one configuration follows another, and the certificates of a machine are
//! some hundred files whose reading would delay the first request.

use std::sync::Arc;
use std::time::Duration;

use genai::Client;
use tokio::sync::OnceCell;

use super::failure;
use crate::model::ModelError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);

/// The HTTP client of models, made once: with the first request, or before. Clones are the same.
#[derive(Clone, Default)]
pub struct Connections(Arc<OnceCell<Client>>);

impl Connections {
    /// Makes the client beside whatever else is to be done, for who knows that a request will come. A failure is told by that
    /// request, which tries again.
    pub fn prepare(&self) {
        let connections = self.clone();
        tokio::spawn(async move { connections.client().await.map(drop) });
    }

    /// The client.
    pub(super) async fn client(&self) -> Result<&Client, ModelError> {
        self.0.get_or_try_init(make).await
    }
}

/// On a thread of its own: a sidecar has one for everything else.
async fn make() -> Result<Client, ModelError> {
    let made = tokio::task::spawn_blocking(|| {
        reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(2)
            // A key must not follow wherever somebody sends it.
            .redirect(reqwest::redirect::Policy::none())
            .build()
    });
    let failed =
        |error: &dyn std::error::Error| failure::rejected(format!("the HTTP client cannot be made: {error}"));
    let http = made.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Client::builder().with_reqwest(http).build().map_err(|error| failed(&error))
}
