//! Requests to AWS, signed by hand, with one builder for all services, so that attempts can be listed in a table.

use std::time::SystemTime;

use aws_sdk_sqs::config::Credentials;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::Method;
use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// In the signature, such as `sqs`.
    pub(crate) service: &'static str,
    pub(crate) method: Method,
    /// Absolute.
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    region: String,
    credentials: Credentials,
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Without the namespace; empty without an error.
    pub(crate) code: String,
    pub(crate) text: String,
}

/// Error names of denials.
const DENIALS: [&str; 4] =
    ["AccessDenied", "AccessDeniedException", "AuthorizationError", "ForbiddenException"];
/// Invalid credentials: either the test is wrong or they have expired.
const UNKNOWN: [&str; 9] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

impl Caller {
    pub(crate) fn new(
        http: &reqwest::Client,
        region: &str,
        id: &str,
        secret: &str,
        token: Option<&str>,
    ) -> Self {
        let credentials = Credentials::new(id, secret, token.map(str::to_owned), None, "test");
        Self { http: http.clone(), region: region.to_owned(), credentials }
    }

    /// Panics unless the service decided on the request's permission.
    pub(crate) async fn send(&self, request: &Request) -> Response {
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = self.credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(request.service)
            .time(SystemTime::now())
            .settings(settings)
            .build()
            .unwrap();
        let headers = request.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let body = SignableBody::Bytes(request.body.as_bytes());
        let signable = SignableRequest::new(request.method.as_str(), &request.url, headers, body).unwrap();
        let (signature, _) = sign(signable, &parameters.into()).unwrap().into_parts();
        let mut sent = self.http.request(request.method.clone(), &request.url).body(request.body.clone());
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        for (name, value) in signature.headers() {
            sent = sent.header(name, value);
        }
        let response = sent.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let named = headers.get("x-amzn-errortype").and_then(|it| it.to_str().ok());
        let code = if status < 300 { String::new() } else { code(named, &text) };
        assert!(!UNKNOWN.contains(&code.as_str()), "the credentials are invalid: {request:?}\n{text}");
        assert!(status < 500, "no decision: {status} {text}\n{request:?}");
        Response { status, code, text }
    }
}

impl Response {
    /// All other responses count as allowed, even errors.
    pub(crate) fn denied(&self) -> bool {
        DENIALS.contains(&self.code.as_str())
    }

    /// Panics if the request failed.
    #[track_caller]
    pub(crate) fn done(self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text);
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The text of an element of an XML response.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        element(&self.text, name)
    }
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// `AccessDeniedException` for `com.amazon.coral.service#AccessDeniedException`.
fn code(named: Option<&str>, text: &str) -> String {
    let json: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let of_json = || json["__type"].as_str().or_else(|| json["code"].as_str());
    let whole = named.or_else(of_json).or_else(|| element(text, "Code")).unwrap_or_default();
    whole.rsplit('#').next().unwrap_or_default().trim_end_matches(':').to_owned()
}
