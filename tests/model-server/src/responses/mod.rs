//! OpenAI Responses.

mod check;
mod say;

pub(crate) use check::read;
pub(crate) use say::{error_event, events, whole};
