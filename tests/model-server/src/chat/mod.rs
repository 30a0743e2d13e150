//! OpenAI Chat Completions, and what many others understand under that name.

mod check;
mod errors;
mod say;

pub(crate) use check::{checked_name, read};
pub(crate) use errors::{error, failure};
pub(crate) use say::{error_event, events, whole};

/// The prefix of the ids of calls.
pub(crate) const CALL: &str = "call_";
