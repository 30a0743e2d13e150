//! The one S3 request that a sidecar makes. The S3 SDK would add 1.4 MB to a program of 5 MB, and to the memory next
//! to each agent.

use std::time::SystemTime;

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use pilothouse_wire::gateway::RunCredentials;
use reqwest::{Client, Response};

use super::BrokerError;
use super::control_plane::TIMEOUT;
use super::grants::Grant;
use crate::oversize::Blob;

/// Uploads a blob under its hash. The signature covers the hash, so S3 refuses any other content.
pub(super) async fn put(http: &Client, grant: &Grant, blob: Blob) -> Result<Response, BrokerError> {
    let url = address(&grant.access, &blob.sha256);
    let headers = signed(grant, &url, &blob.sha256)?;
    let request = http.put(&url).body(blob.bytes).timeout(TIMEOUT * 6);
    let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    Ok(request.send().await?)
}

/// URL of a blob: virtual-hosted style, or path style where the bucket's host name has no certificate or does not
/// resolve.
fn address(access: &RunCredentials, sha256: &str) -> String {
    let RunCredentials { bucket, region, .. } = access;
    let key = format!("{}/{sha256}", access.blob_prefix.trim_end_matches('/'));
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    match &access.endpoint {
        Some(endpoint) => format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')),
        None if bucket.contains('.') => format!("https://s3.{region}.{domain}/{bucket}/{key}"),
        None => format!("https://{bucket}.s3.{region}.{domain}/{key}"),
    }
}

/// The signature headers (`SigV4`).
fn signed(grant: &Grant, url: &str, sha256: &str) -> Result<Vec<(String, String)>, BrokerError> {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    let identity = grant.credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(&grant.access.region)
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(|e| BrokerError::Sign(e.into()))?;
    let body = SignableBody::Precomputed(sha256.to_owned());
    let request = SignableRequest::new("PUT", url, std::iter::empty(), body)
        .map_err(|e| BrokerError::Sign(e.into()))?;
    let (instructions, _) =
        sign(request, &parameters.into()).map_err(|e| BrokerError::Sign(e.into()))?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::Timestamp;

    use super::*;

    fn access(bucket: &str, region: &str, endpoint: Option<&str>) -> RunCredentials {
        RunCredentials {
            access_key_id: "AKID".into(),
            secret_access_key: "secret".into(),
            session_token: "token".into(),
            expires_at: Timestamp::from_millis(0),
            region: region.into(),
            endpoint: endpoint.map(Into::into),
            events_queue_url: String::new(),
            commands_queue_url: String::new(),
            bucket: bucket.into(),
            blob_prefix: "sessions/1".into(),
        }
    }

    #[test]
    fn bucket_is_in_the_host_name_if_its_certificate_allows() {
        let at = |bucket, region, endpoint| address(&access(bucket, region, endpoint), "ab");
        assert_eq!(at("b", "eu-central-1", None), "https://b.s3.eu-central-1.amazonaws.com/sessions/1/ab");
        assert_eq!(
            at("b.c", "eu-central-1", None),
            "https://s3.eu-central-1.amazonaws.com/b.c/sessions/1/ab"
        );
        assert_eq!(at("b", "cn-north-1", None), "https://b.s3.cn-north-1.amazonaws.com.cn/sessions/1/ab");
        assert_eq!(at("b", "x", Some("http://127.0.0.1:4566/")), "http://127.0.0.1:4566/b/sessions/1/ab");
    }
}
