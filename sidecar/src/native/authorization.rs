//! Permission for tool calls in a session that belongs to a project (decision 75): the control plane authorizes a call,
//! or leaves it to the owner. Meanwhile the agent waits, and the driver handles commands.

use pilothouse_agent::governor::ToolVerdict;

use super::driver::Driver;
use super::emit::call_id;
use super::governor::{ToolPermission, ToolRequest};
use crate::kit::authorizer::{AskVerdict, Authorization, Authorizer, ProposedCall};
use crate::kit::permission::{GovernedCall, OwnerDecision};
use crate::kit::turns::DriverExit;
use crate::own_tools::requests::OpenRequest;

impl Driver {
    /// Takes the next step towards a decision on the call. Not called during a pause.
    pub(super) async fn permit(&mut self, mut request: ToolRequest) -> Result<(), DriverExit> {
        let permission = std::mem::replace(&mut request.permission, ToolPermission::Unknown);
        match permission {
            ToolPermission::Unknown => match &self.authorizer {
                Some(authorizer) if !self.setup.is_own_tool(&request.call.name) => {
                    self.permitting.spawn(authorize(authorizer.clone(), request));
                }
                _ => request.decide(ToolVerdict::Go),
            },
            ToolPermission::LeftToOwner(verdict) => {
                let call = governed(&request, verdict);
                let open = self.setup.requests.open_permission(call.id.clone());
                self.events.emit(call.question()).await?;
                self.permitting.spawn(ask_owner(request, call, open));
            }
            ToolPermission::Decided(verdict) => request.decide(verdict),
        }
        Ok(())
    }
}

fn governed(request: &ToolRequest, verdict: AskVerdict) -> GovernedCall {
    GovernedCall {
        id: call_id(&request.call.id),
        tool: request.call.name.clone(),
        input: request.call.arguments.clone(),
        verdict,
        modifiable: true,
    }
}

/// Ends early if the agent gives the call up.
async fn authorize(authorizer: Authorizer, mut request: ToolRequest) -> ToolRequest {
    let call = ProposedCall {
        id: call_id(&request.call.id),
        tool: request.call.name.clone(),
        kind: None,
        arguments: request.call.arguments.clone(),
    };
    let authorization = tokio::select! {
        authorization = authorizer.authorize(&call) => authorization,
        () = request.given_up() => return request,
    };
    request.permission = match authorization {
        Authorization::Allow => ToolPermission::Decided(ToolVerdict::Go),
        Authorization::Deny(why) => ToolPermission::Decided(ToolVerdict::Refuse(why)),
        Authorization::Ask(verdict) => ToolPermission::LeftToOwner(verdict),
    };
    request
}

/// Ends early if the agent gives the call up.
async fn ask_owner(mut request: ToolRequest, call: GovernedCall, open: OpenRequest) -> ToolRequest {
    let answered = tokio::select! {
        answered = open.answered() => answered,
        () = request.given_up() => return request,
    };
    let verdict = match answered.map(|owner| call.decide(owner)) {
        Ok(OwnerDecision::Allow(None)) => ToolVerdict::Go,
        Ok(OwnerDecision::Allow(Some(input))) => ToolVerdict::GoWith(input),
        Ok(OwnerDecision::Deny(why)) => ToolVerdict::Refuse(why),
        Err(withdrawn) => ToolVerdict::Refuse(withdrawn.to_string()),
    };
    request.permission = ToolPermission::Decided(verdict);
    request
}
