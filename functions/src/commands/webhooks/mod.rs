//! Commands on webhooks: endpoints of owners that receive events, signed as Standard Webhooks specifies (decision 37).
//!
//! The secret of a webhook is derived from its id (decision 8). It is shown at registration and never stored.

pub mod enable;
pub mod register;
pub mod remove;
