//! `pilothouse model`, `thinking`, `compact` and `fork` (S1 5).
//!
//! The agent carries out these changes. By default the commands wait for that, and fail if the agent refuses.

use std::time::Duration;

use clap::Args;
use pilothouse_api::sessions::SessionView;
use pilothouse_client::inputs::{AdjustSession, PageQuery};
use pilothouse_client::{Client, RecordFilter};
use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use pilothouse_domain::{AgentSessionId, TurnId};

use super::parse;
use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::works_with;

/// Options for waiting.
#[derive(Debug, Clone, Args)]
pub struct Wait {
    /// Return when the request is recorded, before the agent carries it out
    #[arg(long)]
    pub no_wait: bool,
    /// Wait at most this many seconds; the request stays valid after that
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = parse::waiting_seconds())]
    pub timeout: u64,
}

impl Wait {
    /// Waits until the agent has carried out the request, and returns the session.
    pub(super) async fn settle(&self, ctx: &Context, asked: SessionView) -> Result<Exit, CliError> {
        let (id, cursor) = (asked.id, asked.cursor.clone());
        let session = if self.no_wait {
            asked
        } else {
            let patience = Duration::from_secs(self.timeout);
            ctx.client.wait_for_session(id, patience, |session| session.adjustments.is_empty()).await?
        };
        if let Some(why) = refusal(&ctx.client, id, cursor).await? {
            return Err(CliError::Failed(why));
        }
        ctx.print(&session, |session, style, _| works_with(session, style))?;
        if self.no_wait || session.adjustments.is_empty() {
            return Ok(Exit::Done);
        }
        Err(CliError::Failed(format!(
            "the agent has not finished after {} s; the request is still valid: see `pilothouse show {id}`",
            self.timeout
        )))
    }
}

/// The agent's reason for a refusal, if it refused. `asked` is the journal sequence of the request: earlier refusals belong to
/// other changes. Times cannot be compared, because two entries may have the same one.
async fn refusal(client: &Client, id: AgentSessionId, asked: String) -> Result<Option<String>, CliError> {
    let (mut undone, mut refused, mut cursor) = (None, None, Some(asked));
    while cursor.is_some() {
        let slice = PageQuery { limit: Some(100), cursor };
        let page =
            client.activity(id, &RecordFilter { page_query: slice, since: None, sub_agent_id: None }).await?;
        for line in page.items {
            let summary = line.item.summary;
            if summary.starts_with("The sidecar refused: ") {
                refused = Some(summary);
            } else if summary.starts_with("Not done: ") {
                undone = Some(summary);
            }
        }
        cursor = page.next_cursor;
    }
    Ok(undone.map(|undone| refused.unwrap_or(undone)))
}

/// Show or change the model of a session.
///
/// Without a model, shows the agent's current settings and its models. A hibernated session starts its next run with the new
/// model.
#[derive(Debug, Args)]
pub struct Model {
    #[command(flatten)]
    pub target: Target,
    /// The new model
    #[arg(value_name = "MODEL", conflicts_with_all = ["next", "previous"])]
    pub words: Vec<String>,
    /// Select the next of the agent's models
    #[arg(long, conflicts_with = "previous")]
    pub next: bool,
    /// Select the previous of the agent's models
    #[arg(long)]
    pub previous: bool,
    #[command(flatten)]
    pub wait: Wait,
}

impl Model {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let cycle_model = match (self.next, self.previous) {
            (true, _) => Some(CycleDirection::Forward),
            (_, true) => Some(CycleDirection::Backward),
            _ => None,
        };
        let (session, words) = self.target.split(self.words);
        let id = ctx.session_id(&session).await?;
        let model_id = match &words[..] {
            [] => None,
            [model] => Some(model.clone()),
            _ => return Err(CliError::Usage("name one model: pilothouse model SESSION MODEL".into())),
        };
        if model_id.is_none() && cycle_model.is_none() {
            let session = ctx.client.session(id).await?;
            ctx.print(&session, |session, style, _| works_with(session, style))?;
            return Ok(Exit::Done);
        }
        let asked =
            ctx.client.adjust(id, &AdjustSession { model_id, cycle_model, thinking_level: None }).await?;
        self.wait.settle(ctx, asked).await
    }
}

/// Change the thinking level of a session's agent.
#[derive(Debug, Args)]
pub struct Thinking {
    #[command(flatten)]
    pub target: Target,
    /// The level: off, minimal, low, medium, high or max
    #[arg(value_name = "LEVEL")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub wait: Wait,
}

impl Thinking {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let wrong = |why: &str| CliError::Usage(format!("{why}: pilothouse thinking SESSION LEVEL"));
        let [level] = &words[..] else { return Err(wrong("name one level")) };
        let level: ThinkingLevel = parse::thinking_level(level).map_err(|why| wrong(&why))?;
        let id = ctx.session_id(&session).await?;
        let asked = ctx
            .client
            .adjust(id, &AdjustSession { thinking_level: Some(level), ..AdjustSession::default() })
            .await?;
        self.wait.settle(ctx, asked).await
    }
}

/// Summarise the agent's conversation, to free space in its context window.
#[derive(Debug, Args)]
pub struct Compact {
    #[command(flatten)]
    pub target: Target,
    /// What the summary should focus on
    #[arg(long, short, value_name = "TEXT")]
    pub instructions: Option<String>,
    #[command(flatten)]
    pub wait: Wait,
}

impl Compact {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let asked = ctx.client.compact(id, self.instructions).await?;
        self.wait.settle(ctx, asked).await
    }
}

/// Return the agent's conversation to the state before a turn.
///
/// Later messages stay in the records. Files that the agent changed are not reverted.
#[derive(Debug, Args)]
pub struct Fork {
    #[command(flatten)]
    pub target: Target,
    /// The first turn to drop (see `pilothouse replay`)
    #[arg(long, value_name = "TURN")]
    pub before_turn: TurnId,
    #[command(flatten)]
    pub wait: Wait,
}

impl Fork {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let asked = ctx.client.fork(id, self.before_turn).await?;
        self.wait.settle(ctx, asked).await
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;
    use axum::routing::get;
    use axum::{Json, Router};
    use pilothouse_client::{Client, Credentials};
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::refusal;

    #[derive(Deserialize)]
    struct Asked {
        cursor: Option<String>,
    }

    fn line(place: u32, summary: &str) -> Value {
        json!({ "id": place.to_string(), "type": "Notice", "summary": summary, "timestamp": "2026-11-22T10:00:00.000Z" })
    }

    /// A session of which two changes were refused: one before its journal stood at 5, one after it stood at 9.
    async fn activity(Query(asked): Query<Asked>) -> Json<Value> {
        let refused = |place, model| {
            [
                line(place, &format!("The sidecar refused: no model {model}")),
                line(place + 1, &format!("Not done: the model {model}: the agent refused")),
            ]
        };
        let (items, next) = match asked.cursor.as_deref() {
            None => ([refused(2, "a"), refused(11, "b")].concat(), None),
            Some("9") => (vec![line(10, "Asked: the model b")], Some("10")),
            Some("10") => (refused(11, "b").to_vec(), None),
            Some(_) => (Vec::new(), None),
        };
        Json(json!({ "items": items, "nextCursor": next }))
    }

    #[tokio::test]
    async fn only_a_refusal_of_the_requested_change_is_shown() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/api/agents/sessions/{id}/activity", get(activity));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client =
            Client::new(&format!("http://{address}"), Credentials::Token("the-token".into())).unwrap();
        let id = "0197b1c0-0000-7000-8000-000000000001".parse().unwrap();
        let shown = async |cursor: &str| refusal(&client, id, cursor.to_owned()).await.unwrap();
        assert_eq!(shown("12").await, None, "both refusals are of earlier changes");
        assert_eq!(shown("9").await.as_deref(), Some("The sidecar refused: no model b"));
    }
}
