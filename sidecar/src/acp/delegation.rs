//! Subagents that the policy of the brief does not allow (decision 92). If the agent asks before a call that starts such a subagent, the
//! call is refused. Many agents do not ask; an agent that starts a forbidden subagent is ended.

use pilothouse_domain::project_agent::Delegation;
use pilothouse_wire::RawEvent;
use serde_json::Value;

use super::driver::Driver;
use crate::kit::delegation::{SUBAGENT_TOOLS, called_subagent, denial};
use crate::kit::turns::DriverExit;

impl Driver {
    /// The reason to refuse a call that starts a subagent. `None` if the call is allowed.
    pub(super) fn denied_call(&self, tool: &str, arguments: &Value) -> Option<String> {
        let name = called_subagent(tool, arguments)?;
        let policy = self.config.policies.delegation_policy.as_ref();
        denial(policy, Delegation::Subagent { names: &[name], depth: 1 })
    }

    /// The reason why a subagent of these events is forbidden. Agents do not report the nesting depth of their subagents.
    pub(super) fn denied_subagent(&self, events: &[RawEvent]) -> Option<String> {
        let policy = self.config.policies.delegation_policy.as_ref()?;
        events.iter().find_map(|event| {
            let RawEvent::SubagentStarted { subagent_id, tool_call_id, .. } = event else { return None };
            let call = tool_call_id.as_ref().and_then(|call| self.translator.calls.input(call.as_str()));
            let name = call.and_then(|input| called_subagent(SUBAGENT_TOOLS[0], input));
            let names = [name.unwrap_or_else(|| subagent_id.as_str())];
            denial(Some(policy), Delegation::Subagent { names: &names, depth: 1 })
        })
    }

    /// Ends the conversation of an agent with a forbidden subagent.
    pub(super) async fn end_denied_subagent(&mut self, why: &str) -> Result<(), DriverExit> {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
        self.abandon_turn("the agent was ended").await?;
        Err(DriverExit::agent(format!("it started a subagent that its brief does not allow: {why}")))
    }
}
