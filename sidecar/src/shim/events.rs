//! Events of the shim: their order, and the handling of each.

use std::time::Duration;

use pilothouse_domain::project_agent::{Delegation as Delegated, DelegationPolicy};
use pilothouse_domain::text::cut;
use pilothouse_shim::error::CallError;
use pilothouse_shim::event::{
    AdapterEvent, AgentEvent, Delegation, DelegationAction, Draft, LifecycleAction,
};
use pilothouse_shim::message::AgentState;
use pilothouse_shim::sequence::Delivery;
use pilothouse_shim::stream::StreamEvent;
use pilothouse_shim::validation::{Expected, Received, validate};
use pilothouse_wire::RawEvent;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::driver::{Driver, Gap};
use super::translator;
use crate::kit::delegation;
use crate::kit::notices::{detailed_notice, notice};
use crate::kit::turns::DriverExit;

/// The limit for a replay of missing events.
const REPLAY: Duration = Duration::from_secs(5);
/// Notices of repaired and dropped events in a run.
const MAX_REPAIRS: u32 = 20;
/// In characters, of an event in quarantine.
const MAX_RAW: usize = 4000;
/// `raw_provider` events that are additions to S2.
const CHECKPOINT: &str = "checkpoint";
const USAGE: &str = "usage";

impl Driver {
    pub(super) async fn stream_event(&mut self, event: StreamEvent) -> Result<(), DriverExit> {
        match event {
            StreamEvent::Message(message) => self.message_arrived(&message).await,
            StreamEvent::Reconnected => {
                if let Some(shim) = &self.shim {
                    // Events that were on their way may be lost.
                    self.request_replay(shim.order.next(), None);
                }
                Ok(())
            }
            StreamEvent::Gone => self.shim_ended(Some("its event stream broke".to_owned())).await,
            StreamEvent::Oversized => {
                self.shim_ended(Some("it sent a message of more than 64 MiB".to_owned())).await
            }
        }
    }

    async fn message_arrived(&mut self, message: &str) -> Result<(), DriverExit> {
        let Some(shim) = &mut self.shim else { return Ok(()) };
        let agent_id = self.starter.session().to_string();
        let expected = Expected { agent_id: &agent_id, run_id: shim.order.run() };
        let received = validate(message, expected);
        let source = received.source().cloned();
        let delivery = shim.order.take(source.as_ref(), received);
        self.deliver(delivery).await?;
        self.request_missing();
        Ok(())
    }

    async fn deliver(&mut self, delivery: Delivery<Received>) -> Result<(), DriverExit> {
        if let Some(lost) = delivery.lost {
            let summary = format!(
                "Event gap detected: sequences {}-{} of the agent are lost",
                lost.start(),
                lost.end()
            );
            self.events.emit(notice("event_gap", summary)).await?;
        }
        if let Some(sequence) = delivery.late {
            let summary = format!(
                "an event of the shim is dropped: its sequence {sequence} is that of an earlier event"
            );
            self.report_repair(notice("event_dropped", summary)).await?;
        }
        for received in delivery.ready {
            if let Some(shim) = &mut self.shim
                && let Some(source) = received.source()
            {
                shim.last = Some(source.clone());
            }
            self.received(received).await?;
        }
        Ok(())
    }

    /// Requests a replay of the missing events, once for each gap.
    fn request_missing(&mut self) {
        let Some(missing) = self.shim.as_ref().and_then(|shim| shim.order.gap()) else {
            self.gap = None;
            return;
        };
        if self.gap.as_ref().is_some_and(|gap| gap.missing.end() == missing.end()) {
            return;
        }
        self.request_replay(*missing.start(), Some(*missing.end()));
        self.gap = Some(Gap { missing, until: Instant::now() + REPLAY });
    }

    fn request_replay(&mut self, from: u64, to: Option<u64>) {
        let Some(shim) = &self.shim else { return };
        let client = shim.client.clone();
        self.replays.spawn(async move { client.replay(from, to).await });
    }

    /// Ends the wait for missing events if the shim cannot replay them.
    pub(super) fn replayed(&mut self, outcome: &Result<(), CallError>) {
        if let (Err(error), Some(gap)) = (outcome, &mut self.gap) {
            tracing::warn!(
                error = self.events.redacted(&error.to_string()),
                "the shim cannot send events again"
            );
            gap.until = Instant::now();
        }
    }

    pub(super) async fn give_up_gap(&mut self) -> Result<(), DriverExit> {
        self.gap = None;
        let Some(shim) = &mut self.shim else { return Ok(()) };
        let skipped = shim.order.skip_gap();
        self.deliver(skipped).await?;
        self.request_missing();
        Ok(())
    }

    /// Publishes the events before a state. A state without a sequence does not say which they are.
    pub(super) async fn drain_before(&mut self, state: &AgentState) -> Result<(), DriverExit> {
        match state.last_sequence() {
            Some(last) => self.drain(Some(last)).await,
            None => Ok(()),
        }
    }

    /// Publishes events that are on their way: up to this sequence, or until none has arrived for a moment.
    pub(super) async fn drain(&mut self, up_to: Option<u64>) -> Result<(), DriverExit> {
        loop {
            let Some(shim) = &mut self.shim else { return Ok(()) };
            if up_to.is_some_and(|last| shim.order.next() > last) {
                return Ok(());
            }
            let next = timeout(Duration::from_millis(500), shim.stream.next()).await;
            match next {
                Ok(StreamEvent::Message(message)) => self.message_arrived(&message).await?,
                Ok(StreamEvent::Reconnected) => {}
                Ok(StreamEvent::Gone | StreamEvent::Oversized) | Err(_) => return Ok(()),
            }
        }
    }

    async fn received(&mut self, received: Received) -> Result<(), DriverExit> {
        self.events.set_occurred_at(received.source().and_then(|source| source.occurred_at));
        let outcome = self.publish(received).await;
        self.events.set_occurred_at(None);
        outcome
    }

    async fn publish(&mut self, received: Received) -> Result<(), DriverExit> {
        match received {
            Received::Valid(event) => self.event(event).await,
            Received::Repaired(event, repairs) => {
                let rules: Vec<_> = repairs.iter().map(ToString::to_string).collect();
                let summary = format!("an event of the shim was repaired: {}", rules.join(", "));
                let detail = json!({ "sourceEventId": event.source.event_id, "repairs": rules });
                self.report_repair(detailed_notice("event_repaired", cut(&summary, 500), detail)).await?;
                self.event(event).await
            }
            Received::PlainText(text) => {
                let events = self.translator.text(&text);
                self.emit(events).await
            }
            Received::Draft(Ok(draft)) => {
                self.draft(&draft);
                Ok(())
            }
            Received::Draft(Err(why)) => {
                let summary = format!("a draft of the shim cannot be used: {why}");
                self.report_repair(notice("draft_dropped", cut(&summary, 500))).await
            }
            Received::Quarantined { source, raw, errors } => {
                let summary = format!("an event of the shim cannot be used: {}", errors.join(", "));
                let detail =
                    json!({ "sourceEventId": source.event_id, "errors": errors, "raw": cut(&raw, MAX_RAW) });
                Ok(self.events.emit(detailed_notice("event_quarantined", cut(&summary, 500), detail)).await?)
            }
        }
    }

    /// Shows a piece of the text that the agent is writing. A late one, after the end of the turn, belongs to no text. While events are
    /// missing, those before the text are still to come, and one of them would end it. Such a text is not shown.
    fn draft(&mut self, Draft { kind, text, restart }: &Draft) {
        if self.turn.is_none() {
            return;
        }
        let drafts = self.events.drafts();
        if self.shim.as_ref().is_some_and(|shim| shim.order.gap().is_some()) {
            drafts.discard();
            self.skipped_draft = Some(*kind);
            return;
        }
        if !*restart && self.skipped_draft == Some(*kind) {
            return;
        }
        self.skipped_draft = None;
        if *restart {
            drafts.discard();
        }
        if !text.is_empty() {
            drafts.write(*kind, text);
        }
    }

    /// Publishes the first notices of a run about mistakes in the stream.
    async fn report_repair(&mut self, notice: RawEvent) -> Result<(), DriverExit> {
        self.repairs += 1;
        if self.repairs > MAX_REPAIRS {
            return Ok(());
        }
        Ok(self.events.emit(notice).await?)
    }

    /// The reason why the policy of the brief does not allow a delegation. Shims report delegations afterwards, so the agent is ended.
    fn denied(&self, delegation: &Delegation) -> Option<String> {
        let names = [delegation.child_agent_id.as_str(), delegation.child_role.as_str()];
        let delegated = match delegation.action {
            DelegationAction::Spawned => {
                let reported = delegation.delegation_depth.unwrap_or(1.0);
                let depth = (1..=DelegationPolicy::MAX_DEPTH).find(|depth| f64::from(*depth) >= reported);
                let depth = depth.unwrap_or(u32::MAX);
                Delegated::Subagent { names: &names, depth }
            }
            DelegationAction::Handoff => Delegated::Handoff { names: &names },
            DelegationAction::Returned => return None,
        };
        let why = delegation::denial(self.config.policies.delegation_policy.as_ref(), delegated)?;
        Some(format!("the agent delegated work to {}: {why}", delegation.child_role))
    }

    async fn event(&mut self, AdapterEvent { event, .. }: AdapterEvent) -> Result<(), DriverExit> {
        match event {
            AgentEvent::Decision(decision) => self.decision(decision).await,
            AgentEvent::Completion(completion) => self.completed(completion).await,
            AgentEvent::Delegation(delegation) => {
                let denied = self.denied(&delegation);
                let events = self.translator.translate(AgentEvent::Delegation(delegation));
                self.emit(events).await?;
                match denied {
                    Some(why) => {
                        self.kill_shim().await;
                        self.fail_turn("delegation_denied", why).await
                    }
                    None => Ok(()),
                }
            }
            AgentEvent::RawProvider { event_type, payload, .. } if event_type == CHECKPOINT => {
                match AgentState::try_from(payload) {
                    Ok(state) => self.keep_state(&state).await,
                    Err(e) => Ok(self.events.emit(notice("checkpoint_invalid", e.to_string())).await?),
                }
            }
            AgentEvent::RawProvider { event_type, payload, .. } if event_type == USAGE => {
                let totals = self.meter.add(&payload);
                // Saved first: to repeat a total does no harm, but after a lost one the totals would decrease.
                self.save().await?;
                Ok(self.events.emit(totals).await?)
            }
            AgentEvent::Error(report) if !report.recoverable => {
                self.events.emit(translator::error(&report)).await?;
                self.fail_turn("agent_error", report.message).await
            }
            AgentEvent::Lifecycle { action: LifecycleAction::Crashed, reason } => {
                let why = reason.unwrap_or_else(|| "the shim gives no reason".to_owned());
                self.fail_turn("agent_crashed", why).await
            }
            event => {
                let events = self.translator.translate(event);
                self.emit(events).await
            }
        }
    }
}
