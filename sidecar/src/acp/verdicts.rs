//! Requests of the agent that wait for a verdict of the control plane, and the verdicts of a turn.

use std::collections::{BTreeMap, VecDeque};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::PermissionOption;
use serde_json::Value;
use tokio::task::JoinSet;

use super::responses::{refuse, respond, selected};
use crate::kit::authorizer::{Authorization, Authorizer, ProposedCall};
use crate::kit::permission::OwnerDecision;

/// What the agent does once the call is allowed.
#[derive(Debug)]
pub(super) enum Gated {
    /// It runs the call after one of these options.
    Permission(Vec<PermissionOption>),
    /// The sidecar writes a file for it: the parameters of `fs/write_text_file`.
    Write(Value),
    /// The sidecar runs a command for it: the parameters of `terminal/create`.
    Terminal(Value),
}

/// A request that waits for a verdict or for the end of a pause.
#[derive(Debug)]
pub(super) struct GatedRequest {
    pub what: Gated,
    pub call: ProposedCall,
    pub responder: Responder,
}

impl GatedRequest {
    /// Answers a request of a turn that has ended or must end.
    pub(super) fn cancel(self) {
        match self.what {
            Gated::Permission(_) => respond(self.responder, selected(None)),
            Gated::Write(_) | Gated::Terminal(_) => refuse(self.responder, "no turn runs"),
        }
    }
}

/// The verdicts of the running turn.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    tasks: JoinSet<(u64, Authorization)>,
    awaited: BTreeMap<u64, GatedRequest>,
    asked: u64,
    /// Decisions of the owner that arrived during a pause.
    pub(super) decided: VecDeque<(GatedRequest, OwnerDecision)>,
    /// Arguments of permitted calls. Each covers one request to the sidecar.
    pub(super) permitted: Vec<Value>,
}

impl Verdicts {
    pub(super) fn ask(&mut self, authorizer: Authorizer, request: GatedRequest) {
        self.asked += 1;
        let (number, call) = (self.asked, request.call.clone());
        self.awaited.insert(number, request);
        self.tasks.spawn(async move { (number, authorizer.authorize(&call).await) });
    }

    /// The next verdict. `None` if none is awaited.
    pub(super) async fn next(&mut self) -> Option<(GatedRequest, Authorization)> {
        loop {
            let Ok((number, authorization)) = self.tasks.join_next().await? else { continue };
            if let Some(request) = self.awaited.remove(&number) {
                return Some((request, authorization));
            }
        }
    }

    /// Cancels all requests, because the turn has ended or must end. Returns whether there were any.
    pub(super) fn cancel_all(&mut self) -> bool {
        let Self { awaited, decided, .. } = std::mem::take(self);
        let requests: Vec<_> = awaited.into_values().chain(decided.into_iter().map(|it| it.0)).collect();
        let any = !requests.is_empty();
        requests.into_iter().for_each(GatedRequest::cancel);
        any
    }
}
