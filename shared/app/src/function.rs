//! The declaration of a function: a constant in its own file, with its name, triggers, schemas, permissions and handler.
//!
//! The routes of the embedded server, the dispatch of Lambda events, the [`openapi`](crate::openapi) document and the
//! `CloudFormation` templates are derived from the list of these constants.

pub mod requirements;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Query, RawPathParams, Request};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use futures_util::future::BoxFuture;
use http::Method;
use pilothouse_api::Violation;
use pilothouse_broker::{MAX_BATCH, MAX_MESSAGE_BYTES, Received};
use pilothouse_domain::AgentSessionId;
use pilothouse_store::ConnectionId;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

pub use self::requirements::Requirements;
use crate::app::App;
use crate::batch::BatchOutcome;
use crate::connections::Connections;
use crate::keyring::VerifiedToken;
use crate::problem::Problem;

/// The maximum size of a sidecar's request body in bytes, except for blobs: a full batch of the largest messages, escaped.
pub const MAX_SIDECAR_BODY_BYTES: usize = 2 * MAX_BATCH * MAX_MESSAGE_BYTES;

pub const PAGE: &[&str] = &["limit", "cursor"];
/// The query parameters of a paged list that can be limited to one subagent.
pub const PAGE_OF_SUB_AGENT: &[&str] = &["limit", "cursor", "subAgentId"];

/// The name of the function that serves a request, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName(pub &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// An owner, with a token.
    Owner,
    /// An agent, with the API key of its session.
    Agent,
    /// A sidecar, with the gateway token of its run.
    Sidecar,
    /// Anyone, without authentication.
    Anyone,
}

/// Unlike [`Method`], it can be used in constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    pub fn route<H: Handler<T, App>, T: 'static>(self, handler: H) -> MethodRouter<App> {
        match self {
            Self::Get => get(handler),
            Self::Post => post(handler),
            Self::Put => put(handler),
            Self::Patch => patch(handler),
            Self::Delete => delete(handler),
        }
    }

    pub const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

pub type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

#[derive(Clone, Copy)]
pub struct HttpFunction {
    /// Also the `operationId` in the OpenAPI document and the name of the Lambda function.
    pub name: &'static str,
    pub verb: Verb,
    /// The path, with parameters in braces.
    pub path: &'static str,
    pub summary: &'static str,
    pub caller: CallerKind,
    /// All other query parameters are refused.
    pub query: &'static [&'static str],
    pub input: Option<SchemaFn>,
    pub statuses: &'static [u16],
    pub output: Option<SchemaFn>,
    pub requirements: Requirements,
    route: fn(Verb) -> MethodRouter<App>,
}

impl HttpFunction {
    /// Declares a function for owners. By default it accepts no query parameters and no body, responds with 200, may read the
    /// table, and may commit changes unless it is a GET.
    pub const fn new(
        name: &'static str,
        verb: Verb,
        path: &'static str,
        route: fn(Verb) -> MethodRouter<App>,
    ) -> Self {
        let requirements = match verb {
            Verb::Get => requirements::QUERY,
            Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => requirements::COMMAND,
        };
        Self {
            name,
            verb,
            path,
            summary: "",
            caller: CallerKind::Owner,
            query: &[],
            input: None,
            statuses: &[200],
            output: None,
            requirements,
            route,
        }
    }

    #[must_use]
    pub const fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    #[must_use]
    pub const fn owner(self) -> Self {
        Self { caller: CallerKind::Owner, ..self }
    }

    #[must_use]
    pub const fn agent(self) -> Self {
        Self { caller: CallerKind::Agent, ..self }
    }

    #[must_use]
    pub const fn sidecar(self) -> Self {
        Self { caller: CallerKind::Sidecar, ..self }
    }

    #[must_use]
    pub const fn anyone(self) -> Self {
        Self { caller: CallerKind::Anyone, ..self }
    }

    #[must_use]
    pub const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    #[must_use]
    pub const fn input<T: JsonSchema>(self) -> Self {
        Self { input: Some(schema_of::<T>), ..self }
    }

    #[must_use]
    pub const fn output<T: JsonSchema>(self, statuses: &'static [u16]) -> Self {
        Self { output: Some(schema_of::<T>), statuses, ..self }
    }

    /// Sets the statuses of responses that have no documented body.
    #[must_use]
    pub const fn statuses(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }

    #[must_use]
    pub const fn requires(self, requirements: Requirements) -> Self {
        Self { requirements, ..self }
    }

    /// The handler with the layers that all functions share.
    pub fn handler(&self) -> MethodRouter<App> {
        let handler = (self.route)(self.verb).layer(Extension(FunctionName(self.name)));
        let handler = match self.caller {
            CallerKind::Sidecar => handler.layer(DefaultBodyLimit::max(MAX_SIDECAR_BODY_BYTES)),
            _ => handler,
        };
        let known = self.query;
        handler.layer(from_fn(move |request, next| refuse_unknown_parameters(known, request, next)))
    }
}

pub fn router_of<'f>(app: App, functions: impl IntoIterator<Item = &'f HttpFunction>) -> Router {
    functions
        .into_iter()
        .fold(Router::new(), |router, function| router.route(function.path, function.handler()))
        .fallback(|| async { Problem::NotFound("there is nothing at this address".to_owned()) })
        .method_not_allowed_fallback(refuse_method)
        .with_state(app)
}

/// Refuses a method that the path does not have. `POST /api/agents/skills/resume` has the path of a skill, but is answered like the
/// resume of an unknown agent.
async fn refuse_method(method: Method, parameters: RawPathParams) -> Problem {
    let is_id = |value: &str| value.parse::<AgentSessionId>().is_ok();
    if method == Method::POST && parameters.iter().any(|(name, value)| name == "id" && !is_id(value)) {
        return Problem::NotFound("there is nothing at this address".to_owned());
    }
    Problem::MethodNotAllowed
}

/// Refuses unknown and duplicate query parameters, so that a misspelt filter does not list everything.
async fn refuse_unknown_parameters(known: &'static [&'static str], request: Request, next: Next) -> Response {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(request.uri()).map(|Query(pairs)| pairs);
    let Ok(pairs) = pairs else { return Problem::invalid("query", "cannot be read").into_response() };
    let mut violations = Vec::new();
    for (at, (name, _)) in pairs.iter().enumerate() {
        let message = if !known.contains(&name.as_str()) {
            match known {
                [] => "is not known; this takes no parameters".to_owned(),
                known => format!("is not known here; known are {}", known.join(", ")),
            }
        } else if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
            "is given twice".to_owned()
        } else {
            continue;
        };
        violations.push(Violation { field: name.chars().take(80).collect(), message });
    }
    if violations.is_empty() { next.run(request).await } else { Problem::Invalid(violations).into_response() }
}

/// A function that a queue, the table's stream, a schedule or a connection triggers.
#[derive(Clone, Copy)]
pub struct EventFunction {
    pub name: &'static str,
    pub subscriptions: &'static [Subscription],
    pub summary: &'static str,
    pub requirements: Requirements,
}

impl EventFunction {
    pub const fn new(
        name: &'static str,
        subscriptions: &'static [Subscription],
        requirements: Requirements,
    ) -> Self {
        Self { name, subscriptions, summary: "", requirements }
    }

    #[must_use]
    pub const fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    pub fn triggers(&self) -> impl Iterator<Item = Trigger> + use<> {
        self.subscriptions.iter().map(|subscription| subscription.trigger)
    }
}

/// A trigger of an [`EventFunction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Messages of a shared queue, by its logical name.
    Queue(&'static str),
    /// New items of the table.
    Stream,
    /// Every minute.
    Schedule,
    /// The connections of the WebSocket API: `$connect`, `$disconnect`, or an action of a message.
    WebSocket(&'static str),
    /// The handshake of a WebSocket connection.
    Authorizer,
    /// Stopped ECS tasks, reported by a rule of `EventBridge`, if ECS runs sidecars.
    TaskStopped,
}

#[derive(Clone, Copy)]
pub struct Subscription {
    pub trigger: Trigger,
    pub handler: EventHandler,
}

#[derive(Clone, Copy)]
pub enum EventHandler {
    /// Processes a batch of messages. The host settles them by the outcome.
    Batch(BatchHandler),
    Schedule(fn(EventContext) -> BoxFuture<'static, Result<(), Problem>>),
    Json(fn(EventContext, Value) -> BoxFuture<'static, Result<(), Problem>>),
    /// Handles a change or a message of a connection.
    Connection(fn(EventContext, ConnectionEvent) -> BoxFuture<'static, Result<(), Problem>>),
    /// The Lambda host processes the events itself, because they have an AWS format: records of the table's stream, and authorizer
    /// requests.
    Host,
}

pub type BatchHandler = fn(EventContext, Vec<Received>) -> BoxFuture<'static, Result<BatchOutcome, Problem>>;

impl Subscription {
    pub const fn queue(queue: &'static str, handler: BatchHandler) -> Self {
        Self { trigger: Trigger::Queue(queue), handler: EventHandler::Batch(handler) }
    }

    /// Subscribes to a schedule that fires every minute.
    pub const fn schedule(handler: fn(EventContext) -> BoxFuture<'static, Result<(), Problem>>) -> Self {
        Self { trigger: Trigger::Schedule, handler: EventHandler::Schedule(handler) }
    }

    pub const fn task_stopped(
        handler: fn(EventContext, Value) -> BoxFuture<'static, Result<(), Problem>>,
    ) -> Self {
        Self { trigger: Trigger::TaskStopped, handler: EventHandler::Json(handler) }
    }

    pub const fn web_socket(
        route: &'static str,
        handler: fn(EventContext, ConnectionEvent) -> BoxFuture<'static, Result<(), Problem>>,
    ) -> Self {
        Self { trigger: Trigger::WebSocket(route), handler: EventHandler::Connection(handler) }
    }

    /// Subscribes to a trigger whose events the Lambda host processes.
    pub const fn of_host(trigger: Trigger) -> Self {
        Self { trigger, handler: EventHandler::Host }
    }
}

#[derive(Clone)]
pub struct EventContext {
    pub app: App,
    pub connections: Option<Arc<dyn Connections>>,
}

impl EventContext {
    /// Fails if the deployment has no WebSocket API.
    pub fn connections(&self) -> Result<&Arc<dyn Connections>, Problem> {
        self.connections.as_ref().ok_or_else(|| Problem::internal("this deployment has no WebSocket API"))
    }
}

/// A change or a message of a connection to the WebSocket API.
#[derive(Debug)]
pub struct ConnectionEvent {
    pub connection: ConnectionId,
    /// The owner that the authorizer identified, and the expiry of the token.
    pub caller: Option<VerifiedToken>,
    /// Empty if the event is not a message.
    pub body: String,
}
