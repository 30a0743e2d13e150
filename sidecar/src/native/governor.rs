//! The agent asks the driver whether to proceed before each model call and each tool, and after each tool. The agent
//! waits for the answer, so the driver can hold it (decision 15), enforce the budget (decision 32), and deliver
//! messages (decision 30).

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_agent::governor::{Governor, ModelCall, ToolVerdict, Verdict};
use pilothouse_agent::message::ToolCall;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{SharedTool, Tool, ToolContext, ToolOutput};
use pilothouse_domain::escalation::AllowedCommands;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::kit::authorizer::AskVerdict;
use crate::lease::Lease;
use crate::own_tools::PlanMode;
use crate::process::in_process::AgentThread;

/// A request of the agent to proceed. If the sender of the answer is dropped, the agent stops.
#[derive(Debug)]
pub(super) enum ApprovalRequest {
    Model(ModelCall, oneshot::Sender<Verdict>),
    Tool(ToolRequest),
    /// After a tool, so that a message can be delivered first.
    AfterTool(oneshot::Sender<()>),
}

impl ApprovalRequest {
    /// Whether the agent no longer waits for the answer.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Model(_, answer) => answer.is_closed(),
            Self::Tool(request) => request.answer.is_closed(),
            Self::AfterTool(answer) => answer.is_closed(),
        }
    }

    pub(super) fn approve(self) {
        match self {
            Self::Model(_, answer) => drop(answer.send(Verdict::Go)),
            Self::Tool(request) => request.decide(ToolVerdict::Go),
            Self::AfterTool(answer) => drop(answer.send(())),
        }
    }

    /// Limits the reply of a model call.
    pub(super) fn approve_within(self, output_tokens: u64) {
        match self {
            Self::Model(_, answer) => drop(answer.send(Verdict::GoWithin(output_tokens))),
            other => other.approve(),
        }
    }

    pub(super) fn stop(self, why: &str) {
        match self {
            Self::Model(_, answer) => drop(answer.send(Verdict::Stop(why.to_owned()))),
            Self::Tool(request) => request.decide(ToolVerdict::Stop(why.to_owned())),
            Self::AfterTool(answer) => drop(answer.send(())),
        }
    }
}

/// A tool call that waits for its permission.
#[derive(Debug)]
pub(super) struct ToolRequest {
    pub call: ToolCall,
    pub permission: ToolPermission,
    answer: oneshot::Sender<ToolVerdict>,
}

/// The permission of a tool call, in a session that belongs to a project.
#[derive(Debug)]
pub(super) enum ToolPermission {
    Unknown,
    LeftToOwner(AskVerdict),
    Decided(ToolVerdict),
}

impl ToolRequest {
    pub(super) fn decide(self, verdict: ToolVerdict) {
        // The send fails if the agent has given the call up.
        drop(self.answer.send(verdict));
    }

    /// Waits until the agent gives the call up.
    pub(super) async fn given_up(&mut self) {
        self.answer.closed().await;
    }
}

/// Forwards requests to the driver. Refuses all once the lease of the run has expired.
#[derive(Clone)]
pub(super) struct DriverGovernor {
    approvals: mpsc::UnboundedSender<ApprovalRequest>,
    lease: Lease,
}

impl DriverGovernor {
    /// The receiver yields the requests.
    pub(super) fn new(lease: Lease) -> (Self, mpsc::UnboundedReceiver<ApprovalRequest>) {
        let (approvals, receiver) = mpsc::unbounded_channel();
        (Self { approvals, lease }, receiver)
    }

    /// Checked last, because the wait for the answer may include a suspension of the machine.
    fn expired(&self) -> Option<String> {
        self.lease.is_expired().then(|| "The lease of this run has expired.".to_owned())
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> ApprovalRequest) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.approvals.send(question(answer)).ok()?;
        answered.await.ok()
    }
}

/// The reason for the agent when the driver has ended.
fn gone() -> String {
    "The agent is being stopped.".to_owned()
}

#[async_trait]
impl Governor for DriverGovernor {
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        let verdict = self.ask(|answer| ApprovalRequest::Model(call.clone(), answer)).await;
        let verdict = verdict.unwrap_or_else(|| Verdict::Stop(gone()));
        self.expired().map_or(verdict, Verdict::Stop)
    }

    async fn before_tool(&self, call: &ToolCall) -> ToolVerdict {
        let request = |answer| {
            let (call, permission) = (call.clone(), ToolPermission::Unknown);
            ApprovalRequest::Tool(ToolRequest { call, permission, answer })
        };
        let verdict = self.ask(request).await.unwrap_or_else(|| ToolVerdict::Stop(gone()));
        self.expired().map_or(verdict, ToolVerdict::Stop)
    }
}

/// Wraps a tool: it runs with the agent's rights, plan mode blocks it if it changes something, and the driver is
/// notified of its end.
pub(super) struct GovernedTool {
    pub tool: SharedTool,
    pub governor: DriverGovernor,
    pub plan_mode: PlanMode,
    /// Whether the tool changes nothing.
    pub harmless: bool,
    /// Patterns of the commands that it may run. `None`: no restriction.
    pub commands: Option<AllowedCommands>,
    /// The thread with the agent's file access rights, if those differ from the sidecar's.
    pub thread: Option<AgentThread>,
}

#[async_trait]
impl Tool for GovernedTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn checks_arguments(&self) -> bool {
        self.tool.checks_arguments()
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        if self.plan_mode.is_active() && !self.harmless {
            return ToolOutput::error(
                "You are in plan mode, and this tool may change something. Show your plan first.",
            );
        }
        if let Some(commands) = &self.commands
            && let Err(why) = commands.check(arguments["command"].as_str().unwrap_or_default())
        {
            return ToolOutput::error(why);
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
            _ = self.governor.ask(ApprovalRequest::AfterTool) => {}
            () = cancelled.cancelled() => {}
        }
        output
    }
}
