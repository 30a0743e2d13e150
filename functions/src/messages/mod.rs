//! The message queue of a session: commands and queries of its owner (S0 8.9, rulings 28 to 30).

pub mod cancel;
pub mod clear;
pub mod edit;
pub mod enqueue;
pub mod list;
pub mod promote;
pub mod release;

use pilothouse_domain::conversation::Conversation;

use crate::api::messages::QueueView;
use crate::change::Answer;
use crate::edge::Problem;

/// The queue after a change.
fn queue(conversation: &Conversation) -> Result<Answer, Problem> {
    let version = conversation.session.control_version();
    Answer::ok(version, &QueueView::of(&conversation.queue, version))
}
