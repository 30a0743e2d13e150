//! What only operators may do (ruling 9).

use pilothouse_functions::api::operations::{DeadLettersView, RedriveAnswer};
use serde_json::json;

use super::{ApiError, Client};

const DEAD_LETTERS: &str = "api/operations/dead-letters";

impl Client {
    /// Messages that nobody could deal with.
    pub async fn dead_letters(&self) -> Result<DeadLettersView, ApiError> {
        self.get(DEAD_LETTERS.to_owned()).await
    }

    /// Sends dead letters of a queue again: as many as one request takes. The queue goes with or without its `.fifo`.
    pub async fn redrive(&self, queue: &str) -> Result<RedriveAnswer, ApiError> {
        self.post(format!("{DEAD_LETTERS}/{queue}/redrive"), &json!({})).await
    }
}
