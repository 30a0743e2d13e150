//! `pilothouse conversation` (S1 5, 9).

use clap::{Args, Subcommand};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::ConversationTarget;

use super::adjust::Wait;
use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::conversations::list;

/// Begin, switch and label the conversations of a session's agent, between its turns.
///
/// A session keeps all its conversations. `pilothouse fork` goes back within the current one.
#[derive(Debug, Subcommand)]
pub enum Conversation {
    /// List the conversations, their branches and the labels of turns
    #[command(visible_alias = "ls")]
    List(Target),
    New(New),
    Switch(Switch),
    Label(Label),
}

/// Begin an empty conversation. The agent keeps its files, its tools and its budget.
#[derive(Debug, Args)]
pub struct New {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub wait: Wait,
}

/// Continue another conversation, or another branch of one.
#[derive(Debug, Args)]
pub struct Switch {
    #[command(flatten)]
    pub target: Target,
    /// The conversation (see `pilothouse conversation list`); it continues where it was left
    #[arg(value_name = "CONVERSATION", conflicts_with = "turn")]
    pub words: Vec<String>,
    /// Continue after this turn instead, of any conversation and branch
    #[arg(long, value_name = "TURN")]
    pub turn: Option<TurnId>,
    #[command(flatten)]
    pub wait: Wait,
}

/// Label a turn of the current conversation, to find it again.
#[derive(Debug, Args)]
pub struct Label {
    #[command(flatten)]
    pub target: Target,
    /// The label
    #[arg(value_name = "TEXT", conflicts_with = "remove")]
    pub words: Vec<String>,
    /// The turn [default: the latest one]
    #[arg(long, value_name = "TURN")]
    pub turn: Option<TurnId>,
    /// Remove the label of the turn
    #[arg(long)]
    pub remove: bool,
    #[command(flatten)]
    pub wait: Wait,
}

impl Conversation {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List(target) => {
                let conversations = ctx.client.conversations(target.id(ctx).await?).await?;
                ctx.print(&conversations, |conversations, style, _| list(conversations, style))?;
                Ok(Exit::Done)
            }
            Self::New(New { target, wait }) => {
                let asked = ctx.client.new_conversation(target.id(ctx).await?).await?;
                wait.settle(ctx, asked).await
            }
            Self::Switch(switch) => switch.run(ctx).await,
            Self::Label(label) => label.run(ctx).await,
        }
    }
}

impl Switch {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let target = match (&words[..], self.turn) {
            ([], Some(turn)) => ConversationTarget::TurnId(turn),
            ([conversation], None) => ConversationTarget::ConversationId(conversation.clone()),
            _ => {
                let usage =
                    "name one conversation or a turn: pilothouse conversation switch SESSION CONVERSATION";
                return Err(CliError::Usage(usage.into()));
            }
        };
        let asked = ctx.client.switch_conversation(ctx.session_id(&session).await?, &target).await?;
        self.wait.settle(ctx, asked).await
    }
}

impl Label {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let label = words.join(" ");
        if self.remove != label.is_empty() {
            let usage =
                "give a label or --remove: pilothouse conversation label SESSION \"before the rewrite\"";
            return Err(CliError::Usage(usage.into()));
        }
        let id = ctx.session_id(&session).await?;
        let asked = ctx.client.label_turn(id, self.turn, (!self.remove).then_some(label)).await?;
        self.wait.settle(ctx, asked).await
    }
}
