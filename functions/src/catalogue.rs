//! The catalogue: every function with its name, what triggers it and what it needs. The embedded router, the OpenAPI
//! document, the dispatch of the cloud's artifact and the templates are made from it; nothing is listed twice.
//!
//! An entry of a function that HTTP triggers reads
//!
//! ```text
//! "name" Caller METHOD "/path/{parameter}" ? &["query"]; "What it does" NEEDS,
//!     in Input, [200] -> Output, handler;
//! ```
//!
//! where the query, the input and the output may be missing. `NEEDS` is one of the constants of [`needs`].

pub mod needs;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Query, Request};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

pub use self::needs::Needs;
#[allow(clippy::wildcard_imports)] // the words that the list below is written in
use self::needs::*;
use crate::api;
use crate::app::App;
use crate::edge::Problem;
use crate::{
    agent, chains, gateway, messages, notifications, openapi, operations, pool, records, requests, sessions,
    skills, stream, telling, templates, trace, webhooks, workers,
};

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
    /// What it needs.
    pub needs: Needs,
    handler: fn() -> MethodRouter<App>,
}

/// A function that HTTP does not trigger.
pub struct EventFunction {
    /// Its name.
    pub name: &'static str,
    /// What triggers it.
    pub triggers: &'static [Trigger],
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it needs.
    pub needs: Needs,
}

/// What triggers a function that HTTP does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Messages of a shared queue, by its logical name.
    Queue(&'static str),
    /// What is written to the table, above all new journal entries.
    Stream,
    /// Every minute.
    Schedule,
    /// A message or a change of a connection of the live stream: `$connect`, `$disconnect`, or an action.
    WebSocket(&'static str),
    /// Somebody who wants to open a live stream.
    Authorizer,
    /// Tasks of ECS that have stopped, where ECS runs sidecars: a rule of `EventBridge`.
    TaskStopped,
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
    ($($name:literal $caller:ident $method:ident $path:literal $(? $query:expr;)? $summary:literal $needs:ident,
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
            needs: $needs,
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
    use api::chains::{ChainSummary, ChainView};
    use api::messages::{ClearedQueue, EnqueuedMessage, QueueView};
    use api::operations::{DeadLettersView, RedriveAnswer};
    use api::pool::PoolView;
    use api::records::{
        ActivityView, DeliverablesView, LogChunkView, MessageView, RawEventView, ToolCallView,
    };
    use api::sessions::{SessionMetricsView, SessionSummary, SessionView, StartedSession, SubAgentView};
    use api::skills::{ProposedConsolidation, RecordedPill, SkillSummary, SkillView};
    use api::templates::{EventAnswer, TemplateSummary, TemplateView};
    use api::workers::WorkerView;
    use pilothouse_domain::agent_api::{AgentLearning, AgentTask};
    use pilothouse_domain::announcement::Notification;
    use pilothouse_domain::webhook::{Delivery, Webhook};
    use pilothouse_wire::worker::{
        ClaimAnswer, ClaimRun, Heartbeat, HeartbeatAnswer, ReportExit, TakeOrders, TakenOrders,
    };
    functions! {
        "sessions-list" Owner GET "/api/agents/sessions" ? &["limit", "cursor", "status"]; "List sessions, newest first" QUERY,
            [200] -> api::Page<SessionSummary>, sessions::list::handle;
        "sessions-start" Owner POST "/api/agents/sessions" "Start a session" COMMAND_WITH_KEY,
            in sessions::start::StartSession, [201, 202] -> StartedSession, sessions::start::handle;
        "sessions-history" Owner GET "/api/agents/sessions/history" ? &["limit", "cursor", "dateFrom", "dateTo"]; "Sessions of a range of time" QUERY,
            [200] -> api::Page<SessionSummary>, sessions::history::handle;
        "sessions-get" Owner GET "/api/agents/sessions/{id}" "A session in full" QUERY,
            [200] -> SessionView, sessions::get::handle;
        "sessions-adjust" Owner PATCH "/api/agents/sessions/{id}" "Change the model of a session, or how deeply its agent thinks" COMMAND,
            in sessions::adjust::AdjustSession, [200, 202] -> SessionView, sessions::adjust::handle;
        "sessions-compact" Owner POST "/api/agents/sessions/{id}/compact" "Have the agent summarise its conversation" COMMAND,
            in sessions::compact::Compact, [202] -> SessionView, sessions::compact::handle;
        "sessions-fork" Owner POST "/api/agents/sessions/{id}/fork" "Have the agent go back to before a turn" COMMAND,
            in sessions::fork::Fork, [202] -> SessionView, sessions::fork::handle;
        "sessions-interrupt" Owner POST "/api/agents/sessions/{id}/interrupt" "End the turn of a running session" COMMAND,
            in sessions::interrupt::Interrupt, [200, 202] -> SessionView, sessions::interrupt::handle;
        "sessions-pause" Owner POST "/api/agents/sessions/{id}/pause" "Suspend a running session" COMMAND,
            [200, 202] -> SessionView, sessions::pause::handle;
        "sessions-resume" Owner POST "/api/agents/sessions/{id}/resume" "Take up a paused session" COMMAND,
            [200, 202] -> SessionView, sessions::resume::handle;
        "sessions-cancel" Owner POST "/api/agents/sessions/{id}/cancel" "End a session" COMMAND,
            in sessions::cancel::Cancel, [200, 202] -> SessionView, sessions::cancel::handle;
        "sessions-approve" Owner POST "/api/agents/sessions/{id}/approve" "Accept the output of an idle session" COMMAND,
            in sessions::approve::Approve, [200] -> SessionView, sessions::approve::handle;
        "sessions-reject" Owner POST "/api/agents/sessions/{id}/reject" "Refuse the output of an idle session" COMMAND,
            in sessions::reject::Reject, [200] -> SessionView, sessions::reject::handle;
        "sessions-close" Owner POST "/api/agents/sessions/{id}/close" "End an idle session without output" COMMAND,
            [200] -> SessionView, sessions::close::handle;
        "sessions-retry" Owner POST "/api/agents/sessions/{id}/retry" "Try a failed session again" COMMAND_WITH_KEY,
            in sessions::retry::Retry, [202] -> StartedSession, sessions::retry::handle;
        "sessions-budget" Owner PATCH "/api/agents/sessions/{id}/budget" "Change the cap of a session" COMMAND,
            in sessions::budget::ChangeBudget, [200, 202] -> SessionView, sessions::budget::handle;
        "sessions-enable-skill" Owner POST "/api/agents/sessions/{id}/skills/{skillId}/enable" "Load a skill into a session between turns" COMMAND,
            [200] -> SessionView, sessions::enable_skill::handle;
        "sessions-disable-skill" Owner DELETE "/api/agents/sessions/{id}/skills/{skillId}" "Take a skill out of a session between turns" COMMAND,
            [200] -> SessionView, sessions::disable_skill::handle;
        "sessions-reload" Owner POST "/api/agents/sessions/{id}/reload" "Have the sidecar take the configuration as it is now" COMMAND,
            [200, 202] -> SessionView, sessions::reload::handle;

        "skills-list" Owner GET "/api/agents/skills" ? &["limit", "cursor", "isActive"]; "List skills by name" QUERY,
            [200] -> api::Page<SkillSummary>, skills::list::handle;
        "skills-create" Owner POST "/api/agents/skills" "Create a skill" COMMAND,
            in skills::create::CreateSkill, [201] -> SkillView, skills::create::handle;
        "skills-get" Owner GET "/api/agents/skills/{id}" "A skill in full" QUERY,
            [200] -> SkillView, skills::get::handle;
        "skills-update" Owner PUT "/api/agents/skills/{id}" "Change name, description or instructions of a skill" COMMAND,
            in skills::update::UpdateSkill, [200] -> SkillView, skills::update::handle;
        "skills-activate" Owner POST "/api/agents/skills/{id}/activate" "Let sessions be given a skill again" COMMAND,
            [200] -> SkillView, skills::activate::handle;
        "skills-deactivate" Owner POST "/api/agents/skills/{id}/deactivate" "Have no session be given a skill any more" COMMAND,
            [200] -> SkillView, skills::deactivate::handle;
        "skills-add-tool" Owner POST "/api/agents/skills/{id}/tools" "Add a tool to a skill" COMMAND,
            in skills::definitions::ToolInput, [201] -> SkillView, skills::add_tool::handle;
        "skills-remove-tool" Owner DELETE "/api/agents/skills/{id}/tools/{name}" "Take a tool out of a skill" COMMAND,
            [200] -> SkillView, skills::remove_tool::handle;
        "skills-add-sub-agent" Owner POST "/api/agents/skills/{id}/sub-agents" "Add a subagent to a skill" COMMAND,
            in skills::definitions::SubAgentInput, [201] -> SkillView, skills::add_sub_agent::handle;
        "skills-remove-sub-agent" Owner DELETE "/api/agents/skills/{id}/sub-agents/{name}" "Take a subagent out of a skill" COMMAND,
            [200] -> SkillView, skills::remove_sub_agent::handle;
        "skills-memory-pills" Owner GET "/api/agents/skills/{id}/memory-pills" ? &["limit", "cursor", "status"]; "What agents learned, newest first" QUERY,
            [200] -> api::Page<pilothouse_domain::skill::MemoryPill>, skills::memory_pills::handle;
        "skills-dismiss-pill" Owner DELETE "/api/agents/skills/{id}/memory-pills/{pillId}" "Discard a memory pill" COMMAND,
            [200] -> SkillView, skills::dismiss_pill::handle;
        "skills-consolidate" Owner POST "/api/agents/skills/{id}/consolidate" "Start a session that folds memory pills into the instructions" COMMAND_WITH_KEY,
            in skills::consolidate::Consolidate, [201, 202] -> StartedSession, skills::consolidate::handle;

        "messages-enqueue" Owner POST "/api/agents/sessions/{id}/messages/queue" "Say something to an agent" COMMAND,
            in messages::enqueue::Enqueue, [201] -> EnqueuedMessage, messages::enqueue::handle;
        "messages-list" Owner GET "/api/agents/sessions/{id}/messages/queue" "What waits to be said, in delivery order" QUERY,
            [200] -> QueueView, messages::list::handle;
        "messages-clear" Owner DELETE "/api/agents/sessions/{id}/messages/queue" "Take back everything that was not sent" COMMAND,
            [200] -> ClearedQueue, messages::clear::handle;
        "messages-edit" Owner PATCH "/api/agents/sessions/{id}/messages/queue/{messageId}" "Edit or move a pending message" COMMAND,
            in messages::edit::Edit, [200] -> QueueView, messages::edit::handle;
        "messages-cancel" Owner DELETE "/api/agents/sessions/{id}/messages/queue/{messageId}" "Take a pending message back" COMMAND,
            [200] -> QueueView, messages::cancel::handle;
        "messages-promote" Owner PATCH "/api/agents/sessions/{id}/messages/queue/{messageId}/promote" "Make a queued message immediate" COMMAND,
            [200] -> QueueView, messages::promote::handle;
        "messages-release" Owner POST "/api/agents/sessions/{id}/messages/queue/{messageId}/release" "Let a held or uncertain message go out" COMMAND,
            [200] -> QueueView, messages::release::handle;

        "requests-answer" Owner POST "/api/agents/sessions/{id}/answer" "Answer a question of the agent" COMMAND,
            in requests::answer::AnswerRequest, [200] -> SessionView, requests::answer::handle;
        "plan-approve" Owner POST "/api/agents/sessions/{id}/plan/approve" "Let the agent carry out its plan" COMMAND,
            in requests::NamedRequest, [200] -> SessionView, requests::approve_plan::handle;
        "plan-reject" Owner POST "/api/agents/sessions/{id}/plan/reject" "Have the agent revise its plan" COMMAND,
            in requests::reject_plan::RejectPlan, [200] -> SessionView, requests::reject_plan::handle;

        "records-activity" Owner GET "/api/agents/sessions/{id}/activity" ? &["limit", "cursor", "subAgentId", "since"]; "Everything that happened, line by line" QUERY,
            [200] -> api::Page<ActivityView>, records::activity::handle;
        "records-messages" Owner GET "/api/agents/sessions/{id}/messages" ? PAGE_OF; "The conversation" QUERY,
            [200] -> api::Page<MessageView>, records::messages::handle;
        "records-tool-calls" Owner GET "/api/agents/sessions/{id}/tool-calls" ? PAGE_OF; "Tool calls with their results" QUERY,
            [200] -> api::Page<ToolCallView>, records::tool_calls::handle;
        "records-logs" Owner GET "/api/agents/sessions/{id}/logs" ? PAGE; "Log chunks in order" QUERY,
            [200] -> api::Page<LogChunkView>, records::logs::handle;
        "records-metrics" Owner GET "/api/agents/sessions/{id}/metrics" "What a session used, by model and subagent" QUERY,
            [200] -> SessionMetricsView, records::metrics::handle;
        "records-sub-agents" Owner GET "/api/agents/sessions/{id}/sub-agents" ? PAGE; "The agent's subagents" QUERY,
            [200] -> api::Page<SubAgentView>, records::sub_agents::handle;
        "records-task-list" Owner GET "/api/agents/sessions/{id}/task-list" "The agent's own task list" QUERY,
            [200] -> pilothouse_domain::value::SessionTaskList, records::task_list::handle;
        "records-plan" Owner GET "/api/agents/sessions/{id}/plan" "The agent's plan" QUERY,
            [200] -> pilothouse_domain::value::SessionPlan, records::plan::handle;
        "records-deliverables" Owner GET "/api/agents/sessions/{id}/deliverables" "What the agent is to deliver, and where each stands" QUERY,
            [200] -> DeliverablesView, records::deliverables::handle;
        "records-blob" Owner GET "/api/agents/sessions/{id}/blobs/{sha256}" "The whole of what was cut" BLOB,
            [200, 303], records::blob::handle;
        "records-events" Owner GET "/api/agents/sessions/{id}/events" ? &["limit", "cursor", "from", "run"]; "The raw events of a session, from any sequence" QUERY,
            [200] -> api::Page<RawEventView>, records::events::handle;
        "records-export" Owner GET "/api/agents/sessions/{id}/export" "A session as one document" EXPORT,
            [200, 303] -> api::export::SessionExport, records::export::handle;
        "records-tasks" Owner GET "/api/agents/sessions/{id}/tasks" ? PAGE; "Tasks that the agent created" QUERY,
            [200] -> api::Page<AgentTask>, records::tasks::handle;
        "records-learnings" Owner GET "/api/agents/learnings" ? &["limit", "cursor", "kind", "sessionId"]; "What agents learned about people and communication" QUERY,
            [200] -> api::Page<AgentLearning>, records::learnings::handle;
        "stream-connect" Owner GET "/ws/agents/sessions/{id}/stream" ? &["after"]; "Follow a session live (WebSocket)" EMBEDDED,
            [101], stream::connect::handle;

        "templates-list" Owner GET "/api/agents/templates" ? &["limit", "cursor", "isActive"]; "List templates, newest first" QUERY,
            [200] -> api::Page<TemplateSummary>, templates::list::handle;
        "templates-create" Owner POST "/api/agents/templates" "Create a template" COMMAND,
            in templates::create::CreateTemplate, [201] -> TemplateView, templates::create::handle;
        "templates-get" Owner GET "/api/agents/templates/{id}" "A template in full" QUERY,
            [200] -> TemplateView, templates::get::handle;
        "templates-update" Owner PUT "/api/agents/templates/{id}" "Change fields of a template" COMMAND,
            in templates::update::UpdateTemplate, [200] -> TemplateView, templates::update::handle;
        "templates-add-rule" Owner POST "/api/agents/templates/{id}/rules" "Add a classification rule" COMMAND,
            in templates::input::RuleInput, [201] -> TemplateView, templates::add_rule::handle;
        "templates-remove-rule" Owner DELETE "/api/agents/templates/{id}/rules/{ruleId}" "Remove a classification rule" COMMAND,
            [200] -> TemplateView, templates::remove_rule::handle;
        "templates-add-tool" Owner POST "/api/agents/templates/{id}/tools" "Add an MCP custom tool definition" COMMAND,
            in skills::definitions::ToolInput, [201] -> TemplateView, templates::add_tool::handle;
        "templates-remove-tool" Owner DELETE "/api/agents/templates/{id}/tools/{toolName}" "Remove an MCP custom tool definition" COMMAND,
            [200] -> TemplateView, templates::remove_tool::handle;
        "templates-add-skill" Owner POST "/api/agents/templates/{id}/skills/{skillId}" "Add a skill to a template's defaults" COMMAND,
            [200] -> TemplateView, templates::add_skill::handle;
        "templates-remove-skill" Owner DELETE "/api/agents/templates/{id}/skills/{skillId}" "Remove a skill from a template's defaults" COMMAND,
            [200] -> TemplateView, templates::remove_skill::handle;
        "templates-set-schedule" Owner PUT "/api/agents/templates/{id}/schedule" "Say when a template starts sessions by itself" COMMAND,
            in templates::input::ScheduleInput, [200] -> TemplateView, templates::set_schedule::handle;
        "templates-clear-schedule" Owner DELETE "/api/agents/templates/{id}/schedule" "Have a template start no sessions by itself" COMMAND,
            [200] -> TemplateView, templates::clear_schedule::handle;
        "templates-deactivate" Owner POST "/api/agents/templates/{id}/deactivate" "Start no sessions from a template" COMMAND,
            [200] -> TemplateView, templates::deactivate::handle;
        "templates-activate" Owner POST "/api/agents/templates/{id}/activate" "Start sessions from a template again" COMMAND,
            [200] -> TemplateView, templates::activate::handle;
        "templates-events" Owner POST "/api/agents/templates/{id}/events" "Classify an event, and start a session for it" COMMAND_WITH_KEY,
            in templates::classify::Event, [200, 201, 202] -> EventAnswer, templates::classify::handle;

        "pool-get" Owner GET "/api/agents/pool" "How full the pool is" QUERY,
            [200] -> PoolView, pool::get::handle;
        "pool-configure" Owner PATCH "/api/agents/pool" "Change the number of slots" COMMAND,
            in pool::configure::ConfigurePool, [200] -> PoolView, pool::configure::handle;

        "events-list" Owner GET "/api/events" ? &["limit", "after"]; "What other contexts are told, in order" QUERY,
            [200] -> api::telling::AnnouncementPage, telling::list::handle;
        "notifications-list" Owner GET "/api/notifications" ? &["limit", "cursor", "unread"]; "What you were notified of, newest first" QUERY,
            [200] -> api::Page<Notification>, notifications::list::handle;
        "notifications-read" Owner POST "/api/notifications/{id}/read" "Mark a notification as read" COMMAND,
            [200] -> Notification, notifications::read::handle;
        "notifications-read-all" Owner POST "/api/notifications/read" "Mark all notifications as read" COMMAND,
            [200] -> api::telling::ReadNotifications, notifications::read_all::handle;
        "notifications-stream" Owner GET "/ws/notifications" ? &["after"]; "Notifications as they come (WebSocket)" EMBEDDED,
            [101], notifications::stream::handle;
        "webhooks-list" Owner GET "/api/webhooks" "Your endpoints that are told of events" QUERY,
            [200] -> api::telling::WebhooksView, webhooks::list::handle;
        "webhooks-register" Owner POST "/api/webhooks" "Have an endpoint told of events" COMMAND_WITH_KEY,
            in webhooks::register::RegisterWebhook, [201] -> api::telling::RegisteredWebhook, webhooks::register::handle;
        "webhooks-remove" Owner DELETE "/api/webhooks/{id}" "Forget an endpoint" COMMAND,
            [204], webhooks::remove::handle;
        "webhooks-enable" Owner POST "/api/webhooks/{id}/enable" "Take up an endpoint again that was given up" COMMAND,
            [200] -> Webhook, webhooks::enable::handle;
        "webhooks-deliveries" Owner GET "/api/webhooks/{id}/deliveries" ? PAGE; "What became of telling an endpoint" QUERY,
            [200] -> api::Page<Delivery>, webhooks::deliveries::handle;

        "chains-list" Owner GET "/api/agents/chains" ? &["limit", "cursor", "status"]; "List chains of sessions, newest first" QUERY,
            [200] -> api::Page<ChainSummary>, chains::list::handle;
        "chains-get" Owner GET "/api/agents/chains/{id}" "A chain with its sessions and handoff documents" QUERY,
            [200] -> ChainView, chains::get::handle;
        "chains-complete" Owner POST "/api/agents/chains/{id}/complete" "Say that the work of a chain is done" COMMAND,
            [200] -> ChainView, chains::complete::handle;
        "chains-cancel" Owner POST "/api/agents/chains/{id}/cancel" "End a chain and its sessions" COMMAND,
            [200] -> ChainView, chains::cancel::handle;

        "agent-handoff" Agent POST "/api/agent/sessions/{id}/handoff" "The agent hands its work on to a new session" AGENT,
            in agent::handoff::HandOver, [202], agent::handoff::handle;
        "agent-output" Agent POST "/api/agent/sessions/{id}/output" "The agent says what it has produced" AGENT,
            in agent::output::SubmitOutput, [202], agent::output::handle;
        "agent-log" Agent POST "/api/agent/sessions/{id}/log" "The agent logs a decision" AGENT,
            in agent::log::LogDecision, [201], agent::log::handle;
        "agent-memory-pill" Agent POST "/api/agent/skills/{skillId}/memory-pills" "The agent records what it learned" AGENT,
            in agent::memory_pill::RecordMemoryPill, [201] -> RecordedPill, agent::memory_pill::handle;
        "agent-consolidation" Agent POST "/api/agent/skills/{skillId}/consolidation" "The agent hands in a skill's new instructions" AGENT,
            in agent::consolidation::ProposeConsolidation, [202] -> ProposedConsolidation, agent::consolidation::handle;

        "agent-create-task" Agent POST "/api/agent/tasks" "The agent creates a follow-up task" AGENT,
            in agent::task::CreateTask, [201] -> api::agent::CreatedTask, agent::task::handle;
        "agent-record-learning" Agent POST "/api/agent/learnings" "The agent keeps what it learned about people or communication" AGENT,
            in agent::learning::RecordLearning, [201] -> api::agent::RecordedLearning, agent::learning::handle;

        "gateway-send-events" Sidecar POST "/internal/gateway/events" "Put events of a run on the events queue" EMBEDDED,
            [200], gateway::send_events::handle;
        "gateway-receive-commands" Sidecar POST "/internal/gateway/commands/receive" "Wait for commands to a run" EMBEDDED,
            [200], gateway::receive_commands::handle;
        "gateway-delete-commands" Sidecar POST "/internal/gateway/commands/delete" "Remove commands that are in the spool" EMBEDDED,
            [204], gateway::delete_commands::handle;
        "gateway-blobs" Sidecar PUT "/internal/gateway/blobs/{sha256}" "Keep a large body" EMBEDDED,
            [204], gateway::blobs::handle;
        "gateway-credentials" Sidecar POST "/internal/gateway/credentials" ? &["leftovers"]; "Credentials for the queues of a run" CREDENTIALS,
            [200], gateway::credentials::handle;
        "gateway-launch" Sidecar POST "/internal/gateway/launch" "What a run is launched with" LAUNCH,
            [200], gateway::launch::handle;

        "workers-list" Owner GET "/api/workers" ? PAGE; "Machines that run your sessions" QUERY,
            [200] -> api::Page<WorkerView>, workers::list::handle;
        "workers-heartbeat" Owner PUT "/api/workers/{id}" "A worker registers, and shows that it lives" WORKER,
            in Heartbeat, [200] -> HeartbeatAnswer, workers::heartbeat::handle;
        "workers-remove" Owner DELETE "/api/workers/{id}" "Forget a worker" WORKER_REMOVAL,
            [204], workers::remove::handle;
        "workers-claim" Owner POST "/api/workers/{id}/claims" "A worker claims a run that it was given" CLAIM,
            in ClaimRun, [200] -> ClaimAnswer, workers::claim::handle;
        "workers-exit" Owner POST "/api/workers/{id}/exits" "A worker reports that a run is over" EXIT,
            in ReportExit, [204], workers::exit::handle;
        "workers-orders" Owner POST "/api/workers/{id}/orders" "A worker takes its orders" EMBEDDED,
            in TakeOrders, [200] -> TakenOrders, workers::orders::handle;

        "dead-letters-list" Owner GET "/api/operations/dead-letters" "Messages that nobody could deal with (operators)" DEAD_LETTERS,
            [200] -> DeadLettersView, operations::list_dead_letters::handle;
        "dead-letters-redrive" Owner POST "/api/operations/dead-letters/{queue}/redrive" "Send dead letters again (operators)" DEAD_LETTERS,
            [200] -> RedriveAnswer, operations::redrive_dead_letters::handle;

        "openapi" Anyone GET "/openapi.json" "This document" STATIC, [200], openapi::handle;
        "health" Anyone GET "/healthz" "Whether the server answers" EMBEDDED, [200], openapi::health;
    }
}

/// Every function that HTTP does not trigger.
pub const EVENT_FUNCTIONS: &[EventFunction] = &[
    EventFunction {
        name: "intake",
        triggers: &[Trigger::Queue(EVENTS)],
        summary: "Apply raw events in order and once",
        needs: INTAKE,
    },
    EventFunction {
        name: "relay",
        triggers: &[Trigger::Stream],
        summary: "Hand journal entries to the reactions and the live streams, and what is due to the clock",
        needs: RELAY,
    },
    EventFunction {
        name: "react",
        triggers: &[Trigger::Queue(REACTIONS)],
        summary: "Send commands, launch runs, hand on slots",
        needs: REACT,
    },
    EventFunction {
        name: "announce",
        triggers: &[Trigger::Queue(ANNOUNCEMENTS)],
        summary: "Append what happened to the feeds of owners, and have others told",
        needs: ANNOUNCE,
    },
    EventFunction {
        name: "deliver",
        triggers: &[Trigger::Queue(WEBHOOKS)],
        summary: "Tell webhooks, the bus and the topic",
        needs: DELIVER,
    },
    EventFunction {
        name: "clock",
        triggers: &[Trigger::Queue(DEADLINES), Trigger::Schedule],
        summary: "Carry out what is due",
        needs: CLOCK,
    },
    EventFunction {
        name: "push",
        triggers: &[Trigger::Queue(PUSHES)],
        summary: "Tell the connections of a session what is new in its journal",
        needs: PUSH,
    },
    EventFunction {
        name: "runs-task-stopped",
        triggers: &[Trigger::TaskStopped],
        summary: "Tell the intake that a run is over whose ECS task has stopped",
        needs: TASK_STOPPED,
    },
    EventFunction {
        name: "stream-authorize",
        triggers: &[Trigger::Authorizer],
        summary: "Check the token of who opens a live stream",
        needs: AUTHORIZE,
    },
    EventFunction {
        name: "stream-open",
        triggers: &[Trigger::WebSocket("$connect")],
        summary: "Accept a connection",
        needs: OPEN,
    },
    EventFunction {
        name: "stream-subscribe",
        triggers: &[Trigger::WebSocket("subscribe")],
        summary: "Have a connection follow a session",
        needs: SUBSCRIBE,
    },
    EventFunction {
        name: "stream-closed",
        triggers: &[Trigger::WebSocket("$disconnect")],
        summary: "Forget a connection",
        needs: CLOSED,
    },
];

/// The functions that HTTP triggers in the cloud.
pub fn cloud_functions() -> Vec<HttpFunction> {
    http_functions().into_iter().filter(|function| function.needs.profiles.in_aws()).collect()
}

impl HttpFunction {
    /// The function itself, for any path: what answers where it runs alone.
    pub fn handler(&self) -> MethodRouter<App> {
        let handler = (self.handler)().layer(Extension(FunctionName(self.name)));
        let handler = match self.caller {
            CallerKind::Sidecar => handler.layer(DefaultBodyLimit::max(gateway::MAX_BODY_BYTES)),
            _ => handler,
        };
        let known = self.query;
        handler.layer(from_fn(move |request, next| only_known_parameters(known, request, next)))
    }
}

/// The router of the embedded server: every function that it has under its path.
pub fn router(app: App) -> Router {
    router_of(app, http_functions().iter().filter(|function| function.needs.profiles.embedded()))
        .layer(from_fn(trace::of_request))
}

/// The router of these functions, each under its path: of one that runs alone, say.
pub fn router_of<'f>(app: App, functions: impl IntoIterator<Item = &'f HttpFunction>) -> Router {
    functions
        .into_iter()
        .fold(Router::new(), |router, function| router.route(function.path, function.handler()))
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
