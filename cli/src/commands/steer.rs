//! `pilothouse steer`.

use std::path::PathBuf;

use clap::Args;
use pilothouse_api::sessions::SessionView;
use pilothouse_client::inputs::EnqueueMessage;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use super::files::read_images;
use super::target::{Target, text};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Send a message to the agent now, within its running turn.
///
/// An agent that cannot be steered gets the message first after the turn. In an idle session the message starts a turn. To
/// send a message after the turn instead: pilothouse queue add
#[derive(Debug, Args)]
pub struct Steer {
    #[command(flatten)]
    pub target: Target,
    /// The message
    #[arg(value_name = "TEXT")]
    pub words: Vec<String>,
    /// Only if this turn is still running (see `show --json`)
    #[arg(long, value_name = "TURN")]
    pub turn: Option<TurnId>,
    /// An image for the agent: PNG, JPEG, GIF or WebP; may be repeated
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
}

impl Steer {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let content = text(&words, "the message: pilothouse steer SESSION \"not that file\"")?;
        let id = ctx.session_id(&session).await?;
        let message = EnqueueMessage {
            expected_turn_id: self.turn,
            images: read_images(&self.image)?,
            ..EnqueueMessage::new(content, MessagePriority::Immediate)
        };
        let waits = waits_for_turn_end(&ctx.client.session(id).await?);
        let enqueued = ctx.client.enqueue(id, &message).await?;
        let outcome = if waits {
            "Queued: the agent takes no messages within a turn, and reads this one first after it."
        } else {
            "Sent."
        };
        ctx.print(&enqueued, |enqueued, style, _| {
            format!("{outcome} {}\n", style.dim(&format!("(message {})", enqueued.message.message_id)))
        })?;
        Ok(Exit::Done)
    }
}

/// Whether a turn is running whose agent cannot be steered.
fn waits_for_turn_end(session: &SessionView) -> bool {
    let can = session.current_run.as_ref().and_then(|run| run.capabilities);
    session.current_turn.is_some() && can.is_some_and(|can| !can.steer_mid_turn)
}
