//! The HTTP layer of functions: callers, request bodies, parameters, preconditions.

pub mod auth;
pub mod body;
pub mod json_schema;
mod login;
pub mod peer;
pub mod request;

pub use auth::{AgentCaller, Owner};
pub use body::{Body, NoBody};
pub use login::CurrentLogin;
pub use request::{Id, IfMatch, PageRequest, RequestId, Session};

pub use crate::keyring::{Admission, Keyring};
pub use crate::problem::Problem;
