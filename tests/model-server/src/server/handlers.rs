//! Answers prompts: checks them, selects a step, and plays the reply or the failure.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Json,
    http::{HeaderMap, Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use serde_json::Value;

use super::{Dialect, Exchange, Kind, Outcome, Request, shared::Shared, stream::StreamPlan};
use crate::{
    anthropic, chat,
    director::Choice,
    embeddings,
    failure::Failure,
    gemini,
    http_response::Refusal,
    prompt::{InvalidRequest, Prompt},
    reply::Reply,
    responses,
    script::{Script, Step},
    side_requests, tokens,
};

/// Default size of the context window, in tokens.
const WINDOW: u64 = 200_000;

pub(super) struct Incoming {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// Null if it is not JSON.
    pub(super) body: Value,
    pub(super) bytes: usize,
}

impl Incoming {
    pub(super) fn new(method: Method, uri: Uri, headers: HeaderMap, body: &Bytes) -> Self {
        Self {
            method,
            uri,
            headers,
            body: serde_json::from_slice(body).unwrap_or_default(),
            bytes: body.len(),
        }
    }

    /// Empty if it is missing.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn record(&self, dialect: Dialect, kind: Kind) -> Request {
        let headers = self.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Request {
            dialect,
            kind,
            method: self.method.to_string(),
            path: self.uri.to_string(),
            headers: headers.collect(),
            body: self.body.clone(),
            conversation: None,
            step: None,
            usage: None,
            status: None,
            outcome: Outcome::Open,
            refused: None,
            received: Instant::now(),
        }
    }
}

pub(super) async fn reply(shared: &Arc<Shared>, dialect: Dialect, incoming: Incoming) -> Response {
    let script = shared.script();
    let mut record = incoming.record(dialect, Kind::Prompt);
    let prompt = match read(dialect, &incoming, &script, false) {
        Ok(prompt) => prompt,
        Err(refused) => {
            record.refused = Some(refused.message.clone());
            return refuse(Exchange::begin(&shared.records, record), error(dialect, &refused));
        }
    };
    if let Some(step) = side_requests::reply(&prompt) {
        record.kind = Kind::Side;
        let choice = Choice { conversation: String::new(), index: None, step, failure: None, cached: 0 };
        return play(shared, dialect, &script, &prompt, choice, record).await;
    }
    let size = tokens::of_bytes(prompt.bytes);
    if let Some(window) = script.context_window.filter(|window| size > *window)
        && let Some(refusal) = failure(dialect, &Failure::Overflow { with_output: false }, size, window)
    {
        return refuse(Exchange::begin(&shared.records, record), refusal);
    }
    let chosen = shared.director.lock().unwrap_or_else(PoisonError::into_inner).choose(&script, &prompt);
    match chosen {
        Ok(choice) => play(shared, dialect, &script, &prompt, choice, record).await,
        Err(why) => {
            record.refused = Some(why.clone());
            refuse(Exchange::begin(&shared.records, record), error(dialect, &InvalidRequest::invalid(why)))
        }
    }
}

/// Answers a request for embeddings.
pub(super) async fn embed_texts(shared: &Arc<Shared>, incoming: &Incoming) -> Response {
    let script = shared.script();
    let mut record = incoming.record(Dialect::Chat, Kind::Embeddings);
    let result = authorized(Dialect::Chat, incoming, &script)
        .and_then(|()| embeddings::reply(&incoming.body, &script.embeddings));
    record.refused = result.as_ref().err().map(|refused| refused.message.clone());
    let exchange = Exchange::begin(&shared.records, record);
    if script.embeddings.fail == Some(Failure::Hang) {
        std::future::pending::<()>().await;
    }
    let failed = script.embeddings.fail.as_ref().and_then(|what| failure(Dialect::Chat, what, 0, WINDOW));
    match (failed, result) {
        (Some(refusal), _) => refuse(exchange, refusal),
        (None, Ok(body)) => complete(exchange, &body),
        (None, Err(refused)) => refuse(exchange, error(Dialect::Chat, &refused)),
    }
}

/// Plays the selected reply or failure.
async fn play(
    shared: &Arc<Shared>,
    dialect: Dialect,
    script: &Script,
    prompt: &Prompt,
    choice: Choice,
    mut record: Request,
) -> Response {
    record.conversation = Some(choice.conversation.clone()).filter(|name| !name.is_empty());
    record.step = choice.index;
    let mut exchange = Exchange::begin(&shared.records, record);
    let Step { wait, wait_inside, delay_ms, pace_ms, .. } = choice.step.clone();
    if choice.failure.is_none() {
        if let Some(gate) = wait {
            shared.gates.pass(&gate).await;
        }
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
    }
    if let Some(what) = &choice.failure {
        match what {
            Failure::Hang => std::future::pending::<()>().await,
            Failure::Garbage => {
                exchange.status(200);
                exchange.end(Outcome::Sent);
                return ([(header::CONTENT_TYPE, "text/html")], "<html>Bad gateway</html>").into_response();
            }
            // Failures within a stream are part of it; others are separate responses.
            Failure::Cut { .. } | Failure::Short { .. } | Failure::ErrorEvent { .. } if prompt.stream => {}
            _ => {
                let size = tokens::of_bytes(prompt.bytes);
                let window = script.context_window.unwrap_or(WINDOW).min(size.saturating_sub(1)).max(1);
                if let Some(refusal) = failure(dialect, what, size, window) {
                    return refuse(exchange, refusal);
                }
            }
        }
    }
    let reply = Reply::new(&choice, script, prompt, &next_id());
    exchange.usage(reply.usage);
    exchange.status(200);
    if !prompt.stream {
        if matches!(choice.failure, Some(Failure::Cut { .. } | Failure::Short { .. })) {
            // Without streaming, half a reply is half of its JSON.
            let text = value(dialect, &reply).to_string();
            exchange.end(Outcome::Failed);
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            return ([(header::CONTENT_TYPE, "application/json")], half).into_response();
        }
        return complete(exchange, &value(dialect, &reply));
    }
    let (events, error) = match dialect {
        Dialect::Anthropic | Dialect::None => (anthropic::events(&reply), anthropic::error_event()),
        Dialect::Chat => (chat::events(&reply), chat::error_event()),
        Dialect::Responses => (responses::events(&reply), responses::error_event()),
        Dialect::Gemini => (gemini::events(&reply), gemini::error_event()),
    };
    let mut plan = StreamPlan::new(events, choice.failure.as_ref(), error);
    plan.wait_inside = wait_inside;
    plan.pace = Duration::from_millis(pace_ms);
    plan.into_response(Arc::clone(&shared.gates), exchange)
}

/// Parses and checks a request. Requests for counting tokens need no output limit.
pub(super) fn read(
    dialect: Dialect,
    incoming: &Incoming,
    script: &Script,
    counts: bool,
) -> Result<Prompt, InvalidRequest> {
    authorized(dialect, incoming, script)?;
    if !incoming.body.is_object() {
        return Err(InvalidRequest::invalid("The request body is not valid JSON"));
    }
    let mut prompt = match dialect {
        Dialect::Anthropic | Dialect::None => {
            if incoming.header("anthropic-version").is_empty() {
                return Err(InvalidRequest::invalid("anthropic-version: header is required"));
            }
            if !counts {
                anthropic::limits(&incoming.body)?;
            }
            let steps = script.conversations.iter().flat_map(|conversation| &conversation.steps);
            let signatures: BTreeSet<_> = steps.filter_map(|step| step.signature.clone()).collect();
            anthropic::read(&incoming.body, incoming.header("anthropic-beta"), &signatures)?
        }
        Dialect::Chat => chat::read(&incoming.body)?,
        Dialect::Responses => responses::read(&incoming.body)?,
        Dialect::Gemini => gemini::read(incoming.uri.path(), &incoming.body)?,
    };
    prompt.bytes = incoming.bytes;
    Ok(prompt)
}

/// Checks the key of a request.
fn authorized(dialect: Dialect, incoming: &Incoming, script: &Script) -> Result<(), InvalidRequest> {
    let bearer = incoming.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    let given = match dialect {
        Dialect::Anthropic if bearer.is_empty() => incoming.header("x-api-key"),
        Dialect::Gemini if bearer.is_empty() => incoming.header("x-goog-api-key"),
        _ => bearer,
    };
    if given.is_empty() || script.key.as_ref().is_some_and(|key| key != given) {
        return Err(InvalidRequest::unauthorized(match dialect {
            Dialect::Anthropic => "invalid x-api-key",
            Dialect::Gemini => "API key not valid. Please pass a valid API key.",
            _ => "Incorrect API key provided.",
        }));
    }
    Ok(())
}

fn error(dialect: Dialect, refused: &InvalidRequest) -> Refusal {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::error(refused),
        Dialect::Chat | Dialect::Responses => chat::error(refused),
        Dialect::Gemini => gemini::error(refused),
    }
}

fn failure(dialect: Dialect, what: &Failure, size: u64, window: u64) -> Option<Refusal> {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::failure(what, size, window),
        Dialect::Chat => chat::failure(what, "messages", size, window),
        Dialect::Responses => chat::failure(what, "input", size, window),
        Dialect::Gemini => gemini::failure(what, window),
    }
}

fn value(dialect: Dialect, reply: &Reply) -> Value {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::complete(reply),
        Dialect::Chat => chat::complete(reply),
        Dialect::Responses => responses::complete(reply),
        Dialect::Gemini => gemini::complete(reply),
    }
}

/// Responds with a complete reply.
pub(super) fn complete(mut exchange: Exchange, body: &Value) -> Response {
    exchange.status(200);
    exchange.end(Outcome::Sent);
    Json(body).into_response()
}

pub(super) fn refuse(mut exchange: Exchange, refusal: Refusal) -> Response {
    exchange.status(refusal.status);
    exchange.end(Outcome::Sent);
    refusal.into_response()
}

/// Unique across server processes, because conversations outlive servers.
fn next_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = jiff::Timestamp::now().as_microsecond();
    format!("{since:x}{:04x}x", COUNT.fetch_add(1, Ordering::Relaxed) & 0xffff)
}
