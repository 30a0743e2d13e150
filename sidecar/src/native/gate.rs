//! Where the agent asks the driver: before each model call, before each tool, and after it. It does not go on before it
//! has the answer, so the driver can hold it (ruling 15), count (ruling 32), and give it messages (ruling 30).

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_agent::governor::{Governor, ModelCall, Verdict};
use pilothouse_agent::message::ToolCall;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{SharedTool, Tool, ToolContext, ToolOutput};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::own_tools::PlanMode;
use crate::process::in_process::AgentThread;

/// A question of the agent. It waits until it is answered; when the answer's sender is dropped, it ends.
#[derive(Debug)]
pub(super) enum Ask {
    /// May it call a model?
    Model(ModelCall, oneshot::Sender<Verdict>),
    /// May it run a tool?
    Tool(oneshot::Sender<Verdict>),
    /// A tool is over: is there something to be heard before what comes next?
    AfterTool(oneshot::Sender<()>),
}

impl Ask {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Model(_, answer) | Self::Tool(answer) => answer.is_closed(),
            Self::AfterTool(answer) => answer.is_closed(),
        }
    }

    /// Lets it go on.
    pub(super) fn go(self) {
        match self {
            Self::Model(_, answer) | Self::Tool(answer) => drop(answer.send(Verdict::Go)),
            Self::AfterTool(answer) => drop(answer.send(())),
        }
    }

    /// Ends the work of the agent here.
    pub(super) fn stop(self, why: &str) {
        match self {
            Self::Model(_, answer) | Self::Tool(answer) => drop(answer.send(Verdict::Stop(why.to_owned()))),
            Self::AfterTool(answer) => drop(answer.send(())),
        }
    }
}

/// Asks the driver.
#[derive(Clone)]
pub(super) struct Gate(mpsc::UnboundedSender<Ask>);

impl Gate {
    /// A gate, and where its questions come out.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Ask>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.0.send(question(answer)).ok()?;
        answered.await.ok()
    }
}

/// What the agent is told when its driver is gone.
fn gone() -> Verdict {
    Verdict::Stop("The agent is being stopped.".into())
}

#[async_trait]
impl Governor for Gate {
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        self.ask(|answer| Ask::Model(call.clone(), answer)).await.unwrap_or_else(gone)
    }

    async fn before_tool(&self, _: &ToolCall) -> Verdict {
        self.ask(Ask::Tool).await.unwrap_or_else(gone)
    }
}

/// A coat around each tool: it runs with the agent's rights, not while the agent plans when it changes something, and the
/// driver hears when it is over.
pub(super) struct Coat {
    pub tool: SharedTool,
    pub gate: Gate,
    pub plan_mode: PlanMode,
    /// Whether it only looks at things.
    pub harmless: bool,
    /// Where it runs, when that is not here.
    pub thread: Option<AgentThread>,
}

#[async_trait]
impl Tool for Coat {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        if self.plan_mode.is_active() && !self.harmless {
            return ToolOutput::error(
                "You are in plan mode, and this tool may change something. Show your plan first.",
            );
        }
        let cancelled = context.cancelled.clone();
        let output = match &self.thread {
            None => self.tool.run(arguments, context).await,
            Some(thread) => {
                let tool = Arc::clone(&self.tool);
                let done = thread.run(async move { tool.run(arguments, context).await }).await;
                done.unwrap_or_else(|e| ToolOutput::error(format!("The tool could not be run: {e}")))
            }
        };
        tokio::select! {
            _ = self.gate.ask(Ask::AfterTool) => {}
            () = cancelled.cancelled() => {}
        }
        output
    }
}
