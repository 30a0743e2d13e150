//! Responses with the page and the files of the console, and their security headers.

use axum::body::Body;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{self, HeaderName, HeaderValue};
use pilothouse_console::{Asset, CONTENT_SECURITY_POLICY, Console, HTML, SECURITY_HEADERS};

fn response(body: impl Into<Body>, content_type: &'static str, cache: &'static str) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

pub(super) fn page(console: &Console) -> Response {
    let mut response = response(console.page, HTML, "no-store");
    let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
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
    let mut response = response(asset.gzip, asset.content_type(), asset.cache_control());
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

#[cfg(test)]
mod tests {
    use pilothouse_console::IMMUTABLE;

    use super::*;

    #[test]
    fn page_has_the_policy_and_the_security_headers() {
        let response = page(&Console { page: "<title>Pilothouse</title>", assets: &[] });
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], CONTENT_SECURITY_POLICY);
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        for (name, value) in SECURITY_HEADERS {
            assert_eq!(headers[name], value);
        }
    }

    #[test]
    fn file_is_sent_compressed_with_its_type_and_cache_rule() {
        let response = asset(&Asset { path: "/assets/app-1.js", gzip: b"" });
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
        assert_eq!(headers[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert_eq!(headers[header::CACHE_CONTROL], IMMUTABLE);
    }
}
