use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
    routing::{get, post},
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Dialect, Exchange, Kind, Request,
    handlers::{Incoming, complete, embed_texts, read, refuse, reply},
    shared::Shared,
};
use crate::{anthropic, chat, prompt::InvalidRequest, tokens};

/// In bytes, as for the providers.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The models to list by default.
const MODELS: [&str; 3] = ["claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5"];

type Server = State<Arc<Shared>>;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count))
        .route("/v1/chat/completions", post(completions))
        .route("/v1/responses", post(respond))
        .route("/v1/embeddings", post(embed))
        .route("/v1beta/models/{method}", post(generate))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(models))
        .route("/", get(StatusCode::OK))
        .route("/_script/open/{gate}", post(open))
        .route("/_script/requests", get(requests))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(shared)
}

async fn messages(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    reply(&state, Dialect::Anthropic, Incoming::new(method, uri, headers, &body)).await
}

async fn completions(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    reply(&state, Dialect::Chat, Incoming::new(method, uri, headers, &body)).await
}

async fn respond(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    reply(&state, Dialect::Responses, Incoming::new(method, uri, headers, &body)).await
}

async fn embed(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    embed_texts(&state, &Incoming::new(method, uri, headers, &body)).await
}

async fn generate(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let incoming = Incoming::new(method, uri, headers, &body);
    if !incoming.uri.path().ends_with(":countTokens") {
        return reply(&state, Dialect::Gemini, incoming).await;
    }
    let exchange = Exchange::begin(&state.records, incoming.record(Dialect::Gemini, Kind::Count));
    complete(exchange, &json!({ "totalTokens": tokens::of_bytes(incoming.bytes) }))
}

async fn count(State(shared): Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let incoming = Incoming::new(method, uri, headers, &body);
    let script = shared.script();
    let mut record = incoming.record(Dialect::Anthropic, Kind::Count);
    let result = read(Dialect::Anthropic, &incoming, &script, true);
    record.refused = result.as_ref().err().map(|refused| refused.message.clone());
    let exchange = Exchange::begin(&shared.records, record);
    match result {
        Ok(prompt) => complete(exchange, &json!({ "input_tokens": tokens::of_bytes(prompt.bytes) })),
        Err(refused) => refuse(exchange, anthropic::error(&refused)),
    }
}

async fn models(State(shared): Server, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let incoming = Incoming::new(method, uri, headers, &Bytes::new());
    let exchange = Exchange::begin(&shared.records, incoming.record(Dialect::None, Kind::Models));
    let script = shared.script();
    let listed = script.models.iter().map(String::as_str);
    let names: Vec<_> = if script.models.is_empty() { MODELS.to_vec() } else { listed.collect() };
    let is_anthropic = !incoming.header("anthropic-version").is_empty();
    let model = |name: &str| {
        if is_anthropic {
            json!({ "type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z" })
        } else {
            json!({ "object": "model", "id": name, "created": 1_735_689_600, "owned_by": "script" })
        }
    };
    if let Some((_, one)) = incoming.uri.path().split_once("/v1/models/") {
        if names.contains(&one) {
            return complete(exchange, &model(one));
        }
        let refused = InvalidRequest { status: 404, message: format!("model: {one}"), param: None };
        let refusal = if is_anthropic { anthropic::error(&refused) } else { chat::error(&refused) };
        return refuse(exchange, refusal);
    }
    let data: Vec<_> = names.iter().map(|name| model(name)).collect();
    let page = json!({
        "object": "list", "data": data, "has_more": false, "first_id": names.first(), "last_id": names.last(),
    });
    complete(exchange, &page)
}

async fn open(State(shared): Server, Path(gate): Path<String>) -> StatusCode {
    shared.gates.open(&gate);
    StatusCode::NO_CONTENT
}

async fn requests(State(shared): Server) -> Json<Value> {
    let described = |request: &Request| {
        json!({
            "kind": format!("{:?}", request.kind), "dialect": format!("{:?}", request.dialect), "path": request.path,
            "conversation": request.conversation, "step": request.step, "status": request.status,
            "outcome": format!("{:?}", request.outcome), "refused": request.refused, "body": request.body,
        })
    };
    Json(shared.records.all().iter().map(described).collect())
}

async fn nothing(
    State(shared): Server,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let record = Incoming::new(method, uri, headers, &body).record(Dialect::None, Kind::Other);
    let exchange = Exchange::begin(&shared.records, record);
    let refused = InvalidRequest { status: 404, message: "Not found".to_owned(), param: None };
    refuse(exchange, anthropic::error(&refused))
}
