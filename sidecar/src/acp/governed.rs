//! Requests of the agent that need a verdict of the control plane, in a project (decision 75): permissions, and files
//! and commands of calls that were not permitted. The driver handles messages and commands meanwhile.

use agent_client_protocol::v1::Responder;
use pilothouse_domain::ToolCallId;

use super::driver::Driver;
use super::gated_call::{is_covered, terminal_call, write_call};
use super::permissions::{allowing, refusing};
use super::requests::Waiting;
use super::responses::{refuse, respond, selected};
use super::verdicts::{Gated, GatedRequest};
use super::work::Turn;
use crate::kit::authorizer::Authorization;
use crate::kit::permission::{GovernedCall, OwnerDecision};
use crate::kit::turns::DriverExit;

impl Driver {
    pub(super) fn is_governed(&self) -> bool {
        self.authorizer.is_some()
    }

    /// Carries out a request for a file or a command, once it is allowed.
    pub(super) fn gate(&mut self, what: Gated, responder: Responder) -> Result<(), DriverExit> {
        let is_live = self.turn.as_ref().is_some_and(|turn| !turn.is_ending());
        if !self.is_governed() || !is_live {
            self.carry_out(what, responder);
            return Ok(());
        }
        self.question_count += 1;
        let id = ToolCallId::parse(format!("request-{}-{}", self.run, self.question_count))
            .map_err(|e| DriverExit::agent(e.to_string()))?;
        let proposed = match &what {
            Gated::Write(parameters) => write_call(id, parameters),
            Gated::Terminal(parameters) => terminal_call(id, parameters),
            Gated::Permission(_) => None,
        };
        let folder = self.folder.path();
        let covered = self.verdicts.permitted.iter().position(|call| is_covered(&what, call, folder));
        match (proposed, covered) {
            (Some(_), Some(covered)) => {
                self.verdicts.permitted.remove(covered);
                self.carry_out(what, responder);
            }
            (Some(call), None) => self.authorize(GatedRequest { what, call, responder }),
            // The parameters are not valid, which the response will say.
            (None, _) => self.carry_out(what, responder),
        }
        Ok(())
    }

    /// Asks for a verdict, which [`Self::verdict_arrived`] gets.
    pub(super) fn authorize(&mut self, request: GatedRequest) {
        if let Some(authorizer) = self.authorizer.clone() {
            self.verdicts.ask(authorizer, request);
        }
    }

    /// Not called during a pause.
    pub(super) async fn verdict_arrived(
        &mut self,
        request: GatedRequest,
        authorization: Authorization,
    ) -> Result<(), DriverExit> {
        if self.turn.as_ref().is_none_or(Turn::is_ending) {
            request.cancel();
            return Ok(());
        }
        match authorization {
            Authorization::Allow => self.settle(request, OwnerDecision::Allow(None)),
            Authorization::Deny(why) => self.settle(request, OwnerDecision::Deny(why)),
            Authorization::Ask(verdict) => {
                let GatedRequest { what, call, responder } = request;
                let governed = GovernedCall {
                    id: call.id.clone(),
                    tool: call.tool.clone(),
                    input: call.arguments.clone(),
                    verdict,
                    // The protocol cannot change the input of a call.
                    modifiable: false,
                };
                let question = governed.question();
                let waiting = Waiting::Governed(Box::new(governed), what, call.clone());
                self.requests.wait(call.id, waiting, responder);
                self.events.emit(question).await?;
            }
        }
        Ok(())
    }

    /// Carries out the decision on a request.
    pub(super) fn settle(&mut self, request: GatedRequest, decision: OwnerDecision) {
        let GatedRequest { what, call, responder } = request;
        match (what, decision) {
            (Gated::Permission(options), OwnerDecision::Allow(_)) => {
                self.verdicts.permitted.push(call.arguments);
                respond(responder, selected(allowing(&options)));
            }
            (Gated::Permission(options), OwnerDecision::Deny(_)) => {
                // The protocol has no field for the reason.
                respond(responder, selected(refusing(&options)));
            }
            (what, OwnerDecision::Allow(_)) => self.carry_out(what, responder),
            (_, OwnerDecision::Deny(why)) => refuse(responder, &why),
        }
    }

    fn carry_out(&mut self, what: Gated, responder: Responder) {
        match what {
            Gated::Write(parameters) => self.write_file(parameters, responder),
            Gated::Terminal(parameters) => self.create_terminal(parameters, responder),
            Gated::Permission(options) => respond(responder, selected(allowing(&options))),
        }
    }

    /// Cancels all requests of the agent. Returns whether there were any.
    pub(super) fn cancel_requests(&mut self) -> bool {
        let asked_owner = self.requests.cancel_all();
        self.verdicts.cancel_all() || asked_owner
    }
}
