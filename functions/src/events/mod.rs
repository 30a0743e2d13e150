//! Functions that a queue, the table's stream or a schedule triggers. [`crate::reactions`] has the function `react`.

pub mod clock;
pub mod coherence_review;
mod delivery_message;
pub mod event_feed;
pub mod intake;
pub mod relay;
pub mod task_stopped;
pub mod web_push_delivery;
pub mod webhook_delivery;
