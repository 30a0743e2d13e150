//! Handing out short-lived credentials in the cloud, each for the queues of one run or one worker alone (architecture:
//! Security).

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::worker::QueueCredentials;

#[cfg(feature = "sts")]
pub mod sts;

#[cfg(feature = "sts")]
pub use sts::{StsSettings, StsVendor};

/// Makes credentials that open no more than they are for.
#[async_trait]
pub trait CredentialVendor: Send + Sync {
    /// To send events, receive commands and keep large bodies of one run.
    async fn for_run(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError>;

    /// To send what one run that is over has left: events and large bodies, and nothing else.
    async fn for_leftovers(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError>;

    /// To receive from the queue of one worker, by its logical name.
    async fn for_queue(&self, queue: &str) -> Result<QueueCredentials, VendError>;
}

/// No credentials could be made; trying again may work.
#[derive(Debug, thiserror::Error)]
pub enum VendError {
    /// The service refused or could not be reached.
    #[error("the credentials could not be fetched")]
    Service(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It answered without what belongs to credentials.
    #[error("the service answered no credentials")]
    Nothing,
}
