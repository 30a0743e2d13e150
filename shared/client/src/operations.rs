//! Operators' methods (decision 9).

use pilothouse_api::operations::{DeadLettersView, RedriveResponse};
use serde_json::json;

use super::{ApiError, Client};

const DEAD_LETTERS: &str = "api/operations/dead-letters";

impl Client {
    /// Lists dead letters: messages that could not be processed.
    pub async fn dead_letters(&self) -> Result<DeadLettersView, ApiError> {
        self.get(DEAD_LETTERS.to_owned()).await
    }

    /// Sends dead letters of a queue again, as many as one request handles. The suffix `.fifo` of the queue is optional.
    pub async fn redrive(&self, queue: &str) -> Result<RedriveResponse, ApiError> {
        self.post(format!("{DEAD_LETTERS}/{queue}/redrive"), &json!({})).await
    }
}
