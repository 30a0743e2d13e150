//! The refusals that all operations have in common: a missing token, an unknown id, invalid input.

use pilothouse_tests::PATIENCE;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::recorder::{Operation, Recorder};
use crate::scripts::endless;

const NOBODYS: &str = "01900000-0000-7000-8000-00000000ffff";
const UPGRADE: [(&str, &str); 4] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[tokio::test]
async fn refusals() {
    let mut on = Recorder::start("refusals").await;
    let session = on.started("session", &endless()).await;
    session.until_said("Working.").await;
    let (nobody, owner, agent) = (on.nobody(), on.owner(), on.agent(&session));
    for operation in Operation::all().into_iter().filter(|operation| operation.secured) {
        let path: String = operation
            .path
            .split_inclusive('}')
            .map(|part| {
                part.split_once('{').map_or(part.to_owned(), |(before, _)| format!("{before}{NOBODYS}"))
            })
            .collect();
        let of_agents = operation.path.starts_with("/api/agent/");
        // An agent may use its own session; other sessions are not found.
        let known = if of_agents { path.replace(NOBODYS, &session.id) } else { path.clone() };
        let caller = if of_agents { &agent } else { &owner };
        let headers: &[_] = if operation.path.starts_with("/ws/") { &UPGRADE } else { &[] };
        let body = operation.takes_body.then(|| json!({ "nonsense": true }));
        on.send(&nobody, operation.method.clone(), &path, headers, body.clone()).await.expect(401);
        if operation.takes_body {
            on.send(caller, operation.method.clone(), &known, headers, body).await.expect(422);
        } else if path.contains(NOBODYS) {
            on.send(caller, operation.method.clone(), &path, headers, None).await.expect(404);
        } else if operation.method == Method::GET && operation.path.starts_with("/api/") {
            on.send(caller, Method::GET, &format!("{path}?nonsense=1"), headers, None).await;
        }
    }
    on.finish();
}

/// Requests that the HTTP layer refuses before an operation runs.
#[tokio::test]
async fn malformed_requests() {
    let mut on = Recorder::start("malformed-requests").await;
    let owner = on.owner();
    let path = "/api/agents/skills";
    for body in ["", "{", "[]", "null", r#"{"name":1}"#, r#"{"name":"a","name":"b"}"#] {
        let reply = owner.api.send(Method::POST, path, &[], Some(body.as_bytes().to_vec())).await;
        on.record(&owner, &Method::POST, path, &[], Some(body), &reply);
    }
    // The server refuses the request because of its announced length. If the test sent a body, the server might close the connection
    // meanwhile, and the response would be lost.
    let address = on.server.url().trim_start_matches("http://").to_owned();
    let token = on.server.token(pilothouse_local_keys::DEFAULT_OWNER);
    let mut connection = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: 300000\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}") {
        let read = timeout(PATIENCE, connection.read_buf(&mut response)).await.unwrap().unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&response));
    }
    let response = String::from_utf8(response).unwrap();
    let lines: Vec<_> = response.lines().filter(|line| !line.starts_with("date: ")).collect();
    on.write(&format!(
        "## skills-create 413\n\nPOST {path} by owner\n<300,000 bytes>\n\n{}\n",
        lines.join("\n")
    ));
    let good = json!({ "name": "a", "description": "b" });
    for headers in [[("if-match", "x")], [("idempotency-key", "")], [("content-type", "text/plain")]] {
        on.send(&owner, Method::POST, path, &headers, Some(good.clone())).await;
    }
    on.send(&owner, Method::POST, "/healthz", &[], None).await;
    on.send(&owner, Method::GET, "/nowhere", &[], None).await;
    on.send(&owner, Method::DELETE, path, &[], None).await;
    on.finish();
}
