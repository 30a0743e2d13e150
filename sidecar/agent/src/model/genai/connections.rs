//! HTTP connections to providers, shared by successive models: loading a machine's certificates, which are several
//! hundred files, would delay the first request.

use std::sync::Arc;
use std::time::Duration;

use genai::Client;
use tokio::sync::OnceCell;

use super::failure;
use crate::model::ModelError;

const CONNECT: Duration = Duration::from_secs(15);

/// The HTTP client for models, created once: on the first request or by [`Self::prepare`]. Clones share it.
#[derive(Clone, Default)]
pub struct Connections(Arc<OnceCell<Client>>);

impl Connections {
    /// Creates the client in the background, before a request needs it. After a failure, the request tries again and
    /// reports the error.
    pub fn prepare(&self) {
        let connections = self.clone();
        tokio::spawn(async move { connections.client().await.map(drop) });
    }

    pub(super) async fn client(&self) -> Result<&Client, ModelError> {
        self.0.get_or_try_init(make).await
    }
}

/// On a separate thread, because a sidecar has only one for all other work.
async fn make() -> Result<Client, ModelError> {
    let made = tokio::task::spawn_blocking(|| {
        reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(2)
            // A redirect must not send the key to another server.
            .redirect(reqwest::redirect::Policy::none())
            .build()
    });
    let failed =
        |error: &dyn std::error::Error| failure::rejected(format!("failed to build an HTTP client: {error}"));
    let http = made.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Client::builder().with_reqwest(http).build().map_err(|error| failed(&error))
}
