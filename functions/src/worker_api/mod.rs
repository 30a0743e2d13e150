//! Functions that workers call to register, receive orders, claim runs and report the end of runs.
//! [`pilothouse_app::placement`] assigns runs to workers.

pub mod claim;
pub mod exit;
pub mod heartbeat;
pub mod orders;
pub mod request;
