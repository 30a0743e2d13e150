//! Makes the first request to the table before the first event, because the TLS handshake takes most of its time.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use aws_sdk_dynamodb::types::AttributeValue;

/// How long the start waits for the response. A slower table may still be available when an event arrives.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum TableProblem {
    #[error(
        "there is no table `{0}` in this account and region; deploy the `data` stack, or correct PILOTHOUSE_TABLE"
    )]
    Missing(String),
    #[error("the credentials of this function are expired or not valid: {0}")]
    Credentials(String),
    #[error("the role of this function may not read the table `{table}`: {cause}")]
    Denied {
        table: String,
        /// The error of the service.
        cause: String,
    },
}

/// Reads an item that does not exist. Fails with errors that would affect every event; an unreachable table is only logged,
/// because a later event may reach it.
pub(super) async fn up(client: &Client, table: &str) -> Result<(), TableProblem> {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let nothing = HashMap::from([("pk".to_owned(), key("WARM")), ("sk".to_owned(), key("UP"))]);
    let asked = client.get_item().table_name(table).set_key(Some(nothing)).send();
    let error = match tokio::time::timeout(REQUEST_TIMEOUT, asked).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => {
            tracing::warn!(table, "the table did not respond in time; continuing without warm-up");
            return Ok(());
        }
    };
    let said = error.message().unwrap_or_default().to_owned();
    match error.code() {
        Some("ResourceNotFoundException") => Err(TableProblem::Missing(table.to_owned())),
        Some("ExpiredTokenException" | "UnrecognizedClientException" | "InvalidSignatureException") => {
            Err(TableProblem::Credentials(said))
        }
        Some("AccessDeniedException") => Err(TableProblem::Denied { table: table.to_owned(), cause: said }),
        _ => {
            let cause = DisplayErrorContext(&error).to_string();
            tracing::warn!(table, cause, "failed to reach the table; continuing without warm-up");
            Ok(())
        }
    }
}
