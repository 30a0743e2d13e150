//! The verdicts of the control plane in a turn: those that are awaited, and those that arrived.

use std::collections::HashMap;

use pilothouse_domain::ToolCallId;
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use super::permissions::Decided;
use crate::kit::authorizer::{Authorization, Authorizer, ProposedCall};
use crate::kit::json::text;

/// A request of Claude Code that waits for a verdict.
#[derive(Debug)]
pub(super) enum Asker {
    /// A hook with this request id.
    Hook(String),
    /// A permission request, which no hook preceded.
    Permission(Value),
}

/// The verdict on the call of a permission request.
#[derive(Debug)]
pub(super) enum CallVerdict {
    NotNeeded,
    Known(Authorization),
    /// The control plane must be asked about this call.
    Missing(ProposedCall),
}

#[derive(Debug)]
pub(super) struct VerdictArrival {
    pub(super) asker: Asker,
    pub(super) call: ToolCallId,
    pub(super) authorization: Authorization,
}

#[derive(Debug)]
struct Awaited {
    request: String,
    call: ToolCallId,
    task: AbortHandle,
}

/// The verdicts of the running turn.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    tasks: JoinSet<VerdictArrival>,
    awaited: Vec<Awaited>,
    pub(super) known: HashMap<ToolCallId, Authorization>,
    /// Decisions of the owner that arrived during a pause.
    pub(super) decided_in_pause: Vec<Decided>,
}

impl Verdicts {
    pub(super) fn ask(&mut self, authorizer: Authorizer, asker: Asker, call: ProposedCall) {
        let request = match &asker {
            Asker::Hook(request) => Some(request.as_str()),
            Asker::Permission(line) => text(line, "request_id"),
        };
        let (request, id) = (request.unwrap_or_default().to_owned(), call.id.clone());
        let task = self.tasks.spawn(async move {
            let authorization = authorizer.authorize(&call).await;
            VerdictArrival { asker, call: call.id, authorization }
        });
        self.awaited.push(Awaited { request, call: id, task });
    }

    /// The next verdict. `None` if none is awaited.
    pub(super) async fn next(&mut self) -> Option<VerdictArrival> {
        loop {
            // A task that was aborted has no verdict.
            if let Ok(arrived) = self.tasks.join_next().await? {
                self.awaited.retain(|awaited| awaited.call != arrived.call);
                return Some(arrived);
            }
        }
    }

    /// Whether the call waits for a verdict, or for the end of a pause after the owner has decided.
    pub(super) fn waits(&self, call: &str) -> bool {
        self.awaited.iter().any(|awaited| awaited.call.as_str() == call)
            || self.decided_in_pause.iter().any(|decided| decided.call.as_str() == call)
    }

    /// Discards a request that Claude Code has cancelled.
    pub(super) fn cancelled(&mut self, request: &str) {
        for awaited in self.awaited.extract_if(.., |awaited| awaited.request == request) {
            awaited.task.abort();
        }
        self.decided_in_pause.retain(|decided| decided.request != request);
    }

    /// Forgets the verdicts of the turn. Subagents in the background may still wait for theirs.
    pub(super) fn turn_ended(&mut self) {
        self.known.clear();
    }

    /// Discards everything, because the turn was interrupted or the process has ended.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
