//! Open requests of the agent, by the id of the owner's question.

use std::collections::BTreeSet;
use std::time::Duration;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::PermissionOption;
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::Inbound;
use super::permissions::{allowing, chosen, refusing};
use super::responses::{respond, selected};
use super::verdicts::{Gated, GatedRequest};
use crate::adapter::OwnerAnswers;
use crate::kit::authorizer::ProposedCall;
use crate::kit::form::Form;
use crate::kit::owner_requests::{Awaits, OwnerRequests};
use crate::kit::permission::{GovernedCall, OwnerDecision};

/// A request that waits for the owner.
#[derive(Debug)]
pub(super) enum Waiting {
    /// For permission to run a tool.
    Permission(Vec<PermissionOption>),
    Plan(Vec<PermissionOption>),
    /// Questions that the agent asks with a request for permission: its tool's call is the question.
    Questions(Vec<PermissionOption>, Value),
    Form(Form),
    /// A call that a verdict of the control plane left to the owner.
    Governed(Box<GovernedCall>, Gated, ProposedCall),
}

/// What became of the owner's answers.
pub(super) enum Answered {
    Responded,
    /// The driver carries out the decision.
    Decided(Box<GatedRequest>, OwnerDecision),
    /// No request was waiting for them.
    NotAwaited,
}

/// How long a request may wait for the announcement of the call that it is about.
const ANNOUNCED_EVENTS: Duration = Duration::from_secs(2);

/// A request about a call that the agent has not announced yet.
#[derive(Debug)]
struct Early {
    call: String,
    request: Inbound,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    open: OwnerRequests<(Waiting, Responder)>,
    early: Vec<Early>,
    /// Calls whose announcement did not come in time.
    unannounced: BTreeSet<String>,
}

impl Requests {
    /// Whether the agent may still announce the call.
    pub(super) fn may_be_announced(&self, call: &str) -> bool {
        !self.unannounced.contains(call)
    }

    /// Keeps a request until its call is announced, or for a short time.
    pub(super) fn wait_for_announcement(&mut self, call: String, request: Inbound) {
        self.early.push(Early { call, request, until: Instant::now() + ANNOUNCED_EVENTS });
    }

    /// When the first request has waited long enough for its call.
    pub(super) fn announced_until(&self) -> Option<Instant> {
        self.early.iter().map(|early| early.until).min()
    }

    /// The requests whose calls are announced, and those that have waited long enough.
    pub(super) fn take_announced(&mut self, is_announced: impl Fn(&str) -> bool) -> Vec<Inbound> {
        let now = Instant::now();
        let is_ready = |early: &mut Early| early.until <= now || is_announced(&early.call);
        let ready: Vec<_> = self.early.extract_if(.., is_ready).collect();
        self.unannounced.extend(ready.iter().map(|early| early.call.clone()));
        ready.into_iter().map(|early| early.request).collect()
    }

    /// Adds a request. A second request with the same id ends the first one, because the agent has moved on.
    pub(super) fn wait(&mut self, id: ToolCallId, waiting: Waiting, responder: Responder) {
        let awaits = if matches!(waiting, Waiting::Plan(_)) { Awaits::Decision } else { Awaits::Answers };
        if let Some((waiting, responder)) = self.open.replace(id, awaits, (waiting, responder)) {
            waiting.cancel(responder);
        }
    }

    pub(super) fn answer(&mut self, owner: OwnerAnswers) -> Answered {
        let Some((waiting, responder)) = self.open.settle(&owner.request, Awaits::Answers) else {
            return Answered::NotAwaited;
        };
        let answers = &owner.answers;
        let words = answers.first().map_or("", |answer| answer.answer.as_str());
        let response = match waiting {
            Waiting::Permission(options) | Waiting::Plan(options) => selected(chosen(words, &options)),
            Waiting::Questions(options, questions) => answered(&options, &questions, answers),
            Waiting::Form(form) => form.answered(answers),
            Waiting::Governed(governed, what, call) => {
                let decision = governed.decide(owner);
                let request = GatedRequest { what, call, responder };
                return Answered::Decided(Box::new(request), decision);
            }
        };
        respond(responder, response);
        Answered::Responded
    }

    /// Returns whether a request was waiting for the decision.
    pub(super) fn decide(&mut self, id: &ToolCallId, approved: bool) -> bool {
        let Some((Waiting::Plan(options), responder)) = self.open.settle(id, Awaits::Decision) else {
            return false;
        };
        respond(responder, selected(if approved { allowing(&options) } else { refusing(&options) }));
        true
    }

    /// Answers all open requests as cancelled, because the turn has ended or must end. Returns whether there were any.
    pub(super) fn cancel_all(&mut self) -> bool {
        let any = !self.open.is_empty() || !self.early.is_empty();
        for (waiting, responder) in self.open.clear() {
            waiting.cancel(responder);
        }
        for early in std::mem::take(&mut self.early) {
            if let Inbound::Request(method, _, responder) = early.request {
                let is_form = method == "elicitation/create";
                respond(responder, if is_form { json!({ "action": "cancel" }) } else { selected(None) });
            }
        }
        any
    }

    pub(super) fn waits(&self, id: &ToolCallId) -> bool {
        self.open.waits(id.as_str())
    }
}

impl Waiting {
    fn cancel(self, responder: Responder) {
        match self {
            Self::Permission(_) | Self::Plan(_) | Self::Questions(..) => respond(responder, selected(None)),
            Self::Form(_) => respond(responder, json!({ "action": "cancel" })),
            Self::Governed(_, what, call) => GatedRequest { what, call, responder }.cancel(),
        }
    }
}

/// The response to questions that were asked with a request for permission: each answer under the number of its
/// question, which is qwen's format.
fn answered(options: &[PermissionOption], questions: &Value, answers: &[Answer]) -> Value {
    let mut response = selected(allowing(options));
    let asked = questions.as_array().into_iter().flatten().enumerate();
    let by_number = asked.filter_map(|(number, question)| {
        let given = answers.iter().find(|answer| question["question"] == answer.question.as_str())?;
        Some((number.to_string(), Value::String(given.answer.clone())))
    });
    response["answers"] = Value::Object(by_number.collect());
    response
}
