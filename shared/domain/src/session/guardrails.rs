//! Guardrails of the brief on what the agent receives and submits (S2 `GuardrailPolicy`; decision 79).

use super::AgentSession;
use crate::decision::{DecisionSubject, OwnerDecision, Resolution};
use crate::escalation::{BlockedInput, GuardrailTrip, InputGuardrail, TripSubject};
use crate::output::SessionOutput;
use crate::{Events, SessionEvent};

/// The events for guardrails that tripped.
fn tripped(subject: TripSubject, trips: &[GuardrailTrip]) -> Events {
    let event = |trip: &GuardrailTrip| SessionEvent::GuardrailTripped { subject, guardrail: trip.clone() };
    trips.iter().map(event).collect()
}

/// Judges a text for the agent. Returns the events for guardrails that warn or log.
///
/// # Errors
/// [`BlockedInput`] if the agent may not receive the text.
pub fn judge_input(
    guardrails: &[InputGuardrail],
    subject: TripSubject,
    text: &str,
) -> Result<Events, BlockedInput> {
    Ok(tripped(subject, &InputGuardrail::judge(guardrails, subject, text)?))
}

/// Judges what a person says to the agent in a resolution of a decision about `subject`. Returns the events for guardrails that warn or
/// log.
///
/// # Errors
/// [`BlockedInput`] if the agent may not receive the words.
pub fn judge_resolution(
    guardrails: &[InputGuardrail],
    resolution: &Resolution,
    subject: &DecisionSubject,
) -> Result<Events, BlockedInput> {
    let mut events = Events::new();
    for (what, words) in resolution.words(subject) {
        events.extend(judge_input(guardrails, what, words)?);
    }
    Ok(events)
}

impl AgentSession {
    /// Judges what a decision of the owner says to the agent. What is not open any more is refused for that reason.
    pub(crate) fn judge_decision(
        &self,
        decision: &OwnerDecision,
        guardrails: &[InputGuardrail],
    ) -> Result<Events, BlockedInput> {
        match decision {
            OwnerDecision::Answer { request, answers } => {
                let Some(asked) = self.requests.get(request) else { return Ok(Events::new()) };
                let subject = self.decision_on(asked).subject;
                judge_resolution(guardrails, &subject.resolution_of(answers), &subject)
            }
            OwnerDecision::RejectPlan { request, feedback } if self.requests.get(request).is_some() => {
                judge_input(guardrails, TripSubject::Feedback, feedback.as_str())
            }
            OwnerDecision::RejectPlan { .. }
            | OwnerDecision::AllowCall { .. }
            | OwnerDecision::ApprovePlan { .. }
            | OwnerDecision::ApproveOutput { .. }
            | OwnerDecision::RejectOutput { .. } => Ok(Events::new()),
        }
    }
}

impl BlockedInput {
    /// The events that record a refused text. Nothing else of the session changes.
    pub fn events(&self) -> Events {
        tripped(self.subject, &self.trips)
    }
}

impl SessionOutput {
    /// The events for the guardrails that tripped on the output.
    pub(super) fn guardrail_events(&self) -> Events {
        tripped(TripSubject::Output, &self.guardrails)
    }
}
