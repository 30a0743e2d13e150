//! `pilothouse queue`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pilothouse_api::messages::QueueView;
use pilothouse_client::inputs::{EditMessage, EnqueueMessage};
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{AgentSessionId, MessageId};

use super::files::read_images;
use super::target::{Target, text};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::queue::list;
use crate::output::text::count;

/// List and change the messages that are queued for the agent. Each one starts a turn.
///
/// Name a message by its number in `queue list`, by its id, or by the beginning or end of the id.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// List queued messages in order of delivery
    #[command(visible_alias = "ls")]
    List(Target),
    /// Queue a message for delivery after the current turn
    Add(Add),
    /// Change the text of a message
    Edit(MessageArg),
    /// Move a message within its priority: queue move SESSION MESSAGE PLACE, from 1
    Move(MessageArg),
    /// Deliver a queued message now, within the running turn
    Promote(MessageArg),
    /// Release a message that an interrupt held back, or whose delivery is uncertain
    Release(MessageArg),
    /// Cancel a message
    Rm(MessageArg),
    /// Cancel all queued messages
    Clear(Target),
}

/// Queue a message for delivery after the current turn.
#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    pub target: Target,
    /// The message
    #[arg(value_name = "TEXT")]
    pub words: Vec<String>,
    /// An image for the agent: PNG, JPEG, GIF or WebP; may be repeated
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
}

/// A message of a session, with further arguments.
#[derive(Debug, Args)]
pub struct MessageArg {
    #[command(flatten)]
    pub target: Target,
    /// The message, and further arguments of the command
    #[arg(value_name = "MESSAGE")]
    pub words: Vec<String>,
}

impl MessageArg {
    /// Splits the arguments into session, message and remaining words.
    async fn resolve(self, ctx: &Context) -> Result<(AgentSessionId, MessageId, Vec<String>), CliError> {
        let (session, mut words) = self.target.split(self.words);
        if words.is_empty() {
            return Err(CliError::Usage(
                "name the message, for example by its number in `pilothouse queue list`".into(),
            ));
        }
        let id = ctx.session_id(&session).await?;
        let rest = words.split_off(1);
        let message = find(&ctx.client.queue(id).await?, &words[0])?;
        Ok((id, message, rest))
    }

    /// The same for a command without further arguments.
    async fn alone(self, ctx: &Context) -> Result<(AgentSessionId, MessageId), CliError> {
        match self.resolve(ctx).await? {
            (id, message, rest) if rest.is_empty() => Ok((id, message)),
            (_, _, rest) => Err(CliError::Usage(format!("unexpected argument: `{}`", rest.join(" ")))),
        }
    }
}

/// The id of the message that `given` names.
fn find(queue: &QueueView, given: &str) -> Result<MessageId, CliError> {
    if let Ok(id) = given.parse() {
        return Ok(id);
    }
    let ids: Vec<_> = queue.items.iter().map(|m| m.message_id).collect();
    if let Ok(number) = given.parse::<usize>()
        && (1..=ids.len()).contains(&number)
    {
        return Ok(ids[number - 1]);
    }
    let like = |id: &MessageId| {
        given.len() >= 4 && (id.to_string().starts_with(given) || id.to_string().ends_with(given))
    };
    match ids.into_iter().filter(like).collect::<Vec<_>>()[..] {
        [only] => Ok(only),
        [] => Err(CliError::NotFound(format!(
            "no message `{given}` is queued; `pilothouse queue list` shows the queue"
        ))),
        _ => Err(CliError::Usage(format!("`{given}` matches several messages; give more of the id"))),
    }
}

impl Queue {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let queue = match self {
            Self::Add(add) => return add.run(ctx).await,
            Self::Clear(target) => return clear(target, ctx).await,
            Self::List(target) => ctx.client.queue(target.id(ctx).await?).await?,
            Self::Edit(named) => {
                let (id, message, words) = named.resolve(ctx).await?;
                let content = Some(text(&words, "the new text of the message")?);
                ctx.client.edit_message(id, message, &EditMessage { content, position: None }).await?
            }
            Self::Move(named) => {
                let (id, message, words) = named.resolve(ctx).await?;
                let place = match &words[..] {
                    [place] => place.parse::<usize>().ok().and_then(|place| place.checked_sub(1)),
                    _ => None,
                };
                let position = place.ok_or_else(|| {
                    CliError::Usage("name the new place, from 1: queue move SESSION MESSAGE 1".into())
                })?;
                let change = EditMessage { content: None, position: Some(position) };
                ctx.client.edit_message(id, message, &change).await?
            }
            Self::Promote(named) => {
                let (id, message) = named.alone(ctx).await?;
                ctx.client.promote_message(id, message).await?
            }
            Self::Release(named) => {
                let (id, message) = named.alone(ctx).await?;
                ctx.client.release_message(id, message).await?
            }
            Self::Rm(named) => {
                let (id, message) = named.alone(ctx).await?;
                ctx.client.cancel_message(id, message).await?
            }
        };
        ctx.print(&queue, list)?;
        Ok(Exit::Done)
    }
}

impl Add {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let content = text(&words, "the message: pilothouse queue add SESSION \"then update the docs\"")?;
        let id = ctx.session_id(&session).await?;
        let images = read_images(&self.image)?;
        let message = EnqueueMessage { images, ..EnqueueMessage::new(content, MessagePriority::Queued) };
        let enqueued = ctx.client.enqueue(id, &message).await?;
        ctx.print(&enqueued, |enqueued, style, _| {
            format!("Queued. {}\n", style.dim(&format!("(message {})", enqueued.message.message_id)))
        })?;
        Ok(Exit::Done)
    }
}

async fn clear(target: Target, ctx: &Context) -> Result<Exit, CliError> {
    let cleared = ctx.client.clear_queue(target.id(ctx).await?).await?;
    ctx.print(&cleared, |cleared, _, _| {
        format!("{} cancelled.\n", count(cleared.cancelled.len(), "message"))
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::find;
    use crate::error::CliError;

    #[test]
    fn message_is_resolved_by_number_id_or_id_part() {
        let message = |end: &str| {
            json!({
                "messageId": format!("0197b1c0-0000-7000-8000-00000000{end}"), "content": "x", "priority": "Queued",
                "status": "Pending", "source": "User", "createdAt": "2026-11-21T20:00:00.000Z",
            })
        };
        let items = [message("aaaa"), message("bbbb")];
        let queue = serde_json::from_value(json!({ "items": items, "held": false, "version": 1 })).unwrap();
        let end = |given: &str| find(&queue, given).map(|id| id.to_string()[32..].to_owned());
        assert_eq!(end("1").unwrap(), "aaaa");
        assert_eq!(end("bbbb").unwrap(), "bbbb");
        assert_eq!(
            end("0197b1c0-0000-7000-8000-00000000cccc").unwrap(),
            "cccc",
            "a whole id is the server's to judge"
        );
        assert!(matches!(end("0197"), Err(CliError::Usage(_))));
        assert!(matches!(end("3"), Err(CliError::NotFound(_))));
        assert!(matches!(end("bb"), Err(CliError::NotFound(_))));
    }
}
