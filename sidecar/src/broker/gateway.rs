//! Client for the gateway of an embedded server ([`pilothouse_wire::gateway`]).

use std::time::Duration;

use pilothouse_wire::gateway::{
    DeleteCommands, DraftResult, ReceiveCommands, ReceivedCommand, ReceivedCommands, SendDraft, SendEntry,
    SendEvents, SendResult,
};
use reqwest::Method;

use super::BrokerError;
use super::control_plane::{ControlPlane, TIMEOUT};
use crate::oversize::Blob;

/// A client of the gateway for one run.
#[derive(Clone)]
pub struct Gateway(ControlPlane);

impl Gateway {
    pub const fn new(server: ControlPlane) -> Self {
        Self(server)
    }

    pub(super) async fn send(&self, entries: Vec<SendEntry>) -> Result<SendResult, BrokerError> {
        let request = self.0.request(Method::POST, "events").json(&SendEvents { entries });
        Ok(self.0.send(request, TIMEOUT).await?.json().await?)
    }

    pub(super) async fn receive(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<ReceivedCommand>, BrokerError> {
        let body = ReceiveCommands { max, wait_seconds: wait.as_secs_f64() };
        let request = self.0.request(Method::POST, "commands/receive").json(&body);
        Ok(self.0.send(request, wait + TIMEOUT).await?.json::<ReceivedCommands>().await?.messages)
    }

    pub(super) async fn delete(&self, receipts: Vec<String>) -> Result<(), BrokerError> {
        let request = self.0.request(Method::POST, "commands/delete").json(&DeleteCommands { receipts });
        self.0.send(request, TIMEOUT).await.map(drop)
    }

    /// Sends a part of a draft.
    pub(crate) async fn send_draft(&self, draft: &SendDraft) -> Result<DraftResult, BrokerError> {
        let request = self.0.request(Method::POST, "drafts").json(draft);
        Ok(self.0.send(request, TIMEOUT).await?.json::<DraftResult>().await?)
    }

    pub(super) async fn put_blob(&self, blob: Blob) -> Result<(), BrokerError> {
        let request = self.0.request(Method::PUT, &format!("blobs/{}", blob.sha256)).body(blob.bytes);
        self.0.send(request, TIMEOUT * 6).await.map(drop)
    }
}
