//! The first request to the table, made before the first event: most of it is the handshake.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use aws_sdk_dynamodb::types::AttributeValue;

/// How long the start waits for it. What is later than that may yet work when an event comes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the table cannot be used, now or ever.
#[derive(Debug, thiserror::Error)]
pub enum TableProblem {
    /// There is none of this name.
    #[error(
        "there is no table `{0}` in this account and region; deploy the `data` stack, or correct PILOTHOUSE_TABLE"
    )]
    Missing(String),
    /// The credentials are no good any more.
    #[error("the credentials of this function are expired or not valid: {0}")]
    Credentials(String),
    /// The role may not read it.
    #[error("the role of this function may not read the table `{table}`: {cause}")]
    Denied {
        /// The table.
        table: String,
        /// What the service said.
        cause: String,
    },
}

/// Reads an item that is not there.
///
/// # Errors
/// What no event could help. A table that cannot be reached is logged; the event that comes may find it.
pub(super) async fn up(client: &Client, table: &str) -> Result<(), TableProblem> {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let nothing = HashMap::from([("pk".to_owned(), key("WARM")), ("sk".to_owned(), key("UP"))]);
    let asked = client.get_item().table_name(table).set_key(Some(nothing)).send();
    let error = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => {
            tracing::warn!(table, "the table did not answer in time; going on without");
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
            tracing::warn!(table, cause, "the table cannot be reached yet; going on without");
            Ok(())
        }
    }
}
