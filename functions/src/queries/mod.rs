//! Read-only functions for owners.

pub mod artifacts;
pub mod brakes;
pub mod chains;
pub mod coherence;
pub mod decisions;
pub mod event_feed;
pub mod health;
pub mod messages;
pub mod notifications;
pub mod operations;
pub mod pool;
pub mod project_agents;
pub mod projects;
pub mod records;
pub mod sessions;
pub mod skills;
pub mod templates;
pub mod ticks;
pub mod trust;
pub mod webhooks;
pub mod workers;

use pilothouse_app::http::Problem;
use pilothouse_app::http::request::Parameters;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A parameter of the query string that names a value of an enum.
fn named<T: DeserializeOwned>(parameters: &Parameters, name: &str) -> Result<Option<T>, Problem> {
    let parse =
        |text: &str| serde_json::from_value(Value::from(text)).map_err(|wrong| Problem::invalid(name, wrong));
    parameters.text(name).map(parse).transpose()
}
