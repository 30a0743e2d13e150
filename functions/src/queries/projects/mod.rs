//! Queries on projects.

pub mod briefing;
pub mod control_mode;
pub mod decision_log;
pub mod get;
pub mod list;
pub mod portfolio;
pub mod search;
pub mod snapshot;
pub mod state;
