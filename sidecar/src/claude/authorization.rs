//! Verdicts of the control plane on tool calls, in a project (decision 75). A call is authorized at its hook
//! `PreToolUse`. Claude Code then runs it, or asks for permission if the owner decides. The driver handles its output and
//! commands meanwhile.

use pilothouse_domain::ToolCallId;
use serde_json::Value;

use super::driver::Driver;
use super::permissions::Decided;
use super::tool_hooks::{Mode, Released};
use super::verdicts::{Asker, CallVerdict, VerdictArrival};
use crate::adapter::AdapterError;
use crate::kit::authorizer::{Authorization, ProposedCall};
use crate::kit::json::text;
use crate::tool_names::is_exempt;

impl Driver {
    /// Asks for the verdict on a call, which [`Self::verdict_arrived`] gets.
    pub(super) fn ask_for_verdict(&mut self, asker: Asker, call: ProposedCall) {
        if let Some(authorizer) = self.authorizer.clone() {
            self.verdicts.ask(authorizer, asker, call);
        }
    }

    /// Answers the hooks that a pause has held, or asks for their verdicts.
    pub(super) fn answer_hooks(&mut self, released: Released) {
        for (request, response) in released.answers {
            self.respond(&request, &response);
        }
        for (request, call) in released.authorize {
            self.ask_for_verdict(Asker::Hook(request), call);
        }
    }

    pub(super) async fn verdict_arrived(&mut self, arrived: VerdictArrival) -> Result<(), AdapterError> {
        if self.lease.is_expired() {
            // The sidecar and the guard are about to end Claude Code.
            self.tool_hooks.pause();
        }
        let VerdictArrival { asker, call, authorization } = arrived;
        self.verdicts.known.insert(call, authorization.clone());
        match asker {
            Asker::Hook(request) => {
                if let Some(answer) = self.tool_hooks.decide(&request, &authorization) {
                    self.respond(&request, &answer);
                }
                Ok(())
            }
            Asker::Permission(line) if self.tool_hooks.mode() == Mode::Paused => {
                self.requests_during_pause.push(line);
                Ok(())
            }
            Asker::Permission(line) => self.permission(&line).await,
        }
    }

    /// The verdict on the call of a permission request.
    pub(super) fn verdict_on(&self, asked: &Value) -> CallVerdict {
        let tool = text(asked, "tool_name").unwrap_or_default();
        if self.authorizer.is_none() || is_exempt(tool) {
            return CallVerdict::NotNeeded;
        }
        let Some(Ok(id)) = text(asked, "tool_use_id").map(ToolCallId::parse) else {
            let why = "The request did not name its tool call.".to_owned();
            return CallVerdict::Known(Authorization::Deny(why));
        };
        if let Some(known) = self.verdicts.known.get(&id) {
            return CallVerdict::Known(known.clone());
        }
        let arguments = asked.get("input").cloned().unwrap_or_default();
        CallVerdict::Missing(ProposedCall { id, tool: tool.to_owned(), kind: None, arguments })
    }

    /// Passes on the owner's decision on a call, after a pause if there is one.
    pub(super) fn decided(&mut self, decided: Decided) {
        if self.tool_hooks.mode() == Mode::Paused {
            self.verdicts.decided_in_pause.push(decided);
        } else {
            self.respond(&decided.request, &decided.response);
        }
    }

    pub(super) fn release_decided(&mut self) {
        for decided in std::mem::take(&mut self.verdicts.decided_in_pause) {
            self.respond(&decided.request, &decided.response);
        }
    }
}
