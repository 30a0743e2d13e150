//! Anthropic Messages.

mod errors;
mod pairing;
mod request;
mod response;
mod turns;

pub(crate) use errors::{error, failure};
pub(crate) use request::{limits, read};
pub(crate) use response::{complete, error_event, events};

/// Prefix of call ids.
const CALL: &str = "toolu_";
/// Follows the prefix if the model thought before the call. Such a reply must be sent back with its thought.
const THOUGHT: &str = "thought";
