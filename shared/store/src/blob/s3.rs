//! Blobs in S3, for the `aws` profile.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pilothouse_wire::keys::sha256_hex;
use sha2::{Digest as _, Sha256};

use super::{BlobError, BlobKey, Blobs, UploadLink};

/// Blobs in an S3 bucket. Clones share the same blobs.
///
/// Storing needs `s3:PutObject`, reading `s3:GetObject`. Both need `s3:ListBucket`: without it S3 does not reveal that an object is
/// missing.
#[derive(Debug, Clone)]
pub struct S3Blobs {
    client: Client,
    bucket: Arc<str>,
    prefix: Arc<str>,
}

impl S3Blobs {
    /// Blobs in a bucket, under `prefix` if there is one. The client configures region, credentials, retries, timeouts and a dated
    /// behavior version.
    pub fn new(client: Client, bucket: &str, prefix: Option<&str>) -> Self {
        let prefix = prefix.map(|prefix| prefix.trim_matches('/')).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        Self { client, bucket: bucket.into(), prefix: prefix.into() }
    }

    pub fn object(&self, key: &BlobKey) -> String {
        format!("{}{}", self.prefix, key.as_str())
    }
}

#[async_trait]
impl Blobs for S3Blobs {
    async fn put(&self, key: &BlobKey, content: Bytes) -> Result<(), BlobError> {
        let digest = Sha256::digest(&content);
        if hex::encode(digest) != key.digest() {
            return Err(BlobError::WrongContent);
        }
        let stored = self
            .client
            .put_object()
            .bucket(&*self.bucket)
            .key(self.object(key))
            // An existing object has the same content, because its name is its hash.
            .if_none_match("*")
            .checksum_sha256(STANDARD.encode(digest))
            .content_length(i64::try_from(content.len()).unwrap_or(i64::MAX))
            .body(ByteStream::from(content))
            .send()
            .await;
        match stored {
            Ok(_) => Ok(()),
            Err(error) if already_exists(&error) => Ok(()),
            Err(error) => Err(engine(error)),
        }
    }

    async fn get(&self, key: &BlobKey) -> Result<Option<Bytes>, BlobError> {
        let object = self.client.get_object().bucket(&*self.bucket).key(self.object(key)).send().await;
        let output = match object {
            Ok(output) => output,
            Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(engine(error)),
        };
        let content = output.body.collect().await.map_err(|error| BlobError::Engine(Box::new(error)))?;
        let content = content.into_bytes();
        // Sidecars store blobs directly, so the content need not match its name.
        if sha256_hex(&content) != key.digest() {
            return Err(BlobError::WrongContent);
        }
        Ok(Some(content))
    }

    async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        match self.client.head_object().bucket(&*self.bucket).key(self.object(key)).send().await {
            Ok(head) => Ok(head.content_length().and_then(|length| u64::try_from(length).ok())),
            // A response to HEAD has no body, and so no code in XML.
            Err(error) if matches!(error.code(), Some("NotFound" | "NoSuchKey")) => Ok(None),
            Err(error) => Err(engine(error)),
        }
    }

    /// S3 refuses a content with another SHA-256. Valid no longer than the credentials that sign it.
    async fn upload_link(
        &self,
        key: &BlobKey,
        size: u64,
        valid: Duration,
    ) -> Result<Option<UploadLink>, BlobError> {
        let config = PresigningConfig::expires_in(valid).map_err(engine)?;
        let digest = hex::decode(key.digest()).map_err(engine)?;
        let object = self.client.put_object().bucket(&*self.bucket).key(self.object(key));
        let object = object
            .checksum_sha256(STANDARD.encode(digest))
            .content_length(i64::try_from(size).unwrap_or(i64::MAX));
        let signed = object.presigned(config).await.map_err(engine)?;
        let headers = signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Some(UploadLink { url: signed.uri().to_owned(), headers }))
    }

    /// Valid no longer than the credentials that sign it.
    async fn link(&self, key: &BlobKey, valid: Duration) -> Result<Option<String>, BlobError> {
        let config = PresigningConfig::expires_in(valid).map_err(engine)?;
        let object = self.client.get_object().bucket(&*self.bucket).key(self.object(key));
        // Prevents browsers from executing content that an agent wrote.
        let object = object.response_content_type("application/octet-stream");
        let signed = object.presigned(config).await.map_err(engine)?;
        Ok(Some(signed.uri().to_owned()))
    }
}

fn already_exists<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.code() == Some("PreconditionFailed")
}

fn engine<E>(error: E) -> BlobError
where
    E: std::error::Error + Send + Sync + 'static,
{
    tracing::debug!(error = %DisplayErrorContext(&error), "S3 failed");
    BlobError::Engine(Box::new(error))
}
