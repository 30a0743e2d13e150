//! The gateway of an embedded server, as the sidecar calls it ([`pilothouse_wire::gateway`]).

use std::time::Duration;

use pilothouse_wire::gateway::{
    DeleteCommands, ReceiveCommands, ReceivedCommand, ReceivedCommands, SendEntry, SendEvents, SendResult,
};
use pilothouse_wire::launch::BrokerAccess;
use reqwest::{Client, RequestBuilder, Response, StatusCode};

use crate::oversize::Blob;

/// How long a request may take, beside the time that it asks to wait.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request that was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// 401: the token is not valid, for good.
    #[error("the gateway does not know the token")]
    Unauthorized,
    /// 410: the run is over.
    #[error("the gateway says that the run is over")]
    RunOver,
    /// Anything else that the gateway answered; to be tried again.
    #[error("the gateway answered {0}")]
    Answer(StatusCode),
    /// No answer, or none that can be read; to be tried again.
    #[error("the gateway cannot be reached")]
    Network(#[from] reqwest::Error),
}

impl GatewayError {
    /// Whether trying again is pointless.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::RunOver)
    }
}

/// A client of the gateway for one run.
#[derive(Clone)]
pub struct Gateway {
    http: Client,
    base: String,
    token: String,
}

impl Gateway {
    /// A client for what a launch names.
    pub fn new(access: &BrokerAccess) -> Result<Self, GatewayError> {
        let (BrokerAccess::Gateway { url, token } | BrokerAccess::Sqs { url, token }) = access;
        // The gateway is on this machine: a proxy of the environment would only lead away from it.
        let http = Client::builder().no_proxy().pool_max_idle_per_host(2).build()?;
        let base = format!("{}/internal/gateway", url.trim_end_matches('/'));
        Ok(Self { http, base, token: token.as_str().to_owned() })
    }

    /// Puts events on the queue; the answer lists which of them the broker has.
    pub async fn send(&self, entries: Vec<SendEntry>) -> Result<SendResult, GatewayError> {
        let request = self.http.post(format!("{}/events", self.base)).json(&SendEvents { entries });
        Ok(self.answer(request, TIMEOUT).await?.json().await?)
    }

    /// Waits up to `wait` for commands.
    pub async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<ReceivedCommand>, GatewayError> {
        let body = ReceiveCommands { max, wait_seconds: wait.as_secs_f64() };
        let request = self.http.post(format!("{}/commands/receive", self.base)).json(&body);
        Ok(self.answer(request, wait + TIMEOUT).await?.json::<ReceivedCommands>().await?.messages)
    }

    /// Removes commands from the queue.
    pub async fn delete(&self, receipts: Vec<String>) -> Result<(), GatewayError> {
        let request =
            self.http.post(format!("{}/commands/delete", self.base)).json(&DeleteCommands { receipts });
        self.answer(request, TIMEOUT).await.map(drop)
    }

    /// Stores a blob.
    pub async fn put_blob(&self, blob: Blob) -> Result<(), GatewayError> {
        let request = self.http.put(format!("{}/blobs/{}", self.base, blob.sha256)).body(blob.bytes);
        self.answer(request, TIMEOUT * 6).await.map(drop)
    }

    async fn answer(&self, request: RequestBuilder, timeout: Duration) -> Result<Response, GatewayError> {
        let response = request.bearer_auth(&self.token).timeout(timeout).send().await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(GatewayError::Unauthorized),
            StatusCode::GONE => Err(GatewayError::RunOver),
            status if status.is_success() => Ok(response),
            status => Err(GatewayError::Answer(status)),
        }
    }
}
