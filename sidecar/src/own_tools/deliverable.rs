//! `deliverable`: creates deliverables and sets their status (S4).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::deliverable::{
    CreateDeliverableInput, DeliverableInput, OperationError, OperationResult, SetDeliverableStatusInput,
};
use pilothouse_domain::value::DeliverableState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::arguments;
use crate::deliverables::Deliverables;

pub const NAME: &str = "deliverable";

const DESCRIPTION: &str = "Keeps track of the deliverables of this working directory: verifiable units of work with \
acceptance criteria. `create` adds deliverables, all of a call or none; they begin as pending. `set_status` sets one to \
`passed` when all its acceptance criteria are verified, to `blocked` when something outside prevents it, or back to \
`pending` when a bug is found in it. The work is done when every deliverable is passed or blocked.";

/// Both operations in one object, because models do not accept a choice at the top level of a schema.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// What to do.
    operation: Operation,
    /// For `create`: what to create.
    #[serde(default)]
    deliverables: Option<Vec<DeliverableInput>>,
    /// For `set_status`: the id of the deliverable.
    #[serde(default)]
    deliverable_id: Option<String>,
    /// For `set_status`: its new status.
    #[serde(default)]
    status: Option<DeliverableState>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Create,
    SetStatus,
}

pub struct DeliverableTool {
    spec: ToolSpec,
    deliverables: Deliverables,
}

impl DeliverableTool {
    pub fn new(deliverables: Deliverables) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), deliverables }
    }

    async fn carry_out(&self, arguments: Arguments) -> OperationResult {
        let invalid = |text: &str| OperationResult::failed(OperationError::ValidationFailed, text);
        let Arguments { operation, deliverables, deliverable_id, status } = arguments;
        match (operation, deliverables, deliverable_id, status) {
            (Operation::Create, Some(deliverables), None, None) => {
                self.deliverables.create(CreateDeliverableInput { deliverables }).await
            }
            (Operation::SetStatus, None, Some(deliverable_id), Some(status)) => {
                self.deliverables.set_status(SetDeliverableStatusInput { deliverable_id, status }).await
            }
            (Operation::Create, ..) => invalid("`create` takes `deliverables`, and nothing else."),
            (Operation::SetStatus, ..) => {
                invalid("`set_status` takes `deliverableId` and `status`, and nothing else.")
            }
        }
    }
}

#[async_trait]
impl Tool for DeliverableTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let arguments = match arguments::read::<Arguments>(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let result = self.carry_out(arguments).await;
        let text = serde_json::to_string(&result).unwrap_or_else(|_| result.message.clone());
        if result.success { ToolOutput::text(text) } else { ToolOutput::error(text) }
    }
}
