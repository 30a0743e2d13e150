//! `pilothouse queue`.

use clap::{Args, Subcommand};
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{AgentSessionId, MessageId};
use pilothouse_functions::api::messages::QueueView;

use super::target::{Target, text};
use crate::client::inputs::{MessageChange, NewMessage};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::queue::list;
use crate::output::text::count;

/// What waits to be said to the agent, one message a turn.
///
/// A message is named by its number in `queue list`, by its id, or by the beginning or end of its id.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// List what waits, in the order in which the agent will get it
    List(Target),
    /// Say something after the current turn
    Add(Add),
    /// Change what a message says
    Edit(Named),
    /// Move a message to another place among those of its priority: queue move SESSION MESSAGE PLACE, from 1
    Move(Named),
    /// Say a queued message now, in the middle of the turn
    Promote(Named),
    /// Let a message go that is held since an interrupt, or whose delivery is uncertain
    Release(Named),
    /// Cancel a message
    Rm(Named),
    /// Cancel everything that waits
    Clear(Target),
}

/// Say something after the current turn.
#[derive(Debug, Args)]
pub struct Add {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// What to say
    #[arg(value_name = "TEXT")]
    pub words: Vec<String>,
}

/// A message of a session, and what is to become of it.
#[derive(Debug, Args)]
pub struct Named {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The message, and what the command needs besides
    #[arg(value_name = "MESSAGE")]
    pub words: Vec<String>,
}

impl Named {
    /// The session, the message, and the words after it.
    async fn resolve(self, cx: &Context) -> Result<(AgentSessionId, MessageId, Vec<String>), CliError> {
        let (session, mut words) = self.target.split(self.words);
        if words.is_empty() {
            return Err(CliError::Usage(
                "name the message, for example by its number in `pilothouse queue list`".into(),
            ));
        }
        let id = cx.session_id(&session).await?;
        let rest = words.split_off(1);
        let message = find(&cx.client.queue(id).await?, &words[0])?;
        Ok((id, message, rest))
    }

    /// The same for a command that takes nothing besides.
    async fn alone(self, cx: &Context) -> Result<(AgentSessionId, MessageId), CliError> {
        match self.resolve(cx).await? {
            (id, message, rest) if rest.is_empty() => Ok((id, message)),
            (_, _, rest) => Err(CliError::Usage(format!("`{}` is not understood", rest.join(" ")))),
        }
    }
}

/// The message that a person means.
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
            "no message `{given}` waits; `pilothouse queue list` shows what does"
        ))),
        _ => Err(CliError::Usage(format!("`{given}` could mean several messages; give more of the id"))),
    }
}

impl Queue {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let queue = match self {
            Self::Add(add) => return add.run(cx).await,
            Self::Clear(target) => return clear(target, cx).await,
            Self::List(target) => cx.client.queue(target.id(cx).await?).await?,
            Self::Edit(named) => {
                let (id, message, words) = named.resolve(cx).await?;
                let content = Some(text(&words, "what the message is to say")?);
                cx.client.change_message(id, message, &MessageChange { content, position: None }).await?
            }
            Self::Move(named) => {
                let (id, message, words) = named.resolve(cx).await?;
                let place = match &words[..] {
                    [place] => place.parse::<usize>().ok().and_then(|place| place.checked_sub(1)),
                    _ => None,
                };
                let position = place.ok_or_else(|| {
                    CliError::Usage("say the new place, from 1: queue move SESSION MESSAGE 1".into())
                })?;
                let change = MessageChange { content: None, position: Some(position) };
                cx.client.change_message(id, message, &change).await?
            }
            Self::Promote(named) => {
                let (id, message) = named.alone(cx).await?;
                cx.client.promote(id, message).await?
            }
            Self::Release(named) => {
                let (id, message) = named.alone(cx).await?;
                cx.client.release(id, message).await?
            }
            Self::Rm(named) => {
                let (id, message) = named.alone(cx).await?;
                cx.client.cancel_message(id, message).await?
            }
        };
        cx.answer(&queue, list)?;
        Ok(Exit::Done)
    }
}

impl Add {
    async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let content = text(&words, "what to say: pilothouse queue add SESSION \"then update the docs\"")?;
        let id = cx.session_id(&session).await?;
        let enqueued = cx.client.enqueue(id, &NewMessage::new(content, MessagePriority::Queued)).await?;
        cx.answer(&enqueued, |enqueued, style, _| {
            format!("Queued. {}\n", style.dim(&format!("(message {})", enqueued.message.message_id)))
        })?;
        Ok(Exit::Done)
    }
}

async fn clear(target: Target, cx: &Context) -> Result<Exit, CliError> {
    let cleared = cx.client.clear_queue(target.id(cx).await?).await?;
    cx.answer(&cleared, |cleared, _, _| {
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
    fn a_message_is_named_by_number_or_id_or_part_of_it() {
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
