//! `handoff`: the agent hands its work over before its context window is full (S0 8.9, AG-039, decision 34).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::text::{Feedback, HandoffText};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::HandoffDocument;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::arguments;
use crate::adapter::EventSink;

pub const NAME: &str = "handoff";

const DESCRIPTION: &str = "Hands your work to a new session that begins with a fresh context and the document that you give \
here. Use it when your context has become a burden, or when the rest is a task of its own. Finish what you are doing, \
and commit or note down what must not be lost, before you call it. It can be called once; end your turn afterwards.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// Why you hand over.
    reason: Feedback,
    /// What was accomplished.
    summary: HandoffText,
    /// What still needs to be done.
    remaining_work: HandoffText,
    /// Decisions that must not be forgotten.
    #[serde(default)]
    key_decisions: Option<HandoffText>,
}

/// Only the first call of a run has an effect.
pub struct HandoffTool {
    spec: ToolSpec,
    events: EventSink,
    /// Whether the handoff was published. Locked while publishing, so that concurrent calls result in one handoff.
    emitted: Mutex<bool>,
}

impl HandoffTool {
    pub fn new(events: EventSink) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), events, emitted: Mutex::default() }
    }
}

#[async_trait]
impl Tool for HandoffTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let arguments = match arguments::read::<Arguments>(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let mut emitted = self.emitted.lock().await;
        if *emitted {
            return ToolOutput::error(
                "The work was handed over already; the first document counts. End your turn.",
            );
        }
        let handoff = RawEvent::VoluntaryHandoff {
            reason: arguments.reason.into(),
            document: HandoffDocument {
                summary: arguments.summary.into(),
                remaining_work: arguments.remaining_work.into(),
                key_decisions: arguments.key_decisions.map(Into::into),
            },
        };
        if let Err(e) = self.events.emit(handoff).await {
            return ToolOutput::error(format!("The handoff could not be recorded: {e}. Try again."));
        }
        *emitted = true;
        let done = ToolOutput::text("The work is handed over to a new session. End your turn now.");
        ToolOutput { ends_turn: true, ..done }
    }
}
