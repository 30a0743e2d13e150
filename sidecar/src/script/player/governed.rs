//! Tool calls that the control plane authorizes before they run (decision 75).

use pilothouse_domain::project_agent::Delegation;
use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::Content;
use serde_json::{Value, json};

use super::{Awaited, Player, PlayerExit, Settled};
use crate::kit::authorizer::{AskVerdict, Authorization, ProposedCall};
use crate::kit::delegation;
use crate::kit::permission::{GovernedCall, OwnerDecision};
use crate::script::program::GovernedTool;
use crate::script::source::at_speed;

impl Player {
    /// Starts a subagent, unless the policy of the brief does not allow it.
    pub(super) async fn delegate(
        &mut self,
        call: &ToolCallId,
        subagent: &SubAgentId,
        steps: usize,
    ) -> Result<(), PlayerExit> {
        let delegated = Delegation::Subagent { names: &[subagent.as_str()], depth: 1 };
        let policy = self.config.policies.delegation_policy.as_ref();
        let Some(why) = delegation::denial(policy, delegated) else { return Ok(()) };
        self.skip = steps;
        let content = Content::Text(why);
        let result =
            RawEvent::ToolResult { tool_call_id: call.clone(), content, is_error: true, subagent_id: None };
        Ok(self.events.emit(result).await?)
    }

    pub(super) async fn governed_call(&mut self, tool: &GovernedTool) -> Result<(), PlayerExit> {
        let decision = match self.authorization(&tool.call).await? {
            Authorization::Allow => OwnerDecision::Allow(None),
            Authorization::Deny(reason) => OwnerDecision::Deny(reason),
            Authorization::Ask(verdict) => self.ask_owner(&tool.call, verdict).await?,
        };
        match decision {
            OwnerDecision::Deny(reason) => {
                self.result(&tool.call, Content::Text(reason), true, tool.subagent.clone()).await
            }
            OwnerDecision::Allow(modified) => {
                if !tool.time.is_zero() {
                    self.sleep(at_speed(tool.time, self.source.speed)).await?;
                }
                let Some(result) = tool.result.clone() else { return Ok(()) };
                let result = modified.map_or_else(|| result.clone(), |input| with_input(&input, &result));
                self.result(&tool.call, result, tool.is_error, tool.subagent.clone()).await
            }
        }
    }

    /// Handles commands until the verdict has arrived and the agent is not paused.
    async fn authorization(&mut self, call: &ProposedCall) -> Result<Authorization, PlayerExit> {
        let Some(authorizer) = self.authorizer.clone() else { return Ok(Authorization::Allow) };
        let asking = authorizer.authorize(call);
        tokio::pin!(asking);
        let authorization = loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => self.handle(command.ok_or(PlayerExit::Over)?).await?,
                authorization = &mut asking => break authorization,
            }
        };
        while self.paused {
            self.command().await?;
        }
        Ok(authorization)
    }

    async fn ask_owner(
        &mut self,
        call: &ProposedCall,
        verdict: AskVerdict,
    ) -> Result<OwnerDecision, PlayerExit> {
        let governed = GovernedCall {
            id: call.id.clone(),
            tool: call.tool.clone(),
            input: call.arguments.clone(),
            verdict,
            modifiable: true,
        };
        self.events.emit(governed.question()).await?;
        match self.until_settled(Awaited::Permission(call.id.clone())).await? {
            Settled::Answer(owner) => Ok(governed.decide(owner)),
            // Nothing else settles a permission.
            Settled::Message | Settled::Command | Settled::Decision(_) => {
                Ok(OwnerDecision::Deny("The call was withdrawn.".to_owned()))
            }
        }
    }

    pub(super) async fn result(
        &self,
        call: &ProposedCall,
        content: Content,
        is_error: bool,
        subagent_id: Option<SubAgentId>,
    ) -> Result<(), PlayerExit> {
        let tool_call_id = call.id.clone();
        Ok(self.events.emit(RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id }).await?)
    }
}

/// Shows the input that the owner gave the call.
fn with_input(input: &Value, result: &Content) -> Content {
    Content::Json(json!({ "modifiedInput": input, "result": result }))
}
