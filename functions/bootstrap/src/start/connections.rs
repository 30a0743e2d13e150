//! Live stream connections through API Gateway's management API.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_store::ConnectionId;

use super::clients::Clients;

struct Management(Client);

/// Creates a client of the management API of a stage: `https://{api}.execute-api.{region}.…/{stage}`.
pub(super) fn management(clients: &Clients, url: &str) -> Arc<dyn Connections> {
    let url = url.trim_end_matches('/').replacen("wss://", "https://", 1).replacen("ws://", "http://", 1);
    let config = aws_sdk_apigatewaymanagement::config::Builder::from(&clients.shared).endpoint_url(url);
    Arc::new(Management(Client::from_conf(config.build())))
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

fn failed<E>(error: &SdkError<E>) -> PostError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    if status == Some(410) || error.code() == Some("GoneException") {
        return PostError::Gone;
    }
    PostError::Failed(Box::new(Refused(DisplayErrorContext(error).to_string())))
}

#[async_trait]
impl Connections for Management {
    async fn post(&self, connection: &ConnectionId, text: &str) -> Result<(), PostError> {
        let post = self.0.post_to_connection().connection_id(connection.as_str());
        post.data(Blob::new(text)).send().await.map(drop).map_err(|error| failed(&error))
    }

    async fn close(&self, connection: &ConnectionId) -> Result<(), PostError> {
        self.0
            .delete_connection()
            .connection_id(connection.as_str())
            .send()
            .await
            .map(drop)
            .map_err(|error| failed(&error))
    }
}
