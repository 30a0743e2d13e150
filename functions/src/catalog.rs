//! Lists all functions. The routes of the embedded server, the dispatch of Lambda events, the OpenAPI document and
//! the infrastructure templates are generated from these lists.

pub mod openapi;

use axum::Router;
use axum::middleware::from_fn;
use pilothouse_app::function::{EventFunction, HttpFunction, router_of};
use pilothouse_app::{App, trace};

use crate::{agent_api, commands, events, queries, reactions, realtime, sidecar_api, worker_api};

/// The functions that HTTP requests trigger.
pub const HTTP_FUNCTIONS: &[&HttpFunction] = &[
    &queries::sessions::list::FUNCTION,
    &commands::sessions::start::FUNCTION,
    &queries::sessions::history::FUNCTION,
    &queries::sessions::get::FUNCTION,
    &commands::sessions::adjust::FUNCTION,
    &commands::sessions::compact::FUNCTION,
    &commands::sessions::fork::FUNCTION,
    &commands::sessions::interrupt::FUNCTION,
    &commands::sessions::pause::FUNCTION,
    &commands::sessions::resume::FUNCTION,
    &commands::sessions::cancel::FUNCTION,
    &commands::sessions::approve::FUNCTION,
    &commands::sessions::reject::FUNCTION,
    &commands::sessions::close::FUNCTION,
    &commands::sessions::retry::FUNCTION,
    &commands::sessions::budget::FUNCTION,
    &commands::sessions::enable_skill::FUNCTION,
    &commands::sessions::disable_skill::FUNCTION,
    &commands::sessions::reload::FUNCTION,
    &queries::skills::list::FUNCTION,
    &commands::skills::create::FUNCTION,
    &queries::skills::get::FUNCTION,
    &commands::skills::update::FUNCTION,
    &commands::skills::activate::FUNCTION,
    &commands::skills::deactivate::FUNCTION,
    &commands::skills::add_tool::FUNCTION,
    &commands::skills::remove_tool::FUNCTION,
    &commands::skills::add_sub_agent::FUNCTION,
    &commands::skills::remove_sub_agent::FUNCTION,
    &queries::skills::memory_pills::FUNCTION,
    &commands::skills::dismiss_pill::FUNCTION,
    &commands::skills::consolidate::FUNCTION,
    &commands::messages::enqueue::FUNCTION,
    &queries::messages::list::FUNCTION,
    &commands::messages::clear::FUNCTION,
    &commands::messages::edit::FUNCTION,
    &commands::messages::cancel::FUNCTION,
    &commands::messages::promote::FUNCTION,
    &commands::messages::release::FUNCTION,
    &commands::requests::answer::FUNCTION,
    &commands::requests::approve_plan::FUNCTION,
    &commands::requests::reject_plan::FUNCTION,
    &queries::records::activity::FUNCTION,
    &queries::records::messages::FUNCTION,
    &queries::records::tool_calls::FUNCTION,
    &queries::records::logs::FUNCTION,
    &queries::records::metrics::FUNCTION,
    &queries::records::sub_agents::FUNCTION,
    &queries::records::task_list::FUNCTION,
    &queries::records::plan::FUNCTION,
    &queries::records::deliverables::FUNCTION,
    &queries::records::blob::FUNCTION,
    &queries::records::events::FUNCTION,
    &queries::records::export::FUNCTION,
    &queries::records::tasks::FUNCTION,
    &queries::records::learnings::FUNCTION,
    &realtime::connect::FUNCTION,
    &queries::templates::list::FUNCTION,
    &commands::templates::create::FUNCTION,
    &queries::templates::get::FUNCTION,
    &commands::templates::update::FUNCTION,
    &commands::templates::add_rule::FUNCTION,
    &commands::templates::remove_rule::FUNCTION,
    &commands::templates::add_tool::FUNCTION,
    &commands::templates::remove_tool::FUNCTION,
    &commands::templates::add_skill::FUNCTION,
    &commands::templates::remove_skill::FUNCTION,
    &commands::templates::set_schedule::FUNCTION,
    &commands::templates::clear_schedule::FUNCTION,
    &commands::templates::deactivate::FUNCTION,
    &commands::templates::activate::FUNCTION,
    &commands::templates::classify::FUNCTION,
    &queries::pool::get::FUNCTION,
    &commands::pool::configure::FUNCTION,
    &queries::event_feed::list::FUNCTION,
    &queries::notifications::list::FUNCTION,
    &commands::notifications::read::FUNCTION,
    &commands::notifications::read_all::FUNCTION,
    &realtime::notifications::FUNCTION,
    &queries::webhooks::list::FUNCTION,
    &commands::webhooks::register::FUNCTION,
    &commands::webhooks::remove::FUNCTION,
    &commands::webhooks::enable::FUNCTION,
    &queries::webhooks::deliveries::FUNCTION,
    &queries::chains::list::FUNCTION,
    &queries::chains::get::FUNCTION,
    &commands::chains::complete::FUNCTION,
    &commands::chains::cancel::FUNCTION,
    &agent_api::handoff::FUNCTION,
    &agent_api::output::FUNCTION,
    &agent_api::log::FUNCTION,
    &agent_api::memory_pill::FUNCTION,
    &agent_api::consolidation::FUNCTION,
    &agent_api::task::FUNCTION,
    &agent_api::learning::FUNCTION,
    &sidecar_api::send_events::FUNCTION,
    &sidecar_api::receive_commands::FUNCTION,
    &sidecar_api::delete_commands::FUNCTION,
    &sidecar_api::blobs::FUNCTION,
    &sidecar_api::credentials::FUNCTION,
    &sidecar_api::launch::FUNCTION,
    &queries::workers::list::FUNCTION,
    &worker_api::heartbeat::FUNCTION,
    &commands::workers::remove::FUNCTION,
    &worker_api::claim::FUNCTION,
    &worker_api::exit::FUNCTION,
    &worker_api::orders::FUNCTION,
    &queries::operations::list_dead_letters::FUNCTION,
    &commands::operations::redrive_dead_letters::FUNCTION,
    &openapi::FUNCTION,
    &queries::health::FUNCTION,
];

/// The functions that queues, the table's stream, schedules or WebSocket connections trigger.
pub const EVENT_FUNCTIONS: &[EventFunction] = &[
    events::intake::FUNCTION,
    events::relay::FUNCTION,
    reactions::FUNCTION,
    events::event_feed::FUNCTION,
    events::webhook_delivery::FUNCTION,
    events::clock::FUNCTION,
    realtime::push::FUNCTION,
    events::task_stopped::FUNCTION,
    realtime::authorize::FUNCTION,
    realtime::open::FUNCTION,
    realtime::subscribe::FUNCTION,
    realtime::closed::FUNCTION,
];

/// Returns the HTTP functions that are deployed to AWS.
pub fn cloud_functions() -> Vec<&'static HttpFunction> {
    HTTP_FUNCTIONS.iter().copied().filter(|function| function.requirements.profiles.in_aws()).collect()
}

/// Builds the router of the embedded server.
pub fn router(app: App) -> Router {
    let functions = HTTP_FUNCTIONS.iter().copied();
    router_of(app, functions.filter(|function| function.requirements.profiles.embedded()))
        .layer(from_fn(trace::of_request))
}
