//! Protects the server from pages of other sites, also of those that resolve their own name to this machine (DNS rebinding).

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use hyper::header;
use pilothouse_app::http::Problem;

/// Refuses a request for a foreign host or from a foreign origin. A request with a token in `Authorization` may name any host,
/// because no page of another site has a token.
pub(super) fn check(request: &Request, hosts: &[String]) -> Result<(), Problem> {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // HTTP/2 has the host in the URI.
    let host = request.uri().authority().map(Authority::as_str).or_else(|| text(header::HOST));
    let host = host.unwrap_or_default();
    if !headers.contains_key(header::AUTHORIZATION) && !is_own_host(host, hosts) {
        return Err(Problem::ForeignOrigin(
            "this server does not know the name in the address; use its IP address or localhost, or start it with \
             --console-host and this name",
        ));
    }
    match text(header::ORIGIN) {
        Some(origin) if !is_own_origin(origin, host) => Err(Problem::ForeignOrigin(
            "this request comes from another site; open the console at the address of this server",
        )),
        _ => Ok(()),
    }
}

/// Whether the name is one of this server: an IP address, which no other site can own, `localhost`, or a configured name.
fn is_own_host(host: &str, hosts: &[String]) -> bool {
    let name = name_of(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether the page has the host and port of the request. A reverse proxy may have terminated TLS, so the scheme is not compared.
fn is_own_origin(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let empty = Request::builder().uri("/api/decisions");
        headers.iter().fold(empty, |it, (name, value)| it.header(*name, *value)).body(Body::empty()).unwrap()
    }

    fn is_admitted(headers: &[(&str, &str)]) -> bool {
        check(&request(headers), &["ship.example".to_owned()]).is_ok()
    }

    #[test]
    fn addresses_and_configured_names_are_own_hosts() {
        for own in
            ["127.0.0.1:7433", "[::1]:7433", "192.168.0.7", "localhost:1", "LOCALHOST", "ship.example:80"]
        {
            assert!(is_admitted(&[("host", own)]), "{own}");
        }
        for foreign in
            ["evil.example:7433", "localhost.evil.example", "127.0.0.1.evil.example", "", "ship.example."]
        {
            assert!(!is_admitted(&[("host", foreign)]), "{foreign}");
        }
        assert!(!is_admitted(&[]), "a request without a host");
    }

    #[test]
    fn a_token_allows_any_host_but_no_foreign_origin() {
        let token = ("authorization", "Bearer x");
        assert!(is_admitted(&[("host", "any.example"), token]));
        assert!(!is_admitted(&[("host", "127.0.0.1:1"), token, ("origin", "http://evil.example")]));
    }

    #[test]
    fn origin_must_have_the_host_and_port_of_the_request() {
        let host = ("host", "127.0.0.1:7433");
        for own in ["http://127.0.0.1:7433", "https://127.0.0.1:7433"] {
            assert!(is_admitted(&[host, ("origin", own)]), "{own}");
        }
        for foreign in [
            "null",
            "",
            "http://127.0.0.1:3000",
            "http://127.0.0.1",
            "http://localhost:7433",
            "http://evil.example",
        ] {
            assert!(!is_admitted(&[host, ("origin", foreign)]), "{foreign}");
        }
    }
}
