//! `pilothouse steer`.

use clap::Args;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use super::target::{Target, text};
use crate::client::inputs::NewMessage;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Say something to the agent now, in the middle of its turn.
///
/// A session that rests begins a turn with it. To say something after the turn instead: pilothouse queue add
#[derive(Debug, Args)]
pub struct Steer {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// What to say
    #[arg(value_name = "TEXT")]
    pub words: Vec<String>,
    /// Only if this turn still runs (see `show --json`)
    #[arg(long, value_name = "TURN")]
    pub turn: Option<TurnId>,
}

impl Steer {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let content = text(&words, "what to say: pilothouse steer SESSION \"not that file\"")?;
        let id = cx.session_id(&session).await?;
        let message = NewMessage {
            expected_turn_id: self.turn,
            ..NewMessage::new(content, MessagePriority::Immediate)
        };
        let enqueued = cx.client.enqueue(id, &message).await?;
        cx.answer(&enqueued, |enqueued, style, _| {
            format!("Said. {}\n", style.dim(&format!("(message {})", enqueued.message.message_id)))
        })?;
        Ok(Exit::Done)
    }
}
