//! Reads the root secret, and the keys of models, from Secrets Manager.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::DisplayErrorContext;
use pilothouse_app::models::ModelKey;
use pilothouse_wire::RootSecret;
use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret `{arn}` cannot be read: {cause}")]
    Unreadable {
        arn: String,
        /// The error of the service.
        cause: String,
    },
    #[error("the key of a model in `{0}` is not text")]
    NoKey(String),
    /// The secret is malformed. Its value is not reported.
    #[error(
        "the root secret in `{arn}` is not {{\"id\": \"…\", \"secret\": \"…\"}} with at least {min} bytes",
        min = RootSecret::MIN_BYTES
    )]
    Malformed {
        /// The ARN of the secret.
        arn: String,
    },
}

/// The format of the stored secret, as the `data` template creates it.
#[derive(Deserialize)]
struct Kept {
    id: String,
    secret: String,
}

pub(super) async fn read(client: &Client, arn: &str) -> Result<RootSecret, SecretError> {
    parse(&text(client, arn).await?.unwrap_or_default())
        .ok_or_else(|| SecretError::Malformed { arn: arn.to_owned() })
}

/// Reads the key of a model: the whole text of its secret.
pub(super) async fn read_model_key(client: &Client, arn: &str) -> Result<ModelKey, SecretError> {
    let text = text(client, arn).await?.map(|text| text.trim().to_owned());
    let key = text.filter(|text| !text.is_empty()).map(ModelKey);
    key.ok_or_else(|| SecretError::NoKey(arn.to_owned()))
}

async fn text(client: &Client, arn: &str) -> Result<Option<String>, SecretError> {
    let response = client.get_secret_value().secret_id(arn).send().await.map_err(|error| {
        SecretError::Unreadable { arn: arn.to_owned(), cause: DisplayErrorContext(&error).to_string() }
    })?;
    Ok(response.secret_string().map(ToOwned::to_owned))
}

fn parse(text: &str) -> Option<RootSecret> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    RootSecret::new(kept.id, kept.secret.into_bytes())
}

/// A random secret for functions that may not read the root secret. It verifies nothing.
pub(super) fn withheld() -> RootSecret {
    let bytes: [u8; RootSecret::MIN_BYTES] = rand::random();
    #[allow(clippy::expect_used)] // it has as many bytes as it needs
    RootSecret::new("withheld", bytes.to_vec()).expect("a secret of its own length")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_an_id_and_enough_bytes() {
        let secret = parse(r#"{"id":"1","secret":"0123456789abcdef0123456789abcdef"}"#).unwrap();
        assert_eq!(secret.id(), "1");
        for text in ["", "secret", r#"{"id":"1"}"#, r#"{"id":"1","secret":"short"}"#] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn withheld_secret_is_random() {
        let run = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let session = "01900000-0000-7000-8000-000000000002".parse().unwrap();
        let tokens = [withheld(), withheld()].map(|secret| secret.gateway_token(session, run));
        assert!(tokens[0] != tokens[1]);
    }
}
