//! Quarantine: records events that cannot be applied, and applies them when an operator sends them again (decision 9).
//! The sequence of a quarantined event is consumed, so that it blocks no other event.

use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_app::{App, METRICS};
use pilothouse_domain::session::Arrival;
use pilothouse_domain::text::cut;
use pilothouse_domain::{AgentSessionId, RunId, SessionEvent, Timestamp};
use pilothouse_store::QuarantineRecord;
use serde_json::Value;

use super::apply::Batch;
use super::event_body::EventBody;
use super::open::Opened;

/// Marks the sequence of a message that keeps failing as consumed (decision 9).
pub(super) async fn quarantine_event(
    app: &App,
    session: AgentSessionId,
    message: &Opened,
    cause: &str,
) -> Result<(), Problem> {
    let Opened::Event { run, sequence, body, .. } = message else { return Ok(()) };
    let attempt = async || {
        let Some(batch) = Batch::load(app, session).await? else { return Ok(()) };
        if batch.loaded.conversation.session.arrival(*run, *sequence) != Arrival::Next {
            return Ok(());
        }
        let errors = vec![format!("it could not be applied and is among the dead letters: {cause}")];
        batch.skip(*run, *sequence, body.occurred_at, errors, cause).await
    };
    RetryPolicy::EVENT.retry(attempt).await
}

impl Batch<'_> {
    /// Records an authentic event that cannot be parsed. Its sequence is consumed, so that it blocks nothing (decision 9).
    pub(super) fn quarantine(
        &mut self,
        run: RunId,
        sequence: u64,
        occurred_at: Option<Timestamp>,
        body: Value,
        errors: Vec<String>,
    ) -> Result<(), Problem> {
        tracing::trace!(target: METRICS, events_quarantined = 1_u64);
        self.heard(run)?;
        let cause = self.cause(run, Some(sequence), occurred_at, body);
        self.entry(
            cause,
            vec![SessionEvent::EventQuarantined { errors }],
            Some("quarantined".to_owned()),
            None,
        )
    }

    async fn skip(
        mut self,
        run: RunId,
        sequence: u64,
        occurred_at: Option<Timestamp>,
        errors: Vec<String>,
        cause: &str,
    ) -> Result<(), Problem> {
        self.quarantine(run, sequence, occurred_at, Value::Null, errors)?;
        let (id, quarantined) =
            (self.loaded.conversation.session.id(), QuarantineRecord { cause: cut(cause, 1000) });
        self.commit.quarantine_event(id, run, sequence, &quarantined, self.app.now())?;
        self.consumed(run, sequence).await?;
        self.commit().await
    }

    /// Whether an event is quarantined and neither the store nor this commit has reprocessed it.
    pub(super) async fn awaits_reprocessing(&self, run: RunId, sequence: u64) -> Result<bool, Problem> {
        let id = self.loaded.conversation.session.id();
        Ok(!self.commit.is_reprocessed(id, run, sequence)
            && self.app.store.is_quarantined(id, run, sequence).await?)
    }

    /// Applies a quarantined event. Its sequence is already consumed, so the order does not matter.
    pub(super) async fn reprocess(
        &mut self,
        run: RunId,
        sequence: u64,
        body: &EventBody,
    ) -> Result<(), Problem> {
        let id = self.loaded.conversation.session.id();
        self.apply_event(run, sequence, body, vec![SessionEvent::EventRedriven { sequence }]).await?;
        self.commit.mark_reprocessed(id, run, sequence);
        self.changed = true;
        Ok(())
    }
}
