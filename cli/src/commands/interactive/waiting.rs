//! The decisions that wait, and the one that is shown.
//!
//! Only the person moves the cursor: a decision that is over stays on the screen with its outcome, and a new one is announced. So a
//! key never answers another decision than the one that the person has read.

use std::cmp::Reverse;

use pilothouse_api::decisions::DecisionView;
use pilothouse_domain::Timestamp;
use pilothouse_domain::decision::DecisionState;
use pilothouse_domain::effect::{BlastRadius, Severity};

use crate::output::inbox::outcome;
use crate::output::interactive::{InboxScreen, short_id};

#[derive(Debug, Default)]
pub(super) struct WaitingDecisions {
    /// In the order of the inbox.
    pending: Vec<DecisionView>,
    shown: Option<Shown>,
    /// A line for the person, until the next answer or step.
    notice: Option<String>,
}

#[derive(Debug)]
struct Shown {
    decision: DecisionView,
    /// What became of it.
    over: Option<String>,
    /// It asks something else than when the person saw it first, and was not answered since.
    changed: bool,
}

/// The place in the order of the inbox.
fn place(decision: &DecisionView) -> (Reverse<Severity>, Reverse<BlastRadius>, Timestamp, String) {
    (
        Reverse(decision.severity.unwrap_or(Severity::Medium)),
        Reverse(decision.blast_radius.unwrap_or(BlastRadius::Small)),
        decision.created_at,
        decision.id.to_string(),
    )
}

/// Whether an answer to `shown` may not be sent for `current`. A moved deadline changes nothing of the request.
pub(super) fn asks_something_else(current: &DecisionView, shown: &DecisionView) -> bool {
    let request = |it: &DecisionView| (it.subject.clone(), it.severity, it.blast_radius);
    let waits = matches!(current.state, DecisionState::Pending | DecisionState::Orphaned { .. });
    let is_orphaned = |it: &DecisionView| matches!(it.state, DecisionState::Orphaned { .. });
    !waits || is_orphaned(current) != is_orphaned(shown) || request(current) != request(shown)
}

impl WaitingDecisions {
    /// The server listed what is pending.
    pub(super) fn listed(&mut self, all: Vec<DecisionView>) {
        self.pending = all;
        self.pending.sort_by_key(place);
        let Some(shown) = &mut self.shown else { return self.show_at(0) };
        match self.pending.iter().find(|one| one.id == shown.decision.id) {
            Some(current) => shown.take(current),
            None if shown.over.is_none() => shown.over = Some("it no longer waits".to_owned()),
            None => {}
        }
    }

    /// A decision was opened or changed, or is over.
    pub(super) fn changed(&mut self, decision: DecisionView, now: Timestamp) {
        let is_new = self.pending.iter().all(|one| one.id != decision.id);
        self.pending.retain(|one| one.id != decision.id);
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.decision.id == decision.id);
        if let Some(outcome) = outcome(&decision.state, now) {
            if is_shown && let Some(shown) = &mut self.shown {
                shown.over = Some(outcome);
            } else if !is_new {
                self.notice = Some(format!("{} is over: {outcome}", short_id(&decision)));
            }
            return;
        }
        if is_shown && let Some(shown) = &mut self.shown {
            shown.take(&decision);
        } else if is_new
            && let Some(shown) = &self.shown
            && place(&decision) < place(&shown.decision)
        {
            self.notice = Some(format!("{} is new and more important; press p", short_id(&decision)));
        }
        let at = self.pending.partition_point(|one| place(one) < place(&decision));
        self.pending.insert(at, decision);
        if self.shown.is_none() {
            self.show_at(0);
        }
    }

    pub(super) fn announce(&mut self, notice: String) {
        self.notice = Some(notice);
    }

    pub(super) fn shown(&self) -> Option<&DecisionView> {
        self.shown.as_ref().map(|shown| &shown.decision)
    }

    /// The decision that a key answers now.
    pub(super) fn answerable(&mut self) -> Result<&DecisionView, String> {
        self.notice = None;
        let Some(shown) = &mut self.shown else { return Err("Nothing waits for you.".to_owned()) };
        if shown.over.is_some() {
            return Err("This decision is over; press n for the next one.".to_owned());
        }
        if std::mem::take(&mut shown.changed) {
            return Err("This request has changed; read it, and press the key again.".to_owned());
        }
        Ok(&shown.decision)
    }

    pub(super) fn next(&mut self) {
        let at = self.shown().map_or(0, |shown| {
            let after = place(shown);
            self.pending.iter().position(|one| place(one) > after).unwrap_or(0)
        });
        self.show_at(at);
    }

    pub(super) fn previous(&mut self) {
        let last = self.pending.len().saturating_sub(1);
        let at = self.shown().map_or(0, |shown| {
            let before = place(shown);
            self.pending.iter().rposition(|one| place(one) < before).unwrap_or(last)
        });
        self.show_at(at);
    }

    fn show_at(&mut self, at: usize) {
        self.notice = None;
        let decision = self.pending.get(at).cloned();
        self.shown = decision.map(|decision| Shown { decision, over: None, changed: false });
    }

    pub(super) fn view(&self) -> InboxScreen<'_> {
        let shown = self.shown.as_ref();
        InboxScreen {
            pending: self.pending.len(),
            position: shown.and_then(|shown| self.pending.iter().position(|one| one.id == shown.decision.id)),
            decision: shown.map(|shown| &shown.decision),
            over: shown.and_then(|shown| shown.over.as_deref()),
            can_always: shown.is_some_and(|shown| super::resolving::can_always(&shown.decision)),
            notice: self.notice.as_deref(),
        }
    }
}

impl Shown {
    fn take(&mut self, current: &DecisionView) {
        if asks_something_else(current, &self.decision) {
            self.changed = true;
        }
        self.decision = current.clone();
        self.over = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DecisionView, WaitingDecisions};
    use crate::output::fixtures::{decision, now};

    fn call(id: u8, severity: &str, state: &Value) -> DecisionView {
        let mut view = json!({
            "id": format!("92944b5c-793e-8b52-bac8-e2d4a75f6e{id:02}"),
            "kind": "tool_approval", "requestId": "t1", "question": "May it?", "toolName": "Bash",
            "input": "{}", "allow": "Allow", "deny": "Deny", "severity": severity, "resolutions": ["approve"],
        });
        for (name, value) in state.as_object().unwrap() {
            view[name] = value.clone();
        }
        decision(&view)
    }

    fn pending() -> Value {
        json!({ "state": "pending" })
    }

    fn resolved() -> Value {
        json!({ "state": "resolved", "resolution": { "resolutionType": "approve" },
            "resolvedBy": { "type": "owner", "id": "ada" }, "resolvedAt": "2026-11-21T20:01:50.000Z" })
    }

    #[test]
    fn only_the_person_moves_the_cursor() {
        let (low, high) = (call(1, "low", &pending()), call(2, "critical", &pending()));
        let mut waiting = WaitingDecisions::default();
        waiting.listed(vec![low.clone()]);
        waiting.changed(high.clone(), now());
        assert_eq!(waiting.answerable().unwrap().id, low.id, "the new one is only announced");
        waiting.previous();
        assert_eq!(waiting.answerable().unwrap().id, high.id);
        waiting.changed(call(2, "critical", &resolved()), now());
        assert!(waiting.answerable().is_err(), "it is over, and the next one is not answered instead");
        assert_eq!(waiting.view().over, Some("approved by ada 10 s ago"));
        waiting.next();
        assert_eq!(waiting.answerable().unwrap().id, low.id);
    }

    #[test]
    fn changed_request_needs_the_key_again() {
        let first = call(1, "low", &pending());
        let mut waiting = WaitingDecisions::default();
        waiting.listed(vec![first.clone()]);
        waiting.changed(
            call(1, "low", &json!({ "state": "pending", "expiresAt": "2026-11-22T20:02:00.000Z" })),
            now(),
        );
        assert!(waiting.answerable().is_ok(), "a deadline is no other request");
        waiting
            .changed(call(1, "low", &json!({ "state": "pending", "input": "{\"command\":\"rm\"}" })), now());
        assert!(waiting.answerable().is_err());
        assert!(waiting.answerable().is_ok(), "the person has read it");
        waiting.listed(Vec::new());
        assert!(waiting.answerable().is_err(), "it is not listed any more");
    }
}
