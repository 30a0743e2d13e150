//! Client for the routes of the control plane that a run's token opens ([`pilothouse_wire::gateway`]).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::keys::GatewayToken;
use pilothouse_wire::launch::SidecarLaunch;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};

use super::BrokerError;

/// In addition to the time that the request asks the server to wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval and timeout of the keep-alive pings of a shared connection. They detect a server that disappeared without
/// closing it.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What credentials are requested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Run,
    /// Sending what a dead sidecar left. The control plane grants these for a while after the end of the run, too.
    Leftovers,
}

#[derive(Clone)]
pub struct ControlPlane {
    http: Client,
    base: String,
    token: String,
}

impl ControlPlane {
    /// Creates a client for a base URL.
    pub fn new(url: &str, token: &GatewayToken) -> Result<Self, BrokerError> {
        Ok(Self::with(http_client(!is_plain(url))?, url, token))
    }

    /// Like [`Self::new`], with an existing HTTP client.
    pub fn with(http: Client, url: &str, token: &GatewayToken) -> Self {
        let base = format!("{}/internal/gateway", url.trim_end_matches('/'));
        Self { http, base, token: token.as_str().to_owned() }
    }

    /// The launch of the run, for a container that knows only its token.
    pub async fn launch(&self) -> Result<SidecarLaunch, BrokerError> {
        Ok(self.send(self.request(Method::POST, "launch"), TIMEOUT).await?.json().await?)
    }

    pub async fn credentials(&self, purpose: Purpose) -> Result<RunCredentials, BrokerError> {
        let path = match purpose {
            Purpose::Run => "credentials",
            Purpose::Leftovers => "credentials?leftovers=true",
        };
        Ok(self.send(self.request(Method::POST, path), TIMEOUT).await?.json().await?)
    }

    /// Builds a request for a path below the gateway's.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/{path}", self.base)).bearer_auth(&self.token)
    }

    /// Sends a request and returns the response if it is a success.
    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Response, BrokerError> {
        let response = request.timeout(timeout).send().await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(BrokerError::Unauthorized),
            StatusCode::GONE => Err(BrokerError::RunOver),
            status if status.is_success() => Ok(response),
            status => Err(BrokerError::Status(status)),
        }
    }
}

/// Ignores proxy variables: a proxy in the environment is meant for the agent, and would see the run's tokens. Without
/// `tls` the client loads no certificates, which saves time and memory.
pub(crate) fn http_client(tls: bool) -> Result<Client, BrokerError> {
    let builder = Client::builder().no_proxy().pool_max_idle_per_host(2);
    let builder = if tls { builder } else { builder.tls_certs_only([]) };
    Ok(builder.build()?)
}

/// Calls for a client that use one connection. Each user waits for commands in one request and sends some more meanwhile; the server
/// accepts 64 at a time on a connection.
const USERS_OF_A_CONNECTION: usize = 16;

/// A client whose requests share one connection to the server of this process's run (HTTP/2 without TLS). A process with several
/// sidecars has more of them.
pub(crate) fn shared_client() -> Result<Client, BrokerError> {
    static SHARED: Mutex<Option<(Client, usize)>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((client, users)) = shared.as_mut().filter(|(_, users)| *users < USERS_OF_A_CONNECTION) {
        *users += 1;
        return Ok(client.clone());
    }
    let builder = Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge();
    let builder = builder
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE)
        .http2_keep_alive_while_idle(true);
    let client = builder.build()?;
    *shared = Some((client.clone(), 1));
    Ok(client)
}

pub(crate) fn is_plain(url: &str) -> bool {
    url.starts_with("http://")
}
