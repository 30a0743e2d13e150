//! Consequences of a change, which are committed together with it.

use super::Conversation;
use crate::output_schema::OutputViolation;
use crate::session::AgentSessionStatus as S;
use crate::session::{AgentFact, InFlightStep, RunCause, SessionError};
use crate::text::cut;
use crate::value::{AutoContinueEnd, MessageSource};
use crate::{DomainContext, Events, SessionEvent};

/// Most characters of the objections to an output. Its message says what to do after them.
const MAX_OBJECTIONS: usize = 3800;

impl Conversation {
    /// Applies what follows from a change before it is committed: deferred facts and cancellations, the pause at the budget cap,
    /// sending messages, and requesting or giving up a run. `before` holds the events of the change. Without new events a second
    /// call does nothing.
    pub fn settle(&mut self, before: &Events, ctx: &mut DomainContext<'_>) -> Events {
        let mut events = Vec::new();
        for event in before {
            match event {
                SessionEvent::BudgetWarning { spent_usd, cap_usd, percent_used } => {
                    let text = format!(
                        "Budget notice: {percent_used}% of {cap_usd} dollars are spent ({spent_usd}). Wrap up."
                    );
                    // Send the notice only into a turn that is spending. Otherwise it would start a turn and spend more.
                    let turn = self.session.turn().map(|turn| turn.id.clone());
                    if turn.is_some() || self.session.status() == S::Running {
                        events.extend(self.enqueue_internal(MessageSource::System, &text, turn, ctx));
                    }
                }
                // Messages that the owner sends after this request are not held.
                SessionEvent::InterruptRequested { .. } => events.extend(self.queue.hold_at_interrupt()),
                _ => {}
            }
        }
        // Each round resolves at least one thing. The bound only guards against a bug.
        for _ in 0..256 {
            match self.settle_once(ctx) {
                Ok(round) if round.is_empty() => break,
                Ok(round) => events.extend(round),
                Err(refusal) => {
                    // The status is checked before each step, so none is refused. If one is after all, the journal records it.
                    debug_assert!(false, "a follow-up was refused: {refusal}");
                    events.push(Self::ignored("FollowUp", Self::reason(&refusal)));
                    break;
                }
            }
        }
        events
    }

    /// Resolves one thing that follows from the current state. Returns no events if there is nothing to resolve.
    fn settle_once(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let status = self.session.status();
        if status.is_terminal() {
            return Ok(self.settle_end(ctx));
        }
        if self.session.cancel_accepted() && self.session.is_resume_unsent() {
            // No sidecar will acknowledge the resume soon, or at all. Cancelling needs none, so do not wait for one.
            return self.session.abandon_resume();
        }
        if !status.is_intermediate() && self.session.take_cancel_accepted() {
            return self.session.request_cancel(false, ctx);
        }
        if let Some(violations) = self.session.take_due_correction() {
            let text = returned_output(&violations);
            return Ok(self.enqueue_internal(MessageSource::System, &text, None, ctx));
        }
        let restarting = self.session.apply_restart(ctx)?;
        if !restarting.is_empty() {
            return Ok(restarting);
        }
        let held = self.session.apply_hold(ctx)?;
        if !held.is_empty() {
            return Ok(held);
        }
        let status = self.session.status();
        if !self.is_in_between() {
            while let Some(fact) = self.session.next_deferred() {
                let name = fact.name();
                let events = match self.apply(fact, "", ctx) {
                    Ok(events) => events,
                    Err(refusal) => vec![Self::ignored(name, Self::reason(&refusal))],
                };
                if !events.is_empty() {
                    return Ok(events);
                }
            }
            if let Some(id) = self.queue.outdated_for(self.session.turn().map(|turn| &turn.id)) {
                return Ok(self.drop_message(id, "turn-over"));
            }
            if status == S::Running {
                let events = self.settle_between_turns(ctx)?;
                if !events.is_empty() {
                    return Ok(events);
                }
            }
        }
        if let Some(event) = self.session.send_allowance(ctx) {
            return Ok(vec![event]);
        }
        if status == S::Running && self.session.pauses_for_quota() {
            return self.pause_or_interrupt(ctx);
        }
        if self.session.budget().blocked() {
            match status {
                S::Running => {
                    return self.pause_or_interrupt(ctx);
                }
                // Spend was reported late: do not start a run that could only pause again.
                S::Resuming if self.session.run().is_none() => {
                    return self.session.abandon_resume();
                }
                _ => {}
            }
        }
        let mut events = self.dispatch(ctx);
        if events.is_empty() {
            events = self.dispatch_injection(ctx);
        }
        if events.is_empty() {
            events = self.want_run();
        }
        Ok(events)
    }

    /// Pauses a running session. If its agent cannot pause, the turn is interrupted.
    fn pause_or_interrupt(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let session = &mut self.session;
        match session.request_pause(ctx) {
            Err(SessionError::NotCapable { .. }) => session.request_interrupt(ctx),
            paused => paused,
        }
    }

    /// Cleans up after a terminal status: deferred facts, the queue and the run.
    fn settle_end(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let status = self.session.status();
        let mut events = Vec::new();
        while let Some(fact) = self.session.next_deferred() {
            if matches!(fact, AgentFact::SessionEnded { .. }) {
                self.session.stop_awaiting_document();
            }
            events.push(Self::ignored(fact.name(), format!("the session is {status}")));
        }
        if matches!(status, S::Completed | S::Cancelled) {
            let (gone, ended) = self.queue.end();
            self.closed_messages.extend(gone);
            self.session.forget_in_flight();
            events.extend(ended);
        }
        if !self.session.awaits_document() {
            events.extend(self.session.order_stop(ctx));
        }
        events
    }

    /// Handles the time between two turns (decision 36): a waiting message is delivered first, otherwise the criteria are
    /// checked. A session that should continue but has no message to continue with goes idle.
    fn settle_between_turns(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let session = &mut self.session;
        if session.is_validating() && session.budget().blocked() {
            return session.stop_loop(AutoContinueEnd::BudgetExhausted, None, ctx);
        }
        let next = self.queue.next_pending().is_some();
        if session.is_validating() && next {
            return session.abandon_validation("a message is delivered first", ctx);
        }
        if session.is_unvalidated() && session.in_flight().iter().any(|m| m.step != InFlightStep::Injected) {
            // The message was sent into the turn that ended. It may start the next turn or be returned.
            return Ok(Vec::new());
        }
        if session.is_unvalidated() {
            let reason = || Some("The sidecar is being stopped.".to_owned());
            return if session.is_live() {
                Ok(session.order_validation(ctx))
            } else {
                let cause = AutoContinueEnd::ValidationUnavailable;
                session.stop_loop(cause, reason(), ctx)
            };
        }
        if session.is_continuing() && session.is_live() && session.in_flight().is_empty() && !next {
            return session.rest_between_turns();
        }
        Ok(Vec::new())
    }

    /// Reports the unmet criteria to the agent (S0 8.10).
    pub(super) fn continue_loop(&mut self, events: &Events, ctx: &mut DomainContext<'_>) -> Events {
        let reason = events.iter().find_map(|event| match event {
            SessionEvent::ValidationFailed { reason, .. } => Some(reason),
            _ => None,
        });
        let Some(reason) = reason else { return Vec::new() };
        let text = format!("Validation failed: {reason}. Continue working.");
        self.enqueue_internal(MessageSource::System, &text, None, ctx)
    }

    /// Requests a run for a hibernated session that has work to do (decision 22).
    fn want_run(&mut self) -> Events {
        let session = &mut self.session;
        if session.is_held() {
            return Vec::new();
        }
        let has_work = match session.status() {
            S::Idle | S::Interrupted => {
                let message = self.queue.next_pending().is_some() && !session.budget().blocked();
                message || session.wants_agent_to_adjust()
            }
            S::Resuming => true,
            _ => false,
        };
        if !has_work && session.slot_wanted() == Some(RunCause::Wake) {
            // The pool drops the session's place in line when its turn comes.
            session.withdraw_slot_request();
        }
        if !has_work || session.run().is_some() || session.slot_wanted().is_some() {
            return Vec::new();
        }
        session.request_slot(RunCause::Wake);
        vec![SessionEvent::SlotWanted { cause: RunCause::Wake }]
    }

    fn ignored(fact: &str, reason: String) -> SessionEvent {
        SessionEvent::FactIgnored { fact: fact.to_owned(), reason }
    }
}

/// The message about an output that violates the schema of the brief, or that a guardrail blocks.
fn returned_output(violations: &[OutputViolation]) -> String {
    let listed: Vec<_> = violations.iter().map(|it| format!("- {} {}", it.place(), it.message)).collect();
    let listed = cut(&listed.join("\n"), MAX_OBJECTIONS);
    format!("Your output does not fit your brief:\n\n{listed}\n\nCorrect the result and submit it again.")
}
