//! Fetches the issuer's published key set.

use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use axum::body::{Body, to_bytes};
use pilothouse_functions::realtime::authorize::{KeySource, KeySourceError};

use crate::http_client::{HttpClient, HttpClientError};

const MAX_BYTES: usize = 256 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Published {
    http: HttpClient,
    url: String,
}

impl Published {
    pub(super) fn new(url: &str) -> Self {
        Self { http: HttpClient::new(), url: url.to_owned() }
    }

    async fn get(&self) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let request =
            HttpRequest::get(&self.url).map_err(|error| HttpClientError::Address(Box::new(error)))?;
        let response = self.http.send(request).await?;
        let bytes = to_bytes(Body::new(response.into_body()), MAX_BYTES).await?;
        Ok(String::from_utf8(bytes.into())?)
    }
}

#[async_trait]
impl KeySource for Published {
    async fn fetch(&self) -> Result<String, KeySourceError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.get()).await {
            Ok(fetched) => fetched.map_err(KeySourceError),
            Err(late) => Err(KeySourceError(Box::new(late))),
        }
    }
}
