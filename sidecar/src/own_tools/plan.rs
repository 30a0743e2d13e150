//! `EnterPlanMode` and `ExitPlanMode`: the agent plans before it changes anything, and submits its plan (S0 8.3,
//! decision 26).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::requests::Requests;
use super::{arguments, ask};
use crate::adapter::PlanDecision;
use crate::tool_names::{ENTER_PLAN_MODE, EXIT_PLAN_MODE};

pub const ENTER: &str = ENTER_PLAN_MODE;
pub const EXIT: &str = EXIT_PLAN_MODE;

const ENTER_DESCRIPTION: &str = "Begins plan mode: until you leave it, look at things and think, and change nothing. Use it \
before work that is large or hard to undo.";

const EXIT_DESCRIPTION: &str = "Shows your plan to your owner and leaves plan mode. The owner may have to approve it first; \
when they want changes, revise the plan and show it again.";

/// Whether an agent is in plan mode, in which tools that change something must not run. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct PlanMode(Arc<AtomicBool>);

impl PlanMode {
    pub fn is_active(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub fn set(&self, active: bool) {
        self.0.store(active, Ordering::SeqCst);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shown {
    /// The plan, in Markdown.
    #[schemars(length(min = 1))]
    plan: String,
}

pub struct EnterPlanTool {
    spec: ToolSpec,
    mode: PlanMode,
}

impl EnterPlanTool {
    pub fn new(mode: PlanMode) -> Self {
        Self { spec: arguments::spec::<Nothing>(ENTER, ENTER_DESCRIPTION), mode }
    }
}

#[async_trait]
impl Tool for EnterPlanTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        if let Err(wrong) = arguments::read::<Nothing>(arguments) {
            return wrong;
        }
        self.mode.set(true);
        ToolOutput::text(format!(
            "You are in plan mode. Change nothing; when the plan is ready, show it with {EXIT}."
        ))
    }
}

pub struct ExitPlanTool {
    spec: ToolSpec,
    mode: PlanMode,
    requests: Requests,
    approval: bool,
}

impl ExitPlanTool {
    /// The tool waits for the owner in `requests` if `approval` is set.
    pub fn new(mode: PlanMode, requests: Requests, approval: bool) -> Self {
        Self { spec: arguments::spec::<Shown>(EXIT, EXIT_DESCRIPTION), mode, requests, approval }
    }
}

#[async_trait]
impl Tool for ExitPlanTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let shown = match arguments::read::<Shown>(arguments) {
            Ok(shown) => shown,
            Err(wrong) => return wrong,
        };
        if shown.plan.trim().is_empty() {
            return ToolOutput::error("Show a plan: it is empty.");
        }
        if !self.approval {
            self.mode.set(false);
            return ToolOutput::text("The plan needs no approval. Go on with it.");
        }
        let request = match ask::request(&context) {
            Ok(request) => request,
            Err(wrong) => return wrong,
        };
        let decided = tokio::select! {
            decided = self.requests.show_plan(request) => decided,
            () = context.cancelled.cancelled() => {
                return ToolOutput::error("The turn was interrupted before the owner decided.");
            }
        };
        match decided {
            Ok(PlanDecision { approved: true, feedback, .. }) => {
                self.mode.set(false);
                let feedback = feedback.map(|text| format!(" They add: {text}")).unwrap_or_default();
                ToolOutput::text(format!("The owner approved the plan. Go on with it.{feedback}"))
            }
            Ok(PlanDecision { approved: false, feedback, .. }) => {
                let why = feedback.unwrap_or_else(|| "no reason was given".to_owned());
                ToolOutput::error(format!(
                    "The owner did not approve the plan: {why}. Revise it and show it again."
                ))
            }
            Err(withdrawn) => ToolOutput::error(withdrawn.to_string()),
        }
    }
}
