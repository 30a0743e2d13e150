//! The decisions of a turn that are not settled.

use std::collections::{BTreeMap, VecDeque};

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::OptionProposal;
use pilothouse_shim::event::ToolApproval;
use pilothouse_shim::message::Resolution;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::turn::backoff;
use crate::kit::authorizer::{Authorization, Authorizer, ProposedCall};
use crate::kit::owner_requests::OwnerRequests;
use crate::kit::permission::GovernedCall;
use crate::retry::Backoff;

/// A request that waits for the owner. The text is the shim's id of the decision.
#[derive(Debug)]
pub(super) enum Open {
    Governed(String, Box<GovernedCall>),
    Permission(String),
    Options(String, Option<OptionProposal>),
}

/// A resolution that is sent at `due`. After the first attempt, the shim said to repeat it.
#[derive(Debug)]
pub(super) struct PendingResolution {
    pub(super) id: ToolCallId,
    /// The shim's id of the decision.
    pub(super) decision_id: String,
    pub(super) resolution: Resolution,
    pub(super) due: Instant,
    /// Attempts that failed.
    pub(super) failures: u32,
    pub(super) backoff: Backoff,
}

impl PendingResolution {
    pub(super) fn new(id: ToolCallId, decision_id: String, resolution: Resolution) -> Self {
        Self { id, decision_id, resolution, due: Instant::now(), failures: 0, backoff: backoff() }
    }
}

/// The decisions of the running turn.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) open: OwnerRequests<Open>,
    pub(super) verdicts: JoinSet<(ToolCallId, Authorization)>,
    /// Calls that wait for a verdict of the control plane.
    pub(super) awaited: BTreeMap<ToolCallId, ToolApproval>,
    /// Resolutions that arrived during a pause, or are repeated.
    pub(super) pending: VecDeque<PendingResolution>,
}

impl Decisions {
    /// The next verdict. Pending if none is awaited. Cancel-safe.
    pub(super) async fn next_verdict(&mut self) -> (ToolCallId, ToolApproval, Authorization) {
        loop {
            match self.verdicts.join_next().await {
                Some(Ok((id, authorization))) => {
                    if let Some(approval) = self.awaited.remove(&id) {
                        return (id, approval, authorization);
                    }
                }
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    pub(super) fn waits(&self, id: &ToolCallId) -> bool {
        let is_pending = self.pending.iter().any(|pending| pending.id == *id);
        is_pending || self.open.waits(id.as_str()) || self.awaited.contains_key(id)
    }

    /// When to send the next pending resolution.
    pub(super) fn resolution_due(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    pub(super) fn take_due(&mut self) -> Option<PendingResolution> {
        let now = Instant::now();
        let at = self.pending.iter().position(|pending| pending.due <= now)?;
        self.pending.remove(at)
    }

    /// The turn is over, or must end.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn ask(&mut self, authorizer: Authorizer, id: ToolCallId, approval: ToolApproval) {
        let call = ProposedCall {
            id: id.clone(),
            tool: approval.tool_name.clone(),
            kind: None,
            arguments: approval.tool_args.clone(),
        };
        let risk = approval.risk;
        self.awaited.insert(id.clone(), approval);
        self.verdicts.spawn(async move { (id, authorizer.authorize_with(&call, risk).await) });
    }
}
