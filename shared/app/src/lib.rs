//! The foundation of the functions of Pilothouse.
//!
//! | module | contents |
//! |---|---|
//! | [`function`] | the declaration of a function: triggers, schemas, permissions; the router and [`openapi`] use it |
//! | [`http`] | callers, request bodies, path and query parameters |
//! | [`problem`], [`keyring`] | problem documents; verifying the tokens of owners |
//! | [`unit_of_work`] | load, decide, commit, and after a lost race again: every change of the state |
//! | [`command`], [`aggregate`] | commands: on sessions, and on the other aggregates of an owner |
//! | [`session_start`], [`session_config`] | creating a session; the configuration of its agent |
//! | [`batch`], [`queues`] | processing batches of messages; the queues of the broker |
//! | [`projects`], [`briefing`] | projects of an owner and views of their agents; what happened in a project, in sentences |
//! | [`guardrails`] | guardrails on what agents receive and submit |
//! | [`placement`], [`run_exit`] | assigning runs to workers; reporting the end of runs |
//! | [`live_stream`], [`change_notifier`], [`connections`] | deriving live streams from journals; their notifications and connections |
//! | [`journal_views`], [`record_views`], [`paging`] | views made from the journal and from store records; cursors |
//! | [`journal_search`] | finding words in the texts of the journal |
//! | [`texts`] | lines of the activity stream and texts of notifications |
//! | [`integrations`] | ports to the event bus, the topic and the endpoints of webhooks |
//! | [`trace`], [`disk`], [`error`] | trace context, free disk space, errors in log lines |

pub mod aggregate;
mod app;
pub mod batch;
pub mod braking;
pub mod briefing;
pub mod change_notifier;
pub mod command;
pub mod connections;
pub mod disk;
pub mod drafts;
pub mod error;
pub mod function;
pub mod guardrails;
pub mod http;
pub mod integrations;
pub mod journal_search;
pub mod journal_views;
pub mod keyring;
pub mod live_stream;
pub mod models;
pub mod openapi;
pub mod paging;
pub mod placement;
pub mod problem;
pub mod project_stream;
pub mod projects;
pub mod queues;
pub mod record_views;
pub mod run_exit;
pub mod session_config;
pub mod session_start;
pub mod texts;
pub mod ticks;
pub mod trace;
pub mod unit_of_work;
pub mod web_push;

pub use app::{App, Fleet, FreshIds, METRICS, Parts};
pub use error::error_chain;
