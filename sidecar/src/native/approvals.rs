//! Answers the agent's requests to proceed: the agent continues, waits, or gets a message first (decisions 15, 29, 32).

use pilothouse_agent::governor::CallPurpose;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::RawEvent;

use super::Native;
use super::allowance::{Coverage, coverage};
use super::driver::Driver;
use super::governor::ApprovalRequest;
use crate::adapter::Adapter as _;
use crate::kit::turns::DriverExit;

impl Driver {
    /// Decides on a request to proceed. `again`: the agent was held before.
    pub(super) async fn handle_approval(
        &mut self,
        request: ApprovalRequest,
        again: bool,
    ) -> Result<(), DriverExit> {
        // Publishes earlier events before the answer.
        self.drain().await?;
        if request.is_over() {
            return Ok(());
        }
        if matches!(&request, ApprovalRequest::Model(call, _) if call.purpose != CallPurpose::BackgroundCompaction)
        {
            self.retrying = false;
        }
        if let ApprovalRequest::AfterTool(_) = request {
            if !self.paused {
                self.steer().await?;
            }
            request.approve();
            return Ok(());
        }
        if let ApprovalRequest::Model(call, _) = &request
            && call.purpose == CallPurpose::BackgroundCompaction
        {
            // A compaction is never held: the agent requests it again after its next turn.
            if self.paused || coverage(&self.allowance, call) != Coverage::Whole {
                request.stop("Not now: the conversation is summarised later.");
            } else {
                request.approve();
            }
            return Ok(());
        }
        if self.paused {
            self.held_request = Some(request);
            return self.confirm_pause().await;
        }
        let turn = !matches!(&request, ApprovalRequest::Model(call, _) if call.purpose != CallPurpose::Turn);
        let now = again || matches!(request, ApprovalRequest::Model(..));
        if turn && now && self.work.is_some() && self.held.has_immediate() {
            // The message goes first: the turn continues with it once the agent is idle.
            request.stop("Not done: your owner has a message for you that goes before it.");
            return Ok(());
        }
        if let ApprovalRequest::Model(call, _) = &request {
            let unmetered = call.worst_case_usd.is_none();
            self.emit_metering(unmetered).await?;
            if unmetered && !self.allow_unmetered {
                self.held_request = Some(request);
                return Ok(());
            }
        }
        let coverage = match &request {
            ApprovalRequest::Model(call, _) => coverage(&self.allowance, call),
            _ => Coverage::Whole,
        };
        if let Coverage::Nothing(exceeded) = coverage {
            if !std::mem::replace(&mut self.over_budget, true) {
                self.events.emit(*exceeded).await?;
            }
            self.held_request = Some(request);
            return Ok(());
        }
        self.over_budget = false;
        if let Coverage::Part(tokens) = coverage {
            request.approve_within(tokens);
            return Ok(());
        }
        match request {
            ApprovalRequest::Tool(request) => self.permit(request).await,
            request => {
                request.approve();
                Ok(())
            }
        }
    }

    /// Publishes a change of whether the model's price is known. Models without a known price need the owner's
    /// permission.
    async fn emit_metering(&mut self, unmetered: bool) -> Result<(), DriverExit> {
        if self.unmetered == unmetered {
            return Ok(());
        }
        self.unmetered = unmetered;
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: Native::NAME.into(),
            capabilities: Capabilities { unmetered, ..Native::new(self.authorizer.is_some()).capabilities() },
        };
        Ok(self.events.emit(ready).await?)
    }

    /// The reason for holding it may no longer apply.
    pub(super) async fn reconsider_held_request(&mut self) -> Result<(), DriverExit> {
        match self.held_request.take() {
            Some(request) => self.handle_approval(request, true).await,
            None => Ok(()),
        }
    }

    /// Whether the agent does nothing: it is held, waits for a permission, its owner or a retry, or has no work.
    pub(super) fn is_idle(&self) -> bool {
        let held = self.held_request.as_ref().is_some_and(|request| !request.is_over());
        let waits = !self.setup.requests.waiting().is_empty();
        let waits = held || waits || self.retrying || !self.permitting.is_empty();
        self.owner_commands.is_empty() && (waits || (self.work.is_none() && self.compacting.is_empty()))
    }

    /// Acknowledges a pause once it has taken effect (decision 15).
    pub(super) async fn confirm_pause(&mut self) -> Result<(), DriverExit> {
        if self.paused && !self.pausing.is_empty() && self.is_idle() {
            self.drain().await?;
            if let Ok(session) = self.session()
                && !session.pause_commands().await
            {
                session.stop_commands().await;
            }
            self.pausing.done().await?;
        }
        Ok(())
    }
}
