//! The login of the web console.

use pilothouse_api::console::ConsoleCode;

use super::{ApiError, Client};

impl Client {
    /// Creates a code that logs a browser in as the owner of the token, once.
    pub async fn console_code(&self) -> Result<ConsoleCode, ApiError> {
        self.post("console/codes".to_owned(), &serde_json::json!({})).await
    }
}
