//! The login of the web console, the checks of requests from browsers, and the live list of sessions (decision 86). The tests of the
//! console itself are in `console/tests`.

use std::time::Duration;

use futures_util::StreamExt as _;
use pilothouse_tests::PATIENCE;
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::scripts::{short, with_output};
use crate::server::{Server, started, work};

const ID: &str = "019a0000-0000-7000-8000-000000000000";
const KEY: &str = "x-pilothouse-console";

/// A browser that is logged in.
struct Browser<'a> {
    server: &'a Server,
    http: Client,
    cookie: String,
    key: String,
}

async fn login(server: &Server, http: &Client, code: &str) -> Response {
    let url = format!("{}/console/login", server.url());
    http.post(url).json(&json!({ "code": code, "device": "A phone" })).send().await.unwrap()
}

impl<'a> Browser<'a> {
    async fn open(server: &'a Server) -> Self {
        let http = Client::builder().no_proxy().build().unwrap();
        let code = server.api().post("/console/codes", json!({})).await.expect(200).body;
        let response = login(server, &http, code["code"].as_str().unwrap()).await;
        assert_eq!(response.status(), 200);
        let set = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
        assert!(set.contains("; HttpOnly; SameSite=Strict; Path=/"), "{set}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["ownerId"], "local");
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { server, http, cookie, key: body["key"].as_str().unwrap().to_owned() }
    }

    async fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> (u16, Value) {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(*name, value.parse().unwrap());
        }
        let response =
            self.http.get(format!("{}{path}", self.server.url())).headers(all).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }
}

type LiveStream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Follows the list of sessions, with these headers.
async fn follow(server: &Server, headers: &[(&'static str, &str)]) -> LiveStream {
    let url = format!("{}/ws/sessions", server.url().replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let mut live = connect_async(request).await.unwrap().0;
    assert!(timeout(PATIENCE, live.next()).await.unwrap().unwrap().unwrap().is_text());
    live
}

/// Follows the list of sessions as a browser does.
async fn follow_as_browser(server: &Server, cookie: &str, key: &str) -> LiveStream {
    let protocols = format!("pilothouse, pilothouse.{key}");
    follow(server, &[("cookie", cookie), ("sec-websocket-protocol", &*protocols)]).await
}

async fn until_closed(mut live: LiveStream) {
    while let Some(Ok(_)) = timeout(PATIENCE, live.next()).await.unwrap() {}
}

/// Lets a browser receive notifications.
async fn subscribe(server: &Server, http: &Client, cookie: &str, key: &str, device: &str) {
    let body = json!({
        "endpoint": format!("https://push.example/{device}"), "device": device,
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    });
    let url = format!("{}/api/web-push/subscriptions", server.url());
    let request = http.post(url).header("cookie", cookie).header(KEY, key).json(&body);
    assert_eq!(request.send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn browser_needs_its_cookie_and_its_key() {
    let server = Server::start(1).await;
    let browser = Browser::open(&server).await;
    let (cookie, key) = (("cookie", &*browser.cookie), (KEY, &*browser.key));
    assert_eq!(browser.get("/api/decisions", &[cookie, key]).await.0, 200);
    for headers in [&[cookie][..], &[key], &[cookie, (KEY, "wrong")]] {
        let (status, body) = browser.get("/api/decisions", headers).await;
        assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")), "{headers:?}");
    }
}

/// Programs on other ports of this machine receive the cookie.
#[tokio::test]
async fn cookie_of_the_console_is_no_token() {
    let server = Server::start(1).await;
    let browser = Browser::open(&server).await;
    let (_, value) = browser.cookie.split_once('=').unwrap();
    for token in [value, &browser.key] {
        let bearer = format!("Bearer {token}");
        let (status, body) = browser.get("/api/decisions", &[("authorization", &*bearer)]).await;
        assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")));
    }
}

/// A page of another site sends the cookie, but neither the key nor an own origin.
#[tokio::test]
async fn no_write_is_accepted_from_another_site() {
    let server = Server::start(1).await;
    let browser = Browser::open(&server).await;
    let document = browser.get("/openapi.json", &[]).await.1;
    let (mut writes, mut admitted) = (0, Vec::new());
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().filter(|method| *method != "get") {
            let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else { continue };
            let url = format!("{}{}", server.url(), with_ids(path));
            let request = browser.http.request(method.clone(), url).header("cookie", &browser.cookie);
            let request = request.header("content-type", "application/json").body("{}");
            let forged = request.try_clone().unwrap().send().await.unwrap().status();
            let foreign = request.header(KEY, &browser.key).header("origin", "http://evil.example");
            let foreign = foreign.send().await.unwrap().status();
            writes += 1;
            if (forged.as_u16(), foreign.as_u16()) != (401, 403) {
                admitted.push(format!("{method} {path}: {forged}, {foreign}"));
            }
        }
    }
    assert!(writes > 50, "{writes}");
    assert_eq!(admitted, [""; 0]);
}

/// The path with an id for each of its parameters.
fn with_ids(path: &str) -> String {
    let segment = |part: &str| if part.starts_with('{') { ID.to_owned() } else { part.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn console_code_logs_in_once() {
    let server = Server::start(1).await;
    let http = Client::builder().no_proxy().build().unwrap();
    let code = server.api().post("/console/codes", json!({})).await.expect(200).body;
    let code = code["code"].as_str().unwrap();
    assert_eq!(login(&server, &http, code).await.status(), 200);
    for unusable in [code, "unknown"] {
        let refused = login(&server, &http, unusable).await;
        assert_eq!(refused.status(), 401);
        assert!(!refused.headers().contains_key(header::SET_COOKIE));
    }
    server.api_with(None).post("/console/codes", json!({})).await.refused(401, "unauthenticated");
}

/// The browser of a lost phone is logged out by its owner: its requests are refused, and what it follows live ends.
#[tokio::test]
async fn removed_login_is_refused_and_its_streams_end() {
    let mut server = Server::start(1).await;
    let (lost, kept) = {
        let (lost, kept) = (Browser::open(&server).await, Browser::open(&server).await);
        ((lost.cookie, lost.key), (kept.cookie, kept.key))
    };
    assert_ne!(lost.0, kept.0);
    // Logins outlive the server.
    server.restart().await;
    let http = Client::builder().no_proxy().build().unwrap();
    let get = async |(cookie, key): &(String, String), path: &str| {
        let request = http.get(format!("{}{path}", server.url())).header("cookie", cookie).header(KEY, key);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap_or_default())
    };
    let own = get(&lost, "/console/session").await.1["loginId"].clone();
    let listed = get(&kept, "/console/logins").await.1;
    let listed = listed["items"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    let phone = listed.iter().find(|login| login["id"] == own).unwrap();
    assert_eq!(phone["device"], "A phone");
    let of_lost = follow_as_browser(&server, &lost.0, &lost.1).await;
    let mut of_kept = follow_as_browser(&server, &kept.0, &kept.1).await;

    // Both receive notifications, and the lost one could pair another browser.
    for ((cookie, key), device) in [(&lost, "lost"), (&kept, "kept")] {
        subscribe(&server, &http, cookie, key, device).await;
    }
    let request = http.post(format!("{}/console/codes", server.url())).header("cookie", &lost.0);
    let code: Value = request.header(KEY, &lost.1).send().await.unwrap().json().await.unwrap();

    let path = format!("/console/logins/{}", own.as_str().unwrap());
    server.api_of("someone-else").delete(&path).await.refused(404, "not-found");
    assert_eq!(
        server.api_of("someone-else").get("/console/logins").await.expect(200).body["items"],
        json!([])
    );
    server.api().delete(&path).await.expect(204);
    server.api().delete(&path).await.refused(404, "not-found");
    server.api().delete("/console/logins/nonsense").await.refused(404, "not-found");
    assert_eq!(get(&lost, "/api/decisions").await.0, 401);
    assert_eq!(get(&kept, "/api/decisions").await.0, 200);
    until_closed(of_lost).await;
    assert_eq!(login(&server, &http, code["code"].as_str().unwrap()).await.status(), 401);
    let notified = get(&kept, "/api/web-push/subscriptions").await.1;
    let notified: Vec<_> = notified["items"].as_array().unwrap().iter().map(|one| &one["device"]).collect();
    assert_eq!(notified, ["kept"]);
    // The other browser still follows.
    let session = started(&server, &short()).await;
    loop {
        let message = timeout(PATIENCE, of_kept.next()).await.unwrap().unwrap().unwrap();
        if message.to_text().is_ok_and(|text| text.contains(&session.id)) {
            break;
        }
    }
}

/// An owner has at most 50 logins. A further one ends the login that was not seen for the longest time.
#[tokio::test]
async fn login_that_makes_room_for_another_ends_at_once() {
    let server = Server::start(1).await;
    let first = Browser::open(&server).await;
    let live = follow_as_browser(&server, &first.cookie, &first.key).await;
    subscribe(&server, &first.http, &first.cookie, &first.key, "first").await;
    for _ in 0..50 {
        Browser::open(&server).await;
    }
    until_closed(live).await;
    let own = [("cookie", &*first.cookie), (KEY, &*first.key)];
    assert_eq!(first.get("/api/decisions", &own).await.0, 401);
    let notified = server.api().get("/api/web-push/subscriptions").await.expect(200).body;
    assert_eq!(notified["items"], json!([]));
    let known = server.api().get("/console/logins").await.expect(200).body;
    assert_eq!(known["items"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn stream_ends_when_its_login_or_token_expires() {
    let server = Server::start_with(1, &[]).await;
    let browser = Browser::open(&server).await;
    let of_browser = follow_as_browser(&server, &browser.cookie, &browser.key).await;
    let token = server.keys().mint(&server.owner("local"), Duration::from_secs(1)).unwrap();
    let of_token = follow(&server, &[("authorization", &*format!("Bearer {token}"))]).await;
    until_closed(of_token).await;
    let own = [("cookie", &*browser.cookie), (KEY, &*browser.key)];
    assert_eq!(browser.get("/api/decisions", &own).await.0, 200);
    server.set_clock_offset(7 * 24 * 60 * 60 * 1000);
    until_closed(of_browser).await;
    assert_eq!(browser.get("/api/decisions", &own).await.0, 401);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let server = Server::start(1).await;
    let browser = Browser::open(&server).await;
    let login = [("cookie", &*browser.cookie), (KEY, &*browser.key)];
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for foreign in [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "null")] {
        for (path, more) in [("/api/decisions", &[][..]), ("/ws/decisions", &upgrade), ("/", &[])] {
            let headers = [&login[..], &[foreign], more].concat();
            let (status, body) = browser.get(path, &headers).await;
            assert_eq!((status, &body["code"]), (403, &json!("foreign-origin")), "{path} {foreign:?}");
        }
    }
    let own = [&login[..], &[("origin", server.url())]].concat();
    assert_eq!(browser.get("/api/decisions", &own).await.0, 200);
}

#[tokio::test]
async fn browser_receives_the_openapi_document() {
    let server = Server::start(1).await;
    let browser = Browser::open(&server).await;
    let (status, document) = browser.get("/openapi.json", &[("accept", "text/html")]).await;
    assert_eq!(status, 200);
    assert!(document["paths"].is_object(), "{document}");
}

#[tokio::test]
async fn health_check_may_use_any_host_name() {
    let server = Server::start(1).await;
    let http = Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let request = http.get(format!("{}{path}", server.url())).header("host", "balancer.example");
        request.send().await.unwrap().status()
    };
    assert_eq!(get("/healthz").await, 200);
    for checked in ["/healthz/", "/healthz/x", "/", "/api/decisions"] {
        assert_eq!(get(checked).await, 403, "{checked}");
    }
}

/// The stream sends new sessions and their changes, and no sessions of other owners.
#[tokio::test]
async fn list_of_sessions_is_followed_live() {
    let server = Server::start(1).await;
    let open = async |owner: &str| {
        let url = format!("{}/ws/sessions", server.url().replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        let token = format!("Bearer {}", server.token(owner));
        request.headers_mut().insert("authorization", token.parse().unwrap());
        connect_async(request).await.unwrap().0
    };
    let (mut live, mut other) = (open("local").await, open("someone-else").await);
    let mut next = async || loop {
        let message = timeout(PATIENCE, live.next()).await.unwrap().unwrap().unwrap();
        if let Ok(text) = message.to_text()
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            return value;
        }
    };
    let pool = |active: u64| json!({ "type": "pool", "data": { "activeCount": active, "maxCount": 20 } });
    assert_eq!(next().await, json!({ "type": "caught_up", "data": {} }));
    assert_eq!(next().await, pool(0));
    let session = started(&server, &with_output()).await;
    assert_eq!(next().await, pool(1));
    loop {
        let message = next().await;
        assert_eq!((&message["type"], &message["data"]["id"]), (&json!("session"), &json!(session.id)));
        if message["data"]["hasPendingReview"] == true {
            break;
        }
    }
    let output = json!({ "outputId": session.view().await["output"]["outputId"] });
    session.post("/approve", output).await.expect(200);
    while next().await != pool(0) {}
    let caught_up = timeout(PATIENCE, other.next()).await.unwrap().unwrap().unwrap();
    assert!(caught_up.to_text().unwrap().contains("caught_up"));
    // The other stream shows the session of its owner first.
    let own = server.api_of("someone-else");
    let theirs = own.post("/api/agents/sessions", work(&server, &short())).await.expect(201).body;
    for active in 0..2 {
        let counts = timeout(PATIENCE, other.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(counts.to_text().unwrap()).unwrap(), pool(active));
    }
    let first = timeout(PATIENCE, other.next()).await.unwrap().unwrap().unwrap();
    let first: Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
    assert_eq!(first["data"]["id"], theirs["session"]["id"]);
}
