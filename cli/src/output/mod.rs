//! Text output. Each kind of object has a file with functions that render its data to a string, given a [`Style`] and the current
//! time, so that they can be tested with fixed inputs. JSON output (`--json`) is the JSON of the API and bypasses this module.

pub mod activity;
pub mod artifacts;
pub mod brakes;
pub mod briefing;
pub mod chains;
pub mod coherence;
pub mod conversations;
pub mod dead_letters;
pub mod decision_log;
pub mod deliverables;
pub mod events;
pub mod inbox;
pub mod interactive;
pub mod logins;
pub mod logs;
pub mod messages;
pub mod money;
pub mod plan;
pub mod pool;
pub mod project_stream;
pub mod projects;
pub mod queue;
pub mod requests;
pub mod session;
pub mod sessions;
pub mod shim;
pub mod skills;
pub mod style;
pub mod table;
pub mod templates;
pub mod text;
pub mod text_matches;
pub mod time;
pub mod tools;
pub mod trust;
pub mod workers;

pub use style::Style;

#[cfg(test)]
pub(crate) mod fixtures;
