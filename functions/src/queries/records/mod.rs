//! Queries on the records of a session: views of its journal, and parts of the session itself (S0 8.7, 8.9).

pub mod activity;
pub mod blob;
pub mod conversations;
pub mod deliverables;
pub mod events;
pub mod export;
pub mod learnings;
pub mod logs;
pub mod messages;
pub mod metrics;
pub mod plan;
pub mod search;
pub mod sub_agents;
pub mod task_list;
pub mod tasks;
pub mod tool_calls;
