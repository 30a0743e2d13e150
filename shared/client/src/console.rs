//! The login of the web console.

use pilothouse_api::console::{ConsoleCode, ConsoleLoginsView};
use pilothouse_domain::ConsoleLoginId;

use super::{ApiError, Client};

impl Client {
    /// Creates a code that logs a browser in as the owner of the token, once.
    pub async fn console_code(&self) -> Result<ConsoleCode, ApiError> {
        self.post("console/codes".to_owned(), &serde_json::json!({})).await
    }

    /// The browsers in which the owner is logged in.
    pub async fn console_logins(&self) -> Result<ConsoleLoginsView, ApiError> {
        self.get("console/logins".to_owned()).await
    }

    /// Logs a browser out.
    pub async fn remove_console_login(&self, id: ConsoleLoginId) -> Result<(), ApiError> {
        self.delete(format!("console/logins/{id}")).await
    }
}
