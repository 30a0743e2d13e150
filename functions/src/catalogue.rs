//! The catalogue: every function with its name and what triggers it. The embedded router and the OpenAPI document are
//! made from it; nothing is listed twice.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Query, Request};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api;
use crate::app::App;
use crate::edge::Problem;
use crate::{agent, gateway, messages, openapi, pool, records, requests, sessions, stream};

/// The name of the function that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName(pub &'static str);

/// Who may call a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// An owner, with a token.
    Owner,
    /// An agent, with its session's API key.
    Agent,
    /// A sidecar, with its run's gateway token.
    Sidecar,
    /// Anyone.
    Anyone,
}

/// A JSON Schema, made in the generator of a document.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A function that HTTP triggers.
pub struct HttpFunction {
    /// Its name: also the operation's id, and the name of its Lambda.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Who may call it.
    pub caller: CallerKind,
    /// Parameters of the query string.
    pub query: &'static [&'static str],
    /// The input, when it takes one.
    pub input: Option<SchemaOf>,
    /// The answers that are not refusals.
    pub answers: &'static [u16],
    /// What they carry.
    pub output: Option<SchemaOf>,
    handler: fn() -> MethodRouter<App>,
}

/// A function that a queue, the journal or the clock triggers.
pub struct EventFunction {
    /// Its name.
    pub name: &'static str,
    /// What triggers it.
    pub trigger: Trigger,
    /// What it does, in a line.
    pub summary: &'static str,
}

/// What triggers a function that HTTP does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Messages of a queue.
    Queue(&'static str),
    /// New journal entries.
    Journal,
    /// Time.
    Clock,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn route<H: Handler<T, App>, T: 'static>(method: &Method, handler: H) -> MethodRouter<App> {
    match *method {
        Method::POST => post(handler),
        Method::PUT => put(handler),
        Method::PATCH => patch(handler),
        Method::DELETE => delete(handler),
        _ => get(handler),
    }
}

const PAGE: &[&str] = &["limit", "cursor"];
const PAGE_OF: &[&str] = &["limit", "cursor", "subAgentId"];

macro_rules! functions {
    ($($name:literal $caller:ident $method:ident $path:literal $(? $query:expr;)? $summary:literal,
       $(in $input:ty,)? [$($answer:literal),+] $(-> $output:ty)?, $handler:path;)*) => {
        vec![$(HttpFunction {
            name: $name,
            method: Method::$method,
            path: $path,
            summary: $summary,
            caller: CallerKind::$caller,
            query: functions!(@query $($query)?),
            input: functions!(@schema $($input)?),
            answers: &[$($answer),+],
            output: functions!(@schema $($output)?),
            handler: || route(&Method::$method, $handler),
        }),*]
    };
    (@query) => { &[] };
    (@query $query:expr) => { $query };
    (@schema) => { None };
    (@schema $ty:ty) => { Some(schema::<$ty>) };
}

/// Every function that HTTP triggers.
#[allow(clippy::too_many_lines)] // it is a list
pub fn http_functions() -> Vec<HttpFunction> {
    use api::messages::{ClearedQueue, EnqueuedMessage, QueueView};
    use api::pool::PoolView;
    use api::records::{ActivityView, LogChunkView, MessageView, ToolCallView};
    use api::sessions::{SessionMetricsView, SessionSummary, SessionView, StartedSession};
    functions! {
        "sessions-list" Owner GET "/api/agents/sessions" ? &["limit", "cursor", "status"]; "List sessions, newest first",
            [200] -> api::Page<SessionSummary>, sessions::list::handle;
        "sessions-start" Owner POST "/api/agents/sessions" "Start a session",
            in sessions::start::StartSession, [201, 202] -> StartedSession, sessions::start::handle;
        "sessions-history" Owner GET "/api/agents/sessions/history" ? &["limit", "cursor", "from", "to"]; "Sessions of a range of time",
            [200] -> api::Page<SessionSummary>, sessions::history::handle;
        "sessions-get" Owner GET "/api/agents/sessions/{id}" "A session in full",
            [200] -> SessionView, sessions::get::handle;
        "sessions-interrupt" Owner POST "/api/agents/sessions/{id}/interrupt" "End the turn of a running session",
            in sessions::interrupt::Interrupt, [200, 202] -> SessionView, sessions::interrupt::handle;
        "sessions-pause" Owner POST "/api/agents/sessions/{id}/pause" "Suspend a running session",
            [200, 202] -> SessionView, sessions::pause::handle;
        "sessions-resume" Owner POST "/api/agents/sessions/{id}/resume" "Take up a paused session",
            [200, 202] -> SessionView, sessions::resume::handle;
        "sessions-cancel" Owner POST "/api/agents/sessions/{id}/cancel" "End a session",
            in sessions::cancel::Cancel, [200, 202] -> SessionView, sessions::cancel::handle;
        "sessions-approve" Owner POST "/api/agents/sessions/{id}/approve" "Accept the output of an idle session",
            in sessions::approve::Approve, [200] -> SessionView, sessions::approve::handle;
        "sessions-reject" Owner POST "/api/agents/sessions/{id}/reject" "Refuse the output of an idle session",
            in sessions::reject::Reject, [200] -> SessionView, sessions::reject::handle;
        "sessions-close" Owner POST "/api/agents/sessions/{id}/close" "End an idle session without output",
            [200] -> SessionView, sessions::close::handle;
        "sessions-retry" Owner POST "/api/agents/sessions/{id}/retry" "Try a failed session again",
            in sessions::retry::Retry, [202] -> StartedSession, sessions::retry::handle;
        "sessions-budget" Owner PATCH "/api/agents/sessions/{id}/budget" "Change the cap of a session",
            in sessions::budget::ChangeBudget, [200, 202] -> SessionView, sessions::budget::handle;

        "messages-enqueue" Owner POST "/api/agents/sessions/{id}/messages/queue" "Say something to an agent",
            in messages::enqueue::Enqueue, [201] -> EnqueuedMessage, messages::enqueue::handle;
        "messages-list" Owner GET "/api/agents/sessions/{id}/messages/queue" "What waits to be said, in delivery order",
            [200] -> QueueView, messages::list::handle;
        "messages-clear" Owner DELETE "/api/agents/sessions/{id}/messages/queue" "Take back everything that was not sent",
            [200] -> ClearedQueue, messages::clear::handle;
        "messages-edit" Owner PATCH "/api/agents/sessions/{id}/messages/queue/{messageId}" "Edit or move a pending message",
            in messages::edit::Edit, [200] -> QueueView, messages::edit::handle;
        "messages-cancel" Owner DELETE "/api/agents/sessions/{id}/messages/queue/{messageId}" "Take a pending message back",
            [200] -> QueueView, messages::cancel::handle;
        "messages-promote" Owner PATCH "/api/agents/sessions/{id}/messages/queue/{messageId}/promote" "Make a queued message immediate",
            [200] -> QueueView, messages::promote::handle;
        "messages-release" Owner POST "/api/agents/sessions/{id}/messages/queue/{messageId}/release" "Let a held or uncertain message go out",
            [200] -> QueueView, messages::release::handle;

        "requests-answer" Owner POST "/api/agents/sessions/{id}/answer" "Answer a question of the agent",
            in requests::answer::AnswerRequest, [200] -> SessionView, requests::answer::handle;
        "plan-approve" Owner POST "/api/agents/sessions/{id}/plan/approve" "Let the agent carry out its plan",
            in requests::NamedRequest, [200] -> SessionView, requests::approve_plan::handle;
        "plan-reject" Owner POST "/api/agents/sessions/{id}/plan/reject" "Have the agent revise its plan",
            in requests::reject_plan::RejectPlan, [200] -> SessionView, requests::reject_plan::handle;

        "records-activity" Owner GET "/api/agents/sessions/{id}/activity" ? &["limit", "cursor", "subAgentId", "since"]; "Everything that happened, line by line",
            [200] -> api::Page<ActivityView>, records::activity::handle;
        "records-messages" Owner GET "/api/agents/sessions/{id}/messages" ? PAGE_OF; "The conversation",
            [200] -> api::Page<MessageView>, records::messages::handle;
        "records-tool-calls" Owner GET "/api/agents/sessions/{id}/tool-calls" ? PAGE_OF; "Tool calls with their results",
            [200] -> api::Page<ToolCallView>, records::tool_calls::handle;
        "records-logs" Owner GET "/api/agents/sessions/{id}/logs" ? PAGE; "Log chunks in order",
            [200] -> api::Page<LogChunkView>, records::logs::handle;
        "records-metrics" Owner GET "/api/agents/sessions/{id}/metrics" "What a session used, by model and subagent",
            [200] -> SessionMetricsView, records::metrics::handle;
        "records-task-list" Owner GET "/api/agents/sessions/{id}/task-list" "The agent's own task list",
            [200] -> pilothouse_domain::value::SessionTaskList, records::task_list::handle;
        "records-plan" Owner GET "/api/agents/sessions/{id}/plan" "The agent's plan",
            [200] -> pilothouse_domain::value::SessionPlan, records::plan::handle;
        "records-blob" Owner GET "/api/agents/sessions/{id}/blobs/{sha256}" "The whole of what was cut",
            [200], records::blob::handle;
        "stream-connect" Owner GET "/ws/agents/sessions/{id}/stream" ? &["after"]; "Follow a session live (WebSocket)",
            [101], stream::connect::handle;

        "pool-get" Owner GET "/api/agents/pool" "How full the pool is",
            [200] -> PoolView, pool::get::handle;
        "pool-configure" Owner PATCH "/api/agents/pool" "Change the number of slots",
            in pool::configure::ConfigurePool, [200] -> PoolView, pool::configure::handle;

        "agent-output" Agent POST "/api/agent/sessions/{id}/output" "The agent says what it has produced",
            in agent::output::SubmitOutput, [202], agent::output::handle;
        "agent-log" Agent POST "/api/agent/sessions/{id}/log" "The agent logs a decision",
            in agent::log::LogDecision, [201], agent::log::handle;

        "gateway-send-events" Sidecar POST "/internal/gateway/events" "Put events of a run on the events queue",
            [200], gateway::send_events::handle;
        "gateway-receive-commands" Sidecar POST "/internal/gateway/commands/receive" "Wait for commands to a run",
            [200], gateway::receive_commands::handle;
        "gateway-delete-commands" Sidecar POST "/internal/gateway/commands/delete" "Remove commands that are in the spool",
            [204], gateway::delete_commands::handle;
        "gateway-blobs" Sidecar PUT "/internal/gateway/blobs/{sha256}" "Keep a large body",
            [204], gateway::blobs::handle;

        "openapi" Anyone GET "/openapi.json" "This document", [200], openapi::handle;
        "health" Anyone GET "/healthz" "Whether the server answers", [200], openapi::health;
    }
}

/// Every function that HTTP does not trigger.
pub const EVENT_FUNCTIONS: &[EventFunction] = &[
    EventFunction {
        name: "intake",
        trigger: Trigger::Queue("events.fifo"),
        summary: "Apply raw events in order and once",
    },
    EventFunction {
        name: "relay",
        trigger: Trigger::Journal,
        summary: "Hand journal entries to the reactions",
    },
    EventFunction {
        name: "react",
        trigger: Trigger::Queue("reactions.fifo"),
        summary: "Send commands, launch runs, hand on slots",
    },
    EventFunction { name: "clock", trigger: Trigger::Clock, summary: "Carry out what is due" },
];

/// The router of the embedded server: every function under its path.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for function in http_functions() {
        let handler = (function.handler)().layer(Extension(FunctionName(function.name)));
        let handler = match function.caller {
            CallerKind::Sidecar => handler.layer(DefaultBodyLimit::max(gateway::MAX_BODY_BYTES)),
            _ => handler,
        };
        let known = function.query;
        let handler =
            handler.layer(from_fn(move |request, next| only_known_parameters(known, request, next)));
        router = router.route(function.path, handler);
    }
    router
        .fallback(|| async { Problem::NotFound("there is nothing at this address".to_owned()) })
        .method_not_allowed_fallback(|| async { Problem::MethodNotAllowed })
        .with_state(app)
}

/// Refuses parameters that a function does not know, and those that are there twice: a misspelt filter must not list
/// everything.
async fn only_known_parameters(known: &'static [&'static str], request: Request, next: Next) -> Response {
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
        violations.push(api::Violation { field: name.chars().take(80).collect(), message });
    }
    if violations.is_empty() { next.run(request).await } else { Problem::Invalid(violations).into_response() }
}
