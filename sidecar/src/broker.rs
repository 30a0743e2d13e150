//! The sidecar's client of the broker: the gateway of an embedded server, or SQS and S3 directly.

pub(crate) mod control_plane;
mod gateway;
mod grants;
mod s3;
mod sqs;

use std::time::Duration;

use pilothouse_wire::gateway::{ReceivedCommand, SendEntry, SendResult};
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};
use reqwest::StatusCode;

pub use gateway::Gateway;
pub use sqs::Sqs;

use crate::oversize::Blob;
pub use control_plane::Purpose;
use control_plane::{ControlPlane, http_client, is_plain, shared_client};

/// Why a request to the broker failed.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// 401: the token is not valid. Final.
    #[error("the control plane does not know the token")]
    Unauthorized,
    /// 410, or the run's command queue no longer exists: the run is over. Final.
    #[error("the run is over")]
    RunOver,
    /// Another error response of the control plane or S3. Retryable.
    #[error("the broker answered {0}")]
    Status(StatusCode),
    /// No response, or one that cannot be parsed. Retryable.
    #[error("failed to reach the broker")]
    Network(#[from] reqwest::Error),
    /// SQS rejected the request. Retryable.
    #[error("SQS rejected the request")]
    Sqs(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No response within the request's time limit. Retryable.
    #[error("the broker did not answer in time")]
    Late,
    #[error("failed to sign the request")]
    Sign(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl BrokerError {
    /// Whether a retry cannot succeed.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::RunOver)
    }
}

/// The broker, as one run sees it. Clones share connections and credentials.
#[derive(Clone)]
pub enum Broker {
    /// Through an embedded server.
    Gateway(Gateway),
    /// SQS and S3 directly.
    Sqs(Sqs),
}

impl Broker {
    pub fn new(launch: &SidecarLaunch, purpose: Purpose) -> Result<Self, BrokerError> {
        Ok(match &launch.broker {
            BrokerAccess::Gateway { url, token, http2 } => {
                let http = if *http2 { shared_client()? } else { http_client(!is_plain(url))? };
                Self::Gateway(Gateway::new(ControlPlane::with(http, url, token)))
            }
            BrokerAccess::Sqs { url, token } => {
                // Blobs use the same client, and S3 may need TLS even if the control plane of a test does not.
                let http = http_client(true)?;
                let control_plane = ControlPlane::with(http.clone(), url, token);
                Self::Sqs(Sqs::new(control_plane, http, launch.request.session_id, purpose))
            }
        })
    }

    /// Sends events to the queue. The result lists the accepted ones.
    pub async fn send(&self, entries: Vec<SendEntry>) -> Result<SendResult, BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.send(entries).await,
            Self::Sqs(sqs) => sqs.send(entries).await,
        }
    }

    /// Waits up to `wait` (at most 20 seconds) for up to `max` commands (1 to 10).
    pub async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<ReceivedCommand>, BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.receive(max, wait).await,
            Self::Sqs(sqs) => sqs.receive(max, wait).await,
        }
    }

    /// Deletes up to 10 commands from the queue.
    pub async fn delete(&self, receipts: Vec<String>) -> Result<(), BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.delete(receipts).await,
            Self::Sqs(sqs) => sqs.delete(receipts).await,
        }
    }

    pub async fn put_blob(&self, blob: Blob) -> Result<(), BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.put_blob(blob).await,
            Self::Sqs(sqs) => sqs.put_blob(blob).await,
        }
    }
}
