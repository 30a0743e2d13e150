//! What the agent waits for, by the id under which its owner was asked.

use std::collections::BTreeMap;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    PermissionOption, RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use serde_json::{Value, json};

use super::elicitation::Form;
use super::permissions::{allowing, chosen, refusing};

/// What is waited for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Whether a tool may run.
    Permission(Vec<PermissionOption>),
    /// Whether a plan may be carried out.
    Plan(Vec<PermissionOption>),
    /// A form.
    Form(Form),
}

/// The requests that are open.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<ToolCallId, (Waiting, Responder)>,
}

impl Requests {
    /// Waits for the owner. A second request under one id ends the first: the agent has gone on.
    pub(super) fn wait(&mut self, id: ToolCallId, waiting: Waiting, responder: Responder) {
        if let Some((waiting, responder)) = self.open.insert(id, (waiting, responder)) {
            respond(responder, waiting.cancelled());
        }
    }

    /// The owner's answers. Answers whether something waited for them.
    pub(super) fn answer(&mut self, id: &ToolCallId, answers: &[Answer]) -> bool {
        let waits = self.open.get(id).is_some_and(|(waiting, _)| !matches!(waiting, Waiting::Plan(_)));
        let Some((waiting, responder)) = waits.then(|| self.open.remove(id)).flatten() else { return false };
        let words = answers.first().map_or("", |answer| answer.answer.as_str());
        let response = match &waiting {
            Waiting::Permission(options) | Waiting::Plan(options) => selected(chosen(words, options)),
            Waiting::Form(form) => form.answered(answers),
        };
        respond(responder, response);
        true
    }

    /// The owner's decision on a plan. Answers whether it was waited for.
    pub(super) fn decide(&mut self, id: &ToolCallId, approved: bool) -> bool {
        if !matches!(self.open.get(id), Some((Waiting::Plan(_), _))) {
            return false;
        }
        let Some((Waiting::Plan(options), responder)) = self.open.remove(id) else { return false };
        respond(responder, selected(if approved { allowing(&options) } else { refusing(&options) }));
        true
    }

    /// The turn is over, or is to end: everything that waits is answered with that.
    pub(super) fn cancel_all(&mut self) {
        for (waiting, responder) in std::mem::take(&mut self.open).into_values() {
            respond(responder, waiting.cancelled());
        }
    }

    /// Whether something waits under this id.
    pub(super) fn waits(&self, id: &ToolCallId) -> bool {
        self.open.contains_key(id)
    }
}

impl Waiting {
    fn cancelled(&self) -> Value {
        match self {
            Self::Permission(_) | Self::Plan(_) => selected(None),
            Self::Form(_) => json!({ "action": "cancel" }),
        }
    }
}

/// The response that selects an option; without one the request is cancelled.
pub(super) fn selected(option: Option<&PermissionOption>) -> Value {
    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
    });
    // A response that is made here can be written.
    serde_json::to_value(RequestPermissionResponse::new(outcome)).unwrap_or_default()
}

/// Answers the agent; one that is gone is told by the end of its output.
pub(super) fn respond(responder: Responder, response: Value) {
    if let Err(error) = responder.respond(response) {
        tracing::debug!(code = ?error.code, "the agent could not be answered");
    }
}

/// Refuses the agent what it asked, with a sentence.
pub(super) fn refuse(responder: Responder, why: &str) {
    let error = agent_client_protocol::Error::invalid_params().data(why);
    if let Err(error) = responder.respond_with_error(error) {
        tracing::debug!(code = ?error.code, "the agent could not be answered");
    }
}
