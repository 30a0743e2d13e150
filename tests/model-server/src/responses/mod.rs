//! OpenAI Responses.

mod request;
mod response;

pub(crate) use request::read;
pub(crate) use response::{complete, error_event, events};
