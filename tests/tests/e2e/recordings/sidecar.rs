//! Messages between the control plane, a worker and a real sidecar: launches, signed envelopes, commands.
//!
//! The test acts as the worker. It starts the sidecar of a session behind a proxy, which records all requests of the sidecar.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use hex::encode as hex;
use hmac::{Hmac, KeyInit, Mac};
use pilothouse_tests::{PATIENCE, Reply, programs};
use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::process::Command;

use super::recorder::Recorder;
use super::records::everything;
use crate::scripts::say;

#[derive(Clone)]
struct Exchange {
    method: Method,
    path: String,
    body: String,
    reply: Reply,
}

#[derive(Clone)]
struct Proxy {
    http: reqwest::Client,
    server: String,
    address: String,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Proxy {
    async fn start(server: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let proxy = Self { http, server: server.to_owned(), address, exchanges: Arc::default() };
        let router = Router::new().fallback(pass).with_state(proxy.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        proxy
    }

    fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap().clone()
    }
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let mut sent = proxy.http.request(parts.method.clone(), format!("{}{path}", proxy.server));
    for name in ["authorization", "content-type"] {
        if let Some(value) = parts.headers.get(name) {
            sent = sent.header(name, value);
        }
    }
    let response = sent.body(body.clone()).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let reply = Reply {
        status: status.as_u16(),
        headers,
        body: serde_json::from_str(&text).unwrap_or_default(),
        text: text.clone(),
    };
    let body = String::from_utf8(body.to_vec()).unwrap();
    proxy.exchanges.lock().unwrap().push(Exchange { method: parts.method, path, body, reply });
    (status, [("content-type", "application/json")], text).into_response()
}

/// HMAC-SHA256. The labels in the messages below are part of the wire format.
fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[derive(serde::Deserialize)]
struct Signed {
    signature: String,
    envelope: Box<RawValue>,
}

#[tokio::test]
async fn sidecar() {
    let mut on = Recorder::start("sidecar").await;
    let worker = "/api/workers/recorder";
    let heartbeat = json!({ "labels": { "os": "linux" }, "capacity": 2, "needsAccess": true, "runs": [] });
    on.put(worker, heartbeat).await.expect(200);
    on.put(worker, json!({ "capacity": 0, "colour": "red" })).await.expect(422);
    let mut plays = everything();
    // Too large for the queue, so that it is sent as a blob.
    plays["steps"][0]["turn"]["steps"].as_array_mut().unwrap().push(say(&"All work. ".repeat(20_000)));
    plays["onMessage"] = json!([say("You said: {{message}}")]);
    let script = on.server.work_folder().join("script.json");
    std::fs::write(&script, plays.to_string()).unwrap();
    let mut body = on.work(&Value::Null);
    body["adapterOptions"] = json!({ "scriptFile": script });
    body["labels"] = json!({ "worker/id": "recorder" });
    let session = on.started_with("session", body).await;

    // The launch request is in the worker's queue.
    let orders = format!("{worker}/orders");
    let response = on.post(&orders, json!({ "waitSeconds": 20.0 })).await.expect(200).body;
    let receipt = response["orders"][0]["receipt"].as_str().unwrap().to_owned();
    on.replace(&receipt, "<receipt>");
    let order: Value = serde_json::from_str(response["orders"][0]["body"].as_str().unwrap()).unwrap();
    on.write(&format!("### The order\n\n{}", response["orders"][0]["body"].as_str().unwrap()));
    let run = order["request"]["runId"].as_str().unwrap().to_owned();
    let claim = json!({ "runId": run });
    let claimed = on.post(&format!("{worker}/claims"), claim.clone()).await.expect(200).body;
    on.post(&format!("{worker}/claims"), json!({ "runId": session.id })).await;
    on.post(&orders, json!({ "done": [receipt], "waitSeconds": 0.0 })).await.expect(200);
    on.get("/api/workers").await.expect(200);

    let secret = std::fs::read(on.server.data().join("secret")).unwrap();
    let access = &claimed["access"];
    let token = access["broker"]["token"].as_str().unwrap().to_owned();
    let envelope_key = hmac(&secret, &format!("envelope\0{run}"));
    assert_eq!(access["envelopeKey"], hex(&envelope_key));
    let tag = hex(hmac(&secret, &format!("gateway\0{}\0{run}", session.id)));
    assert_eq!(token, format!("{}.{run}.{tag}", session.id));
    let tag = hex(hmac(&secret, &format!("api\0{}\x000", session.id)));
    assert_eq!(access["agentApi"]["apiKey"], format!("ph_{}.0.{tag}", session.id));

    let proxy = Proxy::start(on.server.url()).await;
    let folder = on.server.data().join("../run");
    let home = on.server.data().join("../home");
    std::fs::create_dir(&folder).unwrap();
    std::fs::create_dir(&home).unwrap();
    // The sidecar uses the proxy, which speaks HTTP/1.1, and sends a heartbeat during the test.
    let mut launch = order["request"].clone();
    launch.as_object_mut().unwrap().extend(access.as_object().unwrap().clone());
    launch["sessionHome"] = json!(home);
    launch["broker"]["url"] = json!(proxy.address);
    launch["broker"]["http2"] = json!(false);
    launch["agentApi"]["url"] = json!(proxy.address);
    launch["heartbeatSeconds"] = json!(0.3);
    std::fs::write(folder.join("launch.json"), launch.to_string()).unwrap();
    let mut sidecar = Command::new(programs::sidecar())
        .arg("run")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("sidecar.log")).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let idle =
        |turns: u64| move |view: &Value| view["status"] == "Idle" && view["metrics"]["turnCount"] == turns;
    session.until("the first turn", idle(1)).await;
    let image = json!({ "mediaType": "image/gif", "base64": "R0lGODlhIGFuZCBzbyBvbg==" });
    session.post("/messages/queue", json!({ "content": "More.", "images": [image] })).await.expect(201);
    session.until("the second turn", idle(2)).await;
    session.patch("", json!({ "modelId": "large" })).await.expect(202);
    session.until("the adjustment", |view| view["adjustments"].as_array().is_none_or(Vec::is_empty)).await;
    session.post("/close", json!({})).await.expect(200);
    let exited = tokio::time::timeout(PATIENCE, sidecar.wait()).await.unwrap().unwrap();
    let exit =
        json!({ "sessionId": session.id, "runId": run, "exit": { "code": exited.code(), "drained": true } });
    on.post(&format!("{worker}/exits"), exit).await.expect(204);
    session.until("the end of the run", |view| view["currentRun"].is_null()).await;
    on.delete(&format!("{worker}?lost=none")).await;
    on.delete(worker).await.expect(204);
    on.get("/api/workers").await.expect(200);

    write_exchanges(&mut on, &proxy, &token);
    write_envelopes(&mut on, &proxy, &envelope_key);
    on.finish();
}

/// Records one exchange of each kind, because the number of exchanges and of envelopes per exchange varies.
fn write_exchanges(on: &mut Recorder, proxy: &Proxy, token: &str) {
    let exchanges = proxy.exchanges();
    let caller = on.sidecar(token);
    let blob = |exchange: &&Exchange| exchange.path.starts_with("/internal/gateway/blobs/");
    let blob = exchanges.iter().find(blob).expect("a large body");
    let bytes = format!("<{} bytes>", blob.body.len());
    on.record(&caller, &blob.method, &blob.path, &[], Some(&bytes), &blob.reply);
    let image = |exchange: &&Exchange| exchange.path.starts_with("/internal/gateway/images/");
    let image = exchanges.iter().find(image).expect("the image of the message");
    on.record(&caller, &image.method, &image.path, &[], None, &image.reply);
    for (path, has) in [
        ("/internal/gateway/commands/receive", "receipt"),
        ("/internal/gateway/commands/delete", "receipt"),
        ("/internal/gateway/events", "deduplicationId"),
    ] {
        let fits = |exchange: &&Exchange| {
            exchange.path == path && (exchange.body.contains(has) || exchange.reply.text.contains(has))
        };
        let mut exchange = exchanges.iter().find(fits).unwrap_or_else(|| panic!("no {path}")).clone();
        // `write_envelopes` records the envelopes and commands.
        let mut body: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        if let Some(entries) = body.get_mut("entries").and_then(Value::as_array_mut) {
            entries.truncate(1);
            entries[0]["body"] = json!("<signed envelope>");
            entries[0]["deduplicationId"] = json!("<message id>:1");
            r#"{"accepted":[0]}"#.clone_into(&mut exchange.reply.text);
            assert!(exchange.reply.body["accepted"][0] == 0);
        }
        if let Some(receipts) = body.get_mut("receipts").and_then(Value::as_array_mut) {
            receipts.truncate(1);
            receipts[0] = json!("<receipt>");
        }
        if let Some(messages) = exchange.reply.body.get_mut("messages").and_then(Value::as_array_mut) {
            messages.truncate(1);
            messages[0]["body"] = json!("<command>");
            exchange.reply.text = exchange.reply.body.to_string();
        }
        let sent = (!body.is_null()).then(|| body.to_string());
        on.record(&caller, &exchange.method, &exchange.path, &[], sent.as_deref(), &exchange.reply);
    }
}

/// Records all events in the order of their sequence numbers, one heartbeat, and all commands, without repetitions.
fn write_envelopes(on: &mut Recorder, proxy: &Proxy, key: &[u8]) {
    let (mut events, mut heartbeats, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for exchange in proxy.exchanges() {
        let sent: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        for entry in sent["entries"].as_array().into_iter().flatten() {
            let text = entry["body"].as_str().unwrap();
            let signed: Signed = serde_json::from_str(text).unwrap();
            let envelope = signed.envelope.get();
            assert_eq!(signed.signature, hex(hmac(key, envelope)), "signed by the key of the run");
            let read: Value = serde_json::from_str(envelope).unwrap();
            let message = read["messageId"].as_str().unwrap();
            let deduplication = entry["deduplicationId"].as_str().unwrap();
            assert!(deduplication.starts_with(&format!("{message}:")), "{deduplication}");
            match read["sequence"].as_u64() {
                Some(sequence) => events.push((sequence, text.to_owned())),
                None => heartbeats.push(text.to_owned()),
            }
        }
        if exchange.path.ends_with("/receive") {
            for message in exchange.reply.body["messages"].as_array().into_iter().flatten() {
                commands.push(message["body"].as_str().unwrap().to_owned());
            }
        }
    }
    events.sort();
    events.dedup_by_key(|(sequence, _)| *sequence);
    commands.dedup();
    on.write("### Events\n");
    for (_, event) in events {
        on.write(&event);
    }
    on.write("### Heartbeat\n");
    on.write(heartbeats.first().expect("a heartbeat"));
    on.write("### Commands\n");
    for command in commands {
        on.write(&command);
    }
}
