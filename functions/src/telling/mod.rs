//! Tells what happened in sessions: to owners, to other contexts and to webhooks (S0 8.10; ruling 37).
//!
//! | step | what makes it happen once |
//! |---|---|
//! | the relay names a journal entry that tells something on the queue of announcements, a group an owner | the queue's deduplication |
//! | [`announce`] appends announcements and notifications to the feed of the owner | the same commit says what the entry was told as |
//! | and puts a message for the bus and for each endpoint on the queue of webhooks | the queue's deduplication |
//! | [`deliver`](crate::webhooks::deliver) tells one endpoint of one announcement | a record a delivery |
//! | or the bus and the topic | nothing: at least once, known by its id |
//!
//! It has a queue apart from the reactions: what stands outside may fail for hours, and no command, launch or slot may wait
//! for that.

pub mod announce;
pub mod list;

pub use announce::{handle, message, message_of_owned, process};
