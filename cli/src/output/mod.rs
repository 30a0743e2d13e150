//! What people read. Each noun has its file; each renders to a string from its data, a [`Style`] and the time now, so
//! that it can be tested on fixed inputs. Machine output (`--json`) is the API's own JSON and passes none of this.

pub mod activity;
pub mod chains;
pub mod dead_letters;
pub mod deliverables;
pub mod logs;
pub mod messages;
pub mod money;
pub mod plan;
pub mod pool;
pub mod queue;
pub mod requests;
pub mod session;
pub mod sessions;
pub mod skills;
pub mod style;
pub mod table;
pub mod telling;
pub mod templates;
pub mod text;
pub mod time;
pub mod tools;

pub use style::Style;

#[cfg(test)]
pub(crate) mod fixtures;
