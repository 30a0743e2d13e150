//! Responses with the page and the files of the console, and their security headers.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{self, HeaderName, HeaderValue};
use pilothouse_app::http::Problem;
use pilothouse_console::{Asset, Console, NONCE};
use pilothouse_local_keys::random_code;

/// Headers of every response with a file.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// The content security policy: only files of this server, no inline script, and no text as HTML. Styles of dialogs have the nonce.
/// The policy for trusted types gives the address of the worker for notifications only.
fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; \
         connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types pilothouse-push"
    )
}

fn response(body: impl Into<Body>, content_type: &'static str, cache: &'static str) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.extend(SECURITY);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// The page with a fresh nonce.
pub(super) fn page(console: &Console) -> Response {
    page_with_nonce(console).unwrap_or_else(IntoResponse::into_response)
}

fn page_with_nonce(console: &Console) -> Result<Response, Problem> {
    let nonce = random_code().map_err(Problem::internal)?;
    let policy = HeaderValue::from_str(&policy(&nonce)).map_err(Problem::internal)?;
    let mut response = response(console.page.replace(NONCE, &nonce), "text/html; charset=utf-8", "no-store");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// The reason why this build does not include the console.
pub(super) fn missing(reason: &str) -> Response {
    let text = format!("This server was built without the web console: {reason}\n");
    let mut response = response(text, "text/plain; charset=utf-8", "no-store");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// A file, always compressed, because every browser accepts gzip.
pub(super) fn asset(asset: &Asset) -> Response {
    let cache = if asset.is_immutable() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = response(asset.gzip, asset.content_type(), cache);
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_a_fresh_nonce_and_no_inline_script() {
        let console = Console { page: "<style nonce=\"pilothouse-nonce\">", assets: &[] };
        let policy_of = |response: &Response| {
            response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned()
        };
        let (first, second) = (policy_of(&page(&console)), policy_of(&page(&console)));
        assert_ne!(first, second);
        assert!(first.contains("script-src 'self';") && !first.contains("unsafe"), "{first}");
        assert!(!first.contains(NONCE), "{first}");
    }

    #[test]
    fn only_files_with_a_hash_in_their_name_are_cached() {
        let cache_of = |path| {
            let response = asset(&Asset { path, gzip: b"" });
            response.headers()[header::CACHE_CONTROL].to_str().unwrap().to_owned()
        };
        assert!(cache_of("/assets/app-1.js").contains("immutable"));
        assert_eq!(cache_of("/app.webmanifest"), "no-cache");
    }
}
