//! The routes of the control plane that a run reaches with its token ([`pilothouse_wire::gateway`]).

use std::time::Duration;

use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::keys::GatewayToken;
use pilothouse_wire::launch::SidecarLaunch;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};

use crate::broker::BrokerError;

/// How long a request may take, beside the time that it asks to wait.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What credentials are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A run that goes on.
    Run,
    /// Sending what a dead sidecar has left. They are granted for a while after the end of the run too.
    Leftovers,
}

/// A client of the control plane for one run.
#[derive(Clone)]
pub struct ControlPlane {
    http: Client,
    base: String,
    token: String,
}

impl ControlPlane {
    /// A client for a base address.
    pub fn new(url: &str, token: &GatewayToken) -> Result<Self, BrokerError> {
        Ok(Self::with(http_client(!url.starts_with("http://"))?, url, token))
    }

    /// The same with a client that is there already.
    pub fn with(http: Client, url: &str, token: &GatewayToken) -> Self {
        let base = format!("{}/internal/gateway", url.trim_end_matches('/'));
        Self { http, base, token: token.as_str().to_owned() }
    }

    /// What the run was launched with, for a container that knows only its token.
    pub async fn launch(&self) -> Result<SidecarLaunch, BrokerError> {
        Ok(self.answer(self.request(Method::POST, "launch"), TIMEOUT).await?.json().await?)
    }

    /// Fresh credentials for the run's queues and blobs.
    pub async fn credentials(&self, purpose: Purpose) -> Result<RunCredentials, BrokerError> {
        let path = match purpose {
            Purpose::Run => "credentials",
            Purpose::Leftovers => "credentials?leftovers=true",
        };
        Ok(self.answer(self.request(Method::POST, path), TIMEOUT).await?.json().await?)
    }

    /// A request of a path below the gateway's.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/{path}", self.base)).bearer_auth(&self.token)
    }

    /// The answer to a request when it is a success.
    pub(crate) async fn answer(
        &self,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Response, BrokerError> {
        let response = request.timeout(timeout).send().await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(BrokerError::Unauthorized),
            StatusCode::GONE => Err(BrokerError::RunOver),
            status if status.is_success() => Ok(response),
            status => Err(BrokerError::Answer(status)),
        }
    }
}

/// A client that follows no proxy of the environment: that one is the agent's, and would see the run's tokens. Without
/// `tls` it reads no certificates, which take time and memory.
pub(crate) fn http_client(tls: bool) -> Result<Client, BrokerError> {
    let builder = Client::builder().no_proxy().pool_max_idle_per_host(2);
    let builder = if tls { builder } else { builder.tls_certs_only([]) };
    Ok(builder.build()?)
}
