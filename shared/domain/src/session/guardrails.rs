//! Guardrails of the brief on what the agent receives and submits (S2 `GuardrailPolicy`; decision 79).

use crate::escalation::{BlockedInput, GuardrailTrip, InputGuardrail, TripSubject};
use crate::value::SessionOutput;
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
