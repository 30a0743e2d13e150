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
pub mod settings;
pub mod skills;
pub mod templates;
pub mod ticks;
pub mod trust;
pub mod web_push;
pub mod webhooks;
pub mod workers;
