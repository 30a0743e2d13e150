//! Functions that change state on behalf of owners, by aggregate.

pub mod artifacts;
pub mod brakes;
pub mod chains;
pub mod coherence;
pub mod decisions;
pub mod messages;
pub mod notifications;
pub mod operations;
pub mod pool;
pub mod project_agents;
pub mod projects;
pub mod requests;
pub mod sessions;
pub mod skills;
pub mod templates;
pub mod ticks;
pub mod web_push;
pub mod webhooks;
pub mod workers;
