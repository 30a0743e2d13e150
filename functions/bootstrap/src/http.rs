//! Converts events of HTTP APIs (payload format 2.0) to requests, and responses back.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pilothouse_app::http::Problem;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::keyring::LEEWAY_SECONDS;
use pilothouse_domain::UserId;
use serde::{Deserialize, Serialize};
use tower::ServiceExt as _;

use crate::failure::Failure;

/// The maximum size of a response body in bytes. Lambda accepts 6 MB, and base64 and JSON make the body larger.
const MAX_ANSWER_BYTES: usize = 4_400_000;

/// All bytes except slashes and those that never have to be escaped (RFC 3986, 2.3).
const ESCAPED_IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An HTTP request from API Gateway (payload format 2.0), limited to the fields that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    #[serde(default)]
    cookies: Option<Vec<String>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: RequestContext,
    #[serde(default)]
    path_parameters: Option<BTreeMap<String, String>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    #[serde(default)]
    stage: String,
    #[serde(default)]
    authorizer: Option<AuthorizerContext>,
    http: HttpContext,
}

#[derive(Debug, Deserialize)]
struct HttpContext {
    method: String,
}

#[derive(Debug, Deserialize)]
struct AuthorizerContext {
    #[serde(default)]
    jwt: Option<Jwt>,
}

#[derive(Debug, Deserialize)]
struct Jwt {
    claims: Claims,
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: Option<String>,
    #[serde(default)]
    exp: Option<serde_json::Value>,
    #[serde(default)]
    nbf: Option<serde_json::Value>,
}

impl Claims {
    /// Whether the token becomes valid after `now` (in seconds), or its `nbf` cannot be parsed.
    fn is_not_valid_yet(&self, now: u64) -> bool {
        let Some(nbf) = &self.nbf else { return false };
        let seconds = nbf.as_f64().or_else(|| nbf.as_str()?.parse().ok());
        #[allow(clippy::cast_precision_loss)] // exact until the year 285 million
        seconds.is_none_or(|nbf| nbf > (now + LEEWAY_SECONDS) as f64)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    status_code: u16,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cookies: Vec<String>,
    body: String,
    is_base64_encoded: bool,
}

impl HttpResponse {
    pub const fn status(&self) -> u16 {
        self.status_code
    }
}

impl Event {
    /// The claims that API Gateway's authorizer verified.
    fn claims(&self) -> Option<&Claims> {
        Some(&self.request_context.authorizer.as_ref()?.jwt.as_ref()?.claims)
    }

    pub fn owner(&self) -> Option<&str> {
        self.claims()?.sub.as_deref()
    }

    /// The session in the path.
    pub fn session(&self) -> Option<&str> {
        self.path_parameters.as_ref()?.get("id").map(String::as_str)
    }

    /// A header, by its lowercase name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn into_request(self) -> Result<Request<Body>, Problem> {
        let path = match self.request_context.stage.as_str() {
            "" | "$default" => self.raw_path.as_str(),
            // The path starts with the stage, unless a custom domain removes it.
            stage => match self.raw_path.strip_prefix('/').and_then(|path| path.strip_prefix(stage)) {
                Some("") => "/",
                Some(rest) if rest.starts_with('/') => rest,
                _ => self.raw_path.as_str(),
            },
        };
        // API Gateway passes the path unescaped.
        let mut target = utf8_percent_encode(path, ESCAPED_IN_PATHS).to_string();
        if !self.raw_query_string.is_empty() {
            target.push('?');
            target.push_str(&self.raw_query_string);
        }
        let uri: Uri = target.parse().map_err(|_| Problem::invalid("path", "is not an address"))?;
        let method: Method = self
            .request_context
            .http
            .method
            .parse()
            .map_err(|_| Problem::invalid("method", "is not a method"))?;
        if self.claims().is_some_and(|claims| claims.exp.is_none()) {
            // Authorizers that check `exp` only if it exists would accept such a token forever.
            return Err(Problem::Unauthenticated("the token has no expiry; get a new one"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.claims().is_some_and(|claims| claims.is_not_valid_yet(now)) {
            return Err(Problem::Unauthenticated("the token is not valid yet; wait, or get a new one"));
        }
        let owner = self.owner().map(|sub| UserId::parse(sub.to_owned())).transpose().map_err(|_| {
            Problem::Unauthenticated("the token has no valid owner in its `sub` claim; get a new one")
        })?;
        let body = match self.body {
            None => Bytes::new(),
            Some(text) if self.is_base64_encoded => {
                BASE64.decode(text).map_err(|_| Problem::invalid("body", "is not base64"))?.into()
            }
            Some(text) => Bytes::from(text),
        };
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        let cookies = self.cookies.filter(|cookies| !cookies.is_empty()).map(|cookies| cookies.join("; "));
        for (name, value) in self
            .headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .chain(cookies.as_deref().map(|cookies| (header::COOKIE.as_str(), cookies)))
        {
            // API Gateway passes only valid headers. Any other is skipped.
            if let (Ok(name), Ok(value)) =
                (name.parse::<header::HeaderName>(), header::HeaderValue::from_bytes(value.as_bytes()))
            {
                headers.append(name, value);
            }
        }
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if let Some(owner) = owner {
            request.extensions_mut().insert(VerifiedOwner(owner));
        }
        Ok(request)
    }
}

/// Runs a request on `service`. Fails if the response exceeds Lambda's limit. Error responses are not errors.
pub async fn call(service: Router, event: Event) -> Result<HttpResponse, Failure> {
    let response = match event.into_request() {
        // A router is always ready and never fails.
        Ok(request) => match service.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Err(problem) => axum::response::IntoResponse::into_response(problem),
    };
    lambda_response(response).await
}

async fn lambda_response(response: Response<Body>) -> Result<HttpResponse, Failure> {
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MAX_ANSWER_BYTES).await else {
        let limit = MAX_ANSWER_BYTES;
        return Err(Failure::Response(format!("it is larger than {limit} bytes, or incomplete").into()));
    };
    let mut headers = BTreeMap::new();
    let mut cookies = Vec::new();
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if name == header::SET_COOKIE {
            cookies.push(value);
        } else {
            headers
                .entry(name.as_str().to_owned())
                .and_modify(|all: &mut String| {
                    all.push_str(", ");
                    all.push_str(&value);
                })
                .or_insert(value);
        }
    }
    let (body, is_base64_encoded) = match String::from_utf8(body.into()) {
        Ok(text) => (text, false),
        Err(binary) => (BASE64.encode(binary.as_bytes()), true),
    };
    Ok(HttpResponse { status_code: parts.status.as_u16(), headers, cookies, body, is_base64_encoded })
}
