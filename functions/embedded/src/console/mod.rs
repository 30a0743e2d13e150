//! The web console: its files, its login, and the checks of requests from browsers (decision 86).
//!
//! | module | content |
//! |---|---|
//! | `expiry` | the end of live streams whose login or token expires |
//! | `files` | the page and its files, with their security headers |
//! | `login` | one-time codes, the cookie, and the key that a request must carry besides the cookie |
//! | `logins` | the browsers that are logged in, and the end of a login |
//! | `origin` | which hosts and origins a request may name |
//!
//! A browser sends its cookie with every request to this host, also to its other ports and on behalf of other sites. The cookie
//! alone therefore authenticates nothing: a request must also carry the key that only the console's own page can read. A request
//! with both is forwarded with a token in `Authorization`, so that functions need no support for cookies.

mod expiry;
mod files;
mod login;
mod logins;
mod origin;
#[cfg(test)]
mod recording_peer;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use pilothouse_app::App;
use pilothouse_app::http::peer::{Peer, PeerConnection};
use pilothouse_local_keys::LocalKeys;
use tower::ServiceExt as _;

pub(super) use login::LoginCodes;
use login::Logins;

/// The protocol that the server selects for a live stream of the console.
const PROTOCOL: &str = "pilothouse";
const HEALTH: &str = "/healthz";
const OPENAPI: &str = "/openapi.json";

/// Adds the console to the router of the functions. `hosts`: names under which browsers may reach the server, besides addresses
/// and `localhost`.
pub(super) fn with_console(
    router: Router,
    app: App,
    keys: Arc<LocalKeys>,
    codes: LoginCodes,
    port: u16,
    hosts: Vec<String>,
) -> Router {
    let logins = Logins::new(app, keys, codes, port);
    let console = Arc::new(BrowserGate { own: login::routes(logins.clone()), logins, hosts });
    router.layer(from_fn_with_state(console, admit))
}

struct BrowserGate {
    logins: Logins,
    /// The routes below `/console`.
    own: Router,
    hosts: Vec<String>,
}

async fn admit(State(gate): State<Arc<BrowserGate>>, mut request: Request, next: Next) -> Response {
    // The health check of a load balancer may use any name, and the response contains no data.
    if request.uri().path() == HEALTH {
        return next.run(request).await;
    }
    if let Err(problem) = origin::check(&request, &gate.hosts) {
        return problem.into_response();
    }
    let expiry = match gate.logins.authenticate(&mut request).await {
        Ok(expiry) => expiry,
        Err(problem) => return problem.into_response(),
    };
    if request.uri().path().starts_with("/console/") {
        return gate.own.clone().oneshot(request).await.into_response();
    }
    if let Some(response) = page_or_file(&request) {
        return response;
    }
    let (selects_protocol, stream) = (offers_protocol(request.headers()), stream_of(&request));
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if let (Some(expiry), Some(stream)) = (expiry, stream) {
            expiry.close_at_expiry(&stream);
        }
        if selects_protocol {
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
    }
    response
}

/// The connection of a request that asks for a live stream.
fn stream_of(request: &Request) -> Option<Arc<dyn Peer>> {
    let PeerConnection(peer) = request.extensions().get()?;
    request.headers().contains_key(header::UPGRADE).then(|| Arc::clone(peer))
}

/// The page for a navigation, or a file of the console. `None` for a request to a function.
fn page_or_file(request: &Request) -> Option<Response> {
    let path = request.uri().path();
    let is_function = path.starts_with("/api/") || path.starts_with("/ws/") || path == OPENAPI;
    if !matches!(*request.method(), Method::GET | Method::HEAD) || is_function {
        return None;
    }
    match pilothouse_console::console() {
        Ok(console) => match console.asset(path) {
            Some(asset) => Some(files::asset(asset)),
            None => is_navigation(request.headers()).then(|| files::page(console)),
        },
        Err(reason) => is_navigation(request.headers()).then(|| files::missing(reason)),
    }
}

/// Whether a browser opens the address. Clients of the API do not ask for HTML.
fn is_navigation(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("text/html")))
}

fn offers_protocol(headers: &HeaderMap) -> bool {
    protocols(headers).any(|protocol| protocol == PROTOCOL)
}

/// The protocols that a WebSocket client offers.
fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use pilothouse_console::HTML;

    use super::*;

    fn shown(method: Method, path: &str, accept: &str) -> Option<Response> {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        page_or_file(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn browser_gets_the_page_and_functions_get_their_requests() {
        let navigation = "text/html,application/xml;q=0.9,*/*;q=0.8";
        for path in ["/", "/login", "/sessions/019a0000-0000-7000-8000-000000000000"] {
            let response = shown(Method::GET, path, navigation).unwrap();
            match pilothouse_console::console() {
                Ok(_) => assert_eq!(response.headers()[header::CONTENT_TYPE], HTML, "{path}"),
                Err(_) => assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}"),
            }
            assert!(shown(Method::GET, path, "application/json").is_none(), "{path}");
            assert!(shown(Method::POST, path, navigation).is_none(), "{path}");
        }
        for path in ["/api/settings", "/ws/sessions", OPENAPI] {
            assert!(shown(Method::GET, path, navigation).is_none(), "{path}");
        }
    }

    #[test]
    fn every_file_of_a_built_console_is_served() {
        let Ok(console) = pilothouse_console::console() else { return };
        for file in console.assets {
            let response = shown(Method::GET, file.path, "*/*").unwrap();
            assert_eq!(response.headers()[header::CONTENT_TYPE], file.content_type(), "{}", file.path);
        }
    }
}
