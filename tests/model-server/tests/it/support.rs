//! A client that knows only HTTP.

use std::time::Duration;

use pilothouse_model_server::{ModelServer, Script};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

/// Limit of every wait.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn serve(script: Value) -> ModelServer {
    ModelServer::start(Script::from_value(script).unwrap()).await.unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "it is written where it is made")]
pub(crate) fn steps(steps: Value) -> Value {
    json!({ "conversations": [{ "steps": steps }] })
}

/// Waits with a time limit.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

pub(crate) fn messages(server: &ModelServer, body: &Value) -> RequestBuilder {
    let url = format!("{}/v1/messages", server.base_url());
    reqwest::Client::new()
        .post(url)
        .header("x-api-key", "test")
        .header("anthropic-version", "2023-06-01")
        .json(body)
}

pub(crate) fn openai(server: &ModelServer, path: &str, body: &Value) -> RequestBuilder {
    let url = format!("{}/{path}", server.openai_base_url());
    reqwest::Client::new().post(url).bearer_auth("test").json(body)
}

/// The body of a request to Anthropic with these messages.
#[allow(clippy::needless_pass_by_value, reason = "it is written where it is made")]
pub(crate) fn asked(messages: Value) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": messages })
}

pub(crate) fn says(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

/// Returns status and JSON.
pub(crate) async fn send(request: RequestBuilder) -> (u16, Value) {
    let response = soon(request.send()).await.unwrap();
    let status = response.status().as_u16();
    (status, soon(response.json()).await.unwrap())
}

/// Names (empty if there is none) and data.
pub(crate) async fn events(request: RequestBuilder) -> Vec<(String, Value)> {
    let response = soon(request.send()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    parse(&soon(response.text()).await.unwrap())
}

/// Reads a stream to its end or break. Returns the content, and whether it ended normally.
pub(crate) async fn read(mut response: Response) -> (String, bool) {
    let mut text = Vec::new();
    loop {
        match soon(response.chunk()).await {
            Ok(Some(bytes)) => text.extend(bytes),
            Ok(None) => return (String::from_utf8(text).unwrap(), true),
            Err(_) => return (String::from_utf8(text).unwrap(), false),
        }
    }
}

/// Data that is not JSON stays text.
pub(crate) fn parse(text: &str) -> Vec<(String, Value)> {
    let event = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let data = field("data: ");
        let value = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
        (field("event: ").to_owned(), value)
    };
    text.split("\n\n").filter(|block| !block.is_empty()).map(event).collect()
}
