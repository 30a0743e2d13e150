//! Short-lived AWS credentials, each for the queues of one run or one worker (decision 46).

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::worker::QueueCredentials;

#[cfg(feature = "sts")]
pub mod sts;

#[cfg(feature = "sts")]
pub use sts::{StsSettings, StsVendor};

#[async_trait]
pub trait CredentialVendor: Send + Sync {
    /// Credentials to send events, receive commands and store large contents of one run.
    async fn for_run(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError>;

    /// Credentials to send the remaining events and large contents of an ended run.
    async fn for_drain(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError>;

    /// Credentials to receive from the queue of one worker, by its logical name.
    async fn for_queue(&self, queue: &str) -> Result<QueueCredentials, VendError>;
}

/// No credentials could be issued; a retry may succeed.
#[derive(Debug, thiserror::Error)]
pub enum VendError {
    /// The service refused the request or could not be reached.
    #[error("failed to fetch the credentials")]
    Service(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the response contained no credentials")]
    NoCredentials,
}
