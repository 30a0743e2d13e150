//! Commands on the message queue of a session (S0 8.9, decisions 28 to 30).

pub mod cancel;
pub mod clear;
pub mod edit;
pub mod enqueue;
pub mod promote;
pub mod release;

use pilothouse_api::messages::QueueView;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::http::Problem;
use pilothouse_domain::conversation::Conversation;

/// Responds with 200 and the queue.
fn queue(conversation: &Conversation) -> Result<CommandResponse, Problem> {
    let version = conversation.session.control_version();
    CommandResponse::ok(version, &QueueView::of(&conversation.queue, version))
}
