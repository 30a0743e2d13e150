//! How the sidecar reaches the broker: through the gateway of an embedded server, or straight to SQS and S3.

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

pub use crate::control_plane::Purpose;
use crate::control_plane::{ControlPlane, http_client};
use crate::oversize::Blob;

/// A request that was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// 401: the token is not valid, for good.
    #[error("the control plane does not know the token")]
    Unauthorized,
    /// 410, or the run's command queue is gone: the run is over.
    #[error("the run is over")]
    RunOver,
    /// Anything else that the control plane or S3 answered; to be tried again.
    #[error("the broker answered {0}")]
    Answer(StatusCode),
    /// No answer, or none that can be read; to be tried again.
    #[error("the broker cannot be reached")]
    Network(#[from] reqwest::Error),
    /// SQS did not do it; to be tried again.
    #[error("SQS did not do it")]
    Sqs(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer within the time that a request has; to be tried again.
    #[error("the broker did not answer in time")]
    Late,
    /// A request to S3 could not be signed.
    #[error("the request cannot be signed")]
    Sign(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl BrokerError {
    /// Whether trying again is pointless.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::RunOver)
    }
}

/// The broker, as one run sees it. Clones share connections and credentials.
#[derive(Clone)]
pub enum Broker {
    /// Through an embedded server.
    Gateway(Gateway),
    /// Straight to SQS and S3.
    Sqs(Sqs),
}

impl Broker {
    /// The broker that a launch names.
    pub fn new(launch: &SidecarLaunch, purpose: Purpose) -> Result<Self, BrokerError> {
        Ok(match &launch.broker {
            BrokerAccess::Gateway { url, token } => {
                Self::Gateway(Gateway::new(ControlPlane::new(url, token)?))
            }
            BrokerAccess::Sqs { url, token } => {
                // Blobs go over the same client, and S3 may want TLS where a control plane under test does not.
                let http = http_client(true)?;
                let control_plane = ControlPlane::with(http.clone(), url, token);
                Self::Sqs(Sqs::new(control_plane, http, launch.request.session_id, purpose))
            }
        })
    }

    /// Puts events on the queue; the answer lists which of them the broker has.
    pub async fn send(&self, entries: Vec<SendEntry>) -> Result<SendResult, BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.send(entries).await,
            Self::Sqs(sqs) => sqs.send(entries).await,
        }
    }

    /// Waits up to `wait`, at most 20 seconds, for at most `max`, 1 to 10, commands.
    pub async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<ReceivedCommand>, BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.receive(max, wait).await,
            Self::Sqs(sqs) => sqs.receive(max, wait).await,
        }
    }

    /// Removes commands, at most 10, from the queue.
    pub async fn delete(&self, receipts: Vec<String>) -> Result<(), BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.delete(receipts).await,
            Self::Sqs(sqs) => sqs.delete(receipts).await,
        }
    }

    /// Stores a blob.
    pub async fn put_blob(&self, blob: Blob) -> Result<(), BrokerError> {
        match self {
            Self::Gateway(gateway) => gateway.put_blob(blob).await,
            Self::Sqs(sqs) => sqs.put_blob(blob).await,
        }
    }
}
