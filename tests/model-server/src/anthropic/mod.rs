//! Anthropic Messages.

mod check;
mod errors;
mod pairing;
mod say;

pub(crate) use check::{limits, read};
pub(crate) use errors::{error, failure};
pub(crate) use say::{error_event, events, whole};

/// The prefix of the ids of calls.
const CALL: &str = "toolu_";
/// What follows it when the model thought before it called: such an answer must come back with its thought.
const THOUGHT: &str = "thought";
