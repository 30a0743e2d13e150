//! The paths of the server.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Dialect, Exchange, Gates, Kind, Outcome, Request, record::Records};
use crate::{
    answer::Answer,
    anthropic, chat,
    director::{Choice, Director},
    failure::Failure,
    prompt::{Prompt, Refused},
    reply::{Course, Refusal},
    responses,
    script::{Script, Step},
    side, tokens,
};

/// The largest body: what providers take at most.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// The context window, where the script says nothing.
const WINDOW: u64 = 200_000;
/// The models that are listed, where the script says nothing.
const MODELS: [&str; 3] = ["claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5"];

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    /// What is said.
    pub(super) script: Mutex<Arc<Script>>,
    /// What was said already.
    pub(super) director: Mutex<Director>,
    /// Where answers wait.
    pub(super) gates: Arc<Gates>,
    /// What came.
    pub(super) records: Arc<Records>,
}

impl Shared {
    fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Server = State<Arc<Shared>>;

/// All paths.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count))
        .route("/v1/chat/completions", post(completions))
        .route("/v1/responses", post(respond))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(models))
        .route("/", get(StatusCode::OK))
        .route("/_script/open/{gate}", post(open))
        .route("/_script/requests", get(requests))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(shared)
}

/// A request before it is understood.
struct Incoming {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Value,
    bytes: usize,
}

impl Incoming {
    fn new(method: Method, uri: Uri, headers: HeaderMap, body: &Bytes) -> Self {
        Self {
            method,
            uri,
            headers,
            body: serde_json::from_slice(body).unwrap_or_default(),
            bytes: body.len(),
        }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn record(&self, dialect: Dialect, kind: Kind) -> Request {
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
            status: None,
            outcome: Outcome::Open,
            refused: None,
            received: Instant::now(),
        }
    }
}

async fn messages(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&state, Dialect::Anthropic, Incoming::new(method, uri, headers, &body)).await
}

async fn completions(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&state, Dialect::Chat, Incoming::new(method, uri, headers, &body)).await
}

async fn respond(state: Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&state, Dialect::Responses, Incoming::new(method, uri, headers, &body)).await
}

async fn count(State(shared): Server, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let incoming = Incoming::new(method, uri, headers, &body);
    let script = shared.script();
    let mut record = incoming.record(Dialect::Anthropic, Kind::Count);
    let result = read(Dialect::Anthropic, &incoming, &script, true);
    record.refused = result.as_ref().err().map(|refused| refused.message.clone());
    let exchange = Exchange::begin(&shared.records, record);
    match result {
        Ok(prompt) => whole(exchange, &json!({ "input_tokens": tokens::of_bytes(prompt.bytes) })),
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
    let told = |name: &str| {
        if is_anthropic {
            json!({ "type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z" })
        } else {
            json!({ "object": "model", "id": name, "created": 1_735_689_600, "owned_by": "script" })
        }
    };
    if let Some((_, one)) = incoming.uri.path().split_once("/v1/models/") {
        if names.contains(&one) {
            return whole(exchange, &told(one));
        }
        let refused = Refused { status: 404, message: format!("model: {one}"), param: None };
        let refusal = if is_anthropic { anthropic::error(&refused) } else { chat::error(&refused) };
        return refuse(exchange, refusal);
    }
    let data: Vec<_> = names.iter().map(|name| told(name)).collect();
    let page = json!({
        "object": "list", "data": data, "has_more": false, "first_id": names.first(), "last_id": names.last(),
    });
    whole(exchange, &page)
}

async fn open(State(shared): Server, Path(gate): Path<String>) -> StatusCode {
    shared.gates.open(&gate);
    StatusCode::NO_CONTENT
}

async fn requests(State(shared): Server) -> Json<Value> {
    let told = |request: &Request| {
        json!({
            "kind": format!("{:?}", request.kind), "dialect": format!("{:?}", request.dialect), "path": request.path,
            "conversation": request.conversation, "step": request.step, "status": request.status,
            "outcome": format!("{:?}", request.outcome), "refused": request.refused, "body": request.body,
        })
    };
    Json(shared.records.all().iter().map(told).collect())
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
    let refused = Refused { status: 404, message: "Not found".to_owned(), param: None };
    refuse(exchange, anthropic::error(&refused))
}

/// Answers a prompt.
async fn answer(shared: &Arc<Shared>, dialect: Dialect, incoming: Incoming) -> Response {
    let script = shared.script();
    let mut record = incoming.record(dialect, Kind::Prompt);
    let prompt = match read(dialect, &incoming, &script, false) {
        Ok(prompt) => prompt,
        Err(refused) => {
            record.refused = Some(refused.message.clone());
            return refuse(Exchange::begin(&shared.records, record), error(dialect, &refused));
        }
    };
    if let Some(step) = side::answer(&prompt) {
        record.kind = Kind::Side;
        let choice = Choice { conversation: String::new(), index: None, step, failure: None, cached: 0 };
        return say(shared, dialect, &script, &prompt, choice, record).await;
    }
    let size = tokens::of_bytes(prompt.bytes);
    if let Some(window) = script.context_window.filter(|window| size > *window)
        && let Some(refusal) = failure(dialect, &Failure::Overflow { with_output: false }, size, window)
    {
        return refuse(Exchange::begin(&shared.records, record), refusal);
    }
    let chosen = shared.director.lock().unwrap_or_else(PoisonError::into_inner).choose(&script, &prompt);
    match chosen {
        Ok(choice) => say(shared, dialect, &script, &prompt, choice, record).await,
        Err(why) => {
            record.refused = Some(why.clone());
            refuse(Exchange::begin(&shared.records, record), error(dialect, &Refused::invalid(why)))
        }
    }
}

/// Says what was chosen, or fails as it was chosen.
async fn say(
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
            // Inside of a stream it is part of its course; the rest are answers of their own.
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
    let answer = Answer::new(&choice, script, prompt, &next_id());
    exchange.status(200);
    if !prompt.stream {
        if matches!(choice.failure, Some(Failure::Cut { .. } | Failure::Short { .. })) {
            // Without a stream, half of an answer is half of its JSON.
            let text = value(dialect, &answer).to_string();
            exchange.end(Outcome::Failed);
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            return ([(header::CONTENT_TYPE, "application/json")], half).into_response();
        }
        return whole(exchange, &value(dialect, &answer));
    }
    let (events, error) = match dialect {
        Dialect::Anthropic | Dialect::None => (anthropic::events(&answer), anthropic::error_event()),
        Dialect::Chat => (chat::events(&answer), chat::error_event()),
        Dialect::Responses => (responses::events(&answer), responses::error_event()),
    };
    let mut course = Course::new(events, choice.failure.as_ref(), error);
    course.wait_inside = wait_inside;
    course.pace = Duration::from_millis(pace_ms);
    course.into_response(Arc::clone(&shared.gates), exchange)
}

/// Reads and checks a request. Counting tokens needs no limit of the output.
fn read(dialect: Dialect, incoming: &Incoming, script: &Script, counts: bool) -> Result<Prompt, Refused> {
    let bearer = incoming.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    let given = match dialect {
        Dialect::Anthropic if bearer.is_empty() => incoming.header("x-api-key"),
        _ => bearer,
    };
    if given.is_empty() || script.key.as_ref().is_some_and(|key| key != given) {
        return Err(Refused::unauthorized(match dialect {
            Dialect::Anthropic => "invalid x-api-key",
            _ => "Incorrect API key provided.",
        }));
    }
    if !incoming.body.is_object() {
        return Err(Refused::invalid("The request body is not valid JSON"));
    }
    let mut prompt = match dialect {
        Dialect::Anthropic | Dialect::None => {
            if incoming.header("anthropic-version").is_empty() {
                return Err(Refused::invalid("anthropic-version: header is required"));
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
    };
    prompt.bytes = incoming.bytes;
    Ok(prompt)
}

fn error(dialect: Dialect, refused: &Refused) -> Refusal {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::error(refused),
        Dialect::Chat | Dialect::Responses => chat::error(refused),
    }
}

fn failure(dialect: Dialect, what: &Failure, size: u64, window: u64) -> Option<Refusal> {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::failure(what, size, window),
        Dialect::Chat => chat::failure(what, "messages", size, window),
        Dialect::Responses => chat::failure(what, "input", size, window),
    }
}

fn value(dialect: Dialect, answer: &Answer) -> Value {
    match dialect {
        Dialect::Anthropic | Dialect::None => anthropic::whole(answer),
        Dialect::Chat => chat::whole(answer),
        Dialect::Responses => responses::whole(answer),
    }
}

fn whole(mut exchange: Exchange, body: &Value) -> Response {
    exchange.status(200);
    exchange.end(Outcome::Sent);
    Json(body).into_response()
}

fn refuse(mut exchange: Exchange, refusal: Refusal) -> Response {
    exchange.status(refusal.status);
    exchange.end(Outcome::Sent);
    refusal.into_response()
}

/// Different from all others, of servers before this one too: conversations outlive servers.
fn next_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = jiff::Timestamp::now().as_microsecond();
    format!("{since:x}{:04x}x", COUNT.fetch_add(1, Ordering::Relaxed) & 0xffff)
}
