//! Applies opened messages to a session, in order and exactly once (decision 9).

use pilothouse_app::http::Problem;
use pilothouse_app::run_exit::ControlMessage;
use pilothouse_app::texts;
use pilothouse_app::trace;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_app::{App, FreshIds, METRICS};
use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{AgentFact, Arrival, Sender};
use pilothouse_domain::{
    AgentSession, AgentSessionId, Events, RunId, SessionEvent, Timestamp, ToolCallId, TraceParent,
};
use pilothouse_store::{Commit, CommitError, JournalView, LoadedConversation, ParkedEnvelope};
use pilothouse_wire::RawEvent;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::launch::RunExit;
use serde_json::Value;

use super::body;
use super::enrich;
use super::event_body::EventBody;
use super::open::Opened;
use crate::acl;

/// The size of a commit, in writes and bytes, above which it is committed early. A transaction is limited to 100 writes and 4 MB.
/// The session adds its queue, at most 40 subagents and at most 21 decisions.
const MAX_WRITES: usize = 35;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Applies messages of one session. After a failure some of them may be applied; the next attempt recognises those as duplicates.
pub(super) async fn apply(app: &App, session: AgentSessionId, messages: &[Opened]) -> Result<(), Problem> {
    // After a lost race some messages may be committed. The next attempt recognises them.
    let attempt = async || {
        let Some(batch) = Batch::load(app, session).await? else {
            tracing::warn!(%session, "events of an unknown session");
            return Ok(());
        };
        batch.apply_messages(messages).await
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Applies the parked envelopes that became ready when the clock closed a gap.
pub async fn apply_ready(app: &App, commit: Commit, loaded: LoadedConversation) -> Result<(), Problem> {
    let mut batch = Batch { app, loaded, commit, changed: true, traceparent: trace::here() };
    batch.apply_parked().await?;
    // A second gap may follow the one that was closed, and the agent may send no more events that reveal it.
    batch.request_replay()?;
    batch.commit().await
}

/// The messages of a session that one transaction applies, as far as they fit.
pub(super) struct Batch<'a> {
    pub(super) app: &'a App,
    pub(super) loaded: LoadedConversation,
    pub(super) commit: Commit,
    pub(super) changed: bool,
    traceparent: Option<TraceParent>,
}

impl<'a> Batch<'a> {
    pub(super) async fn load(app: &'a App, session: AgentSessionId) -> Result<Option<Self>, Problem> {
        let loaded = app.store.conversation(session).await?;
        Ok(loaded.map(|loaded| Self {
            app,
            loaded,
            commit: Commit::new(),
            changed: false,
            traceparent: None,
        }))
    }

    /// Applies messages in order and commits them, in one transaction if they fit.
    async fn apply_messages(mut self, messages: &[Opened]) -> Result<(), Problem> {
        // An earlier batch may have marked envelopes as ready without applying them.
        self.apply_parked().await?;
        for message in messages {
            self.apply_message(message).await?;
        }
        self.commit().await
    }

    async fn apply_message(&mut self, message: &Opened) -> Result<(), Problem> {
        self.traceparent = match message {
            Opened::Event { traceparent, .. } => *traceparent,
            Opened::Heartbeat { .. } | Opened::Exited { .. } | Opened::Control { .. } => None,
        };
        match message {
            Opened::Heartbeat { run, disk_full } => self.heartbeat(*run, *disk_full).await,
            Opened::Exited { run, exit } => self.exited(*run, exit).await,
            Opened::Control { run, message: ControlMessage::QueueProbe { sent_at } } => {
                let id = self.loaded.conversation.session.id();
                Ok(self.app.store.record_processed(id, *run, *sent_at).await?)
            }
            Opened::Control { run, message: ControlMessage::RunLost { detail } } => {
                self.lost(*run, detail).await
            }
            Opened::Event { run, sequence, body, redriven, .. } => {
                if *redriven && self.awaits_reprocessing(*run, *sequence).await? {
                    return self.reprocess(*run, *sequence, body).await;
                }
                // The event was never quarantined, or was reprocessed since. Apply it like any other.
                self.event(*run, *sequence, body).await
            }
        }
    }

    /// Records a heartbeat of the current run. An earlier run that is still alive must not affect the current one.
    async fn heartbeat(&mut self, run: RunId, disk_full: bool) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if !matches!(session.sender(run), Sender::Current(_)) {
            return Ok(());
        }
        self.app.store.record_heartbeat(session.id(), run, self.app.now()).await?;
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let mut events = session.observe_worker_disk(disk_full, &ctx);
        if session.unreachable_since().is_some() {
            events.extend(session.heard(&ctx));
        }
        if events.is_empty() {
            return Ok(());
        }
        let events = self.app.with_consequences(&mut self.loaded.conversation, events, &mut ctx);
        self.entry(Cause::Clock, events, None, None)
    }

    /// Counts an event that is not applied as a sign of life, like a heartbeat: sidecars send no heartbeats while their events are
    /// accepted (decision 13). An applied event counts when its facts are observed.
    pub(super) fn heard(&mut self, run: RunId) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if !matches!(session.sender(run), Sender::Current(_)) {
            return Ok(());
        }
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = session.heard(&ctx);
        if events.is_empty() {
            return Ok(());
        }
        let events = self.app.with_consequences(&mut self.loaded.conversation, events, &mut ctx);
        self.entry(Cause::Clock, events, None, None)
    }

    /// A duplicate changes nothing, so its receipt is recorded only if it is due, like that of a heartbeat.
    async fn duplicate(&mut self, run: RunId) -> Result<(), Problem> {
        let (session, now) = (&self.loaded.conversation.session, self.app.now());
        let is_current = matches!(session.sender(run), Sender::Current(_));
        if !is_current || !session.is_receipt_due(&self.app.deadlines, now) {
            return Ok(());
        }
        self.app.store.record_heartbeat(session.id(), run, now).await?;
        self.heard(run)
    }

    async fn event(&mut self, run: RunId, sequence: u64, body: &EventBody) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if session.sender(run) == Sender::Unknown {
            tracing::warn!(session = %session.id(), %run, "an event of a run that ended long ago");
            return Ok(());
        }
        match session.arrival(run, sequence) {
            Arrival::Duplicate => self.duplicate(run).await,
            // On the queue the message would block the messages that it waits for, so it is dropped and replayed later.
            Arrival::TooEarly => {
                session.reject_early(sequence);
                self.changed = true;
                self.heard(run)?;
                self.request_replay()
            }
            Arrival::Early => {
                session.park(sequence);
                self.changed = true;
                let id = session.id();
                let parked = ParkedEnvelope { body: body.text.clone(), occurred_at: body.occurred_at };
                self.commit.park(id, run, sequence, &parked, self.app.now())?;
                self.heard(run)?;
                self.request_replay()
            }
            Arrival::Next => {
                self.apply_one(run, sequence, body).await?;
                self.consumed(run, sequence).await
            }
        }
    }

    fn request_replay(&mut self) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if !session.needs_replay() {
            return Ok(());
        }
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = session.request_replay(&mut ctx);
        self.entry(Cause::Clock, events, None, None)
    }

    /// Marks a sequence as consumed and applies the envelopes that are parked behind it.
    pub(super) async fn consumed(&mut self, run: RunId, sequence: u64) -> Result<(), Problem> {
        self.changed = true;
        let ready = self.loaded.conversation.session.consume(run, sequence);
        self.apply_ready_envelopes(run, ready).await?;
        self.request_replay()
    }

    /// Applies the parked envelopes that are next, if any.
    async fn apply_parked(&mut self) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        let Some(run) = session.run().map(|run| run.id) else { return Ok(()) };
        match session.take_ready() {
            Some(ready) => self.apply_ready_envelopes(run, Some(ready)).await,
            None => Ok(()),
        }
    }

    /// Applies the parked envelope `ready` and those that follow it. The transaction may be committed early only between two
    /// envelopes, where the sequence of every recorded entry is consumed.
    async fn apply_ready_envelopes(&mut self, run: RunId, mut ready: Option<u64>) -> Result<(), Problem> {
        loop {
            if self.commit.writes() >= MAX_WRITES || self.commit.bytes() >= MAX_BYTES {
                if let Some(sequence) = ready {
                    self.loaded.conversation.session.park(sequence);
                }
                self.commit_early().await?;
                let session = &mut self.loaded.conversation.session;
                ready = if matches!(session.sender(run), Sender::Current(_)) {
                    session.take_ready()
                } else {
                    None
                };
            }
            let Some(sequence) = ready else { return Ok(()) };
            // A parked envelope has no trace context.
            self.traceparent = None;
            let id = self.loaded.conversation.session.id();
            // An envelope that was parked in this batch is in the commit but not in the table.
            let parked = self.app.store.parked(id, run, sequence).await?;
            if let Some(ParkedEnvelope { body, occurred_at }) =
                parked.or_else(|| self.commit.parked(id, run, sequence))
            {
                self.apply_one(run, sequence, &EventBody::parse(body, occurred_at)).await?;
            } else {
                let errors = vec!["its parked body is missing".to_owned()];
                self.quarantine(run, sequence, None, Value::Null, errors)?;
            }
            self.commit.unpark(id, run, sequence);
            self.changed = true;
            ready = self.loaded.conversation.session.consume(run, sequence);
        }
    }

    async fn apply_one(&mut self, run: RunId, sequence: u64, body: &EventBody) -> Result<(), Problem> {
        self.apply_event(run, sequence, body, Events::new()).await
    }

    /// Applies an event. The entry records `first` before the events that result.
    pub(super) async fn apply_event(
        &mut self,
        run: RunId,
        sequence: u64,
        body: &EventBody,
        first: Events,
    ) -> Result<(), Problem> {
        let now = self.app.now();
        let event = match &body.event {
            Ok(event) => event,
            Err(error) => {
                let value = self.fit(body).await?;
                return self.quarantine(run, sequence, body.occurred_at, value, vec![error.clone()]);
            }
        };
        if let RawEvent::Notice { name, detail: Some(detail), .. } = event
            && name == "backpressure"
        {
            tracing::trace!(target: METRICS, events_merged = detail["total"].as_u64().unwrap_or(0));
        }
        let Some(mut mapping) = acl::map(event, now) else {
            let value = self.fit(body).await?;
            let errors = vec![format!("{} has no place in the sequence", event.name())];
            return self.quarantine(run, sequence, body.occurred_at, value, errors);
        };
        if let Some(subagent) = &mapping.subagent {
            self.app.store.load_subagent(&mut self.loaded, subagent).await?;
        }
        let session = &self.loaded.conversation.session;
        enrich::attach_verdict(self.app, session, event, &mut mapping.facts).await?;
        enrich::attach_input(self.app, session, event, &mut mapping.facts).await?;
        enrich::attach_timeout(self.app, session, &mut mapping.facts).await?;
        enrich::check_outputs(self.app, session, &mut mapping.facts).await?;
        if let RawEvent::ToolResult { tool_call_id, .. } = event {
            place_result(session, tool_call_id, &mut mapping);
        }
        let (observed, ignored) = self.observe(run, mapping.facts);
        let mut events = first;
        events.extend(observed);
        let delivered = events.iter().any(|event| matches!(event, SessionEvent::MessageDelivered { .. }));
        let view = if delivered { Some(JournalView::Message { subagent: None }) } else { mapping.view };

        let (repairs, occurred_at) = (body.repairs.clone(), body.occurred_at);
        let body = self.fit(body).await?;
        let cause = self.cause(run, Some(sequence), occurred_at, body);
        self.app.record_beside(&mut self.commit, &self.loaded, &events)?;
        let mut ids = FreshIds;
        let id = self.app.domain_context(&mut ids).event_id();
        let session = &mut self.loaded.conversation.session;
        let mut entry = texts::record(session, id, now, cause, events, mapping.line.into_iter().collect());
        entry.ignored_reason = ignored;
        entry.repairs = repairs;
        entry.traceparent = self.traceparent;
        self.commit.entry(&entry, view.as_ref())?;
        self.changed = true;
        Ok(())
    }

    async fn fit(&self, body: &EventBody) -> Result<Value, Problem> {
        let (session, value) = (self.loaded.conversation.session.id(), body.value.clone());
        body::fit(self.app, session, value, body.text.len()).await.map_err(Problem::internal)
    }

    /// Applies the facts of an event, with their consequences.
    fn observe(&mut self, run: RunId, facts: Vec<AgentFact>) -> (Events, Option<String>) {
        let app = self.app;
        let conversation = &mut self.loaded.conversation;
        // Only a sidecar that is ready receives a key.
        let is_ready = facts.iter().any(|fact| matches!(fact, AgentFact::SidecarReady(_)));
        let hash = if is_ready { api_key_hash(app, &conversation.session) } else { String::new() };
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let current = matches!(conversation.session.sender(run), Sender::Current(_));
        let mut events = if current { conversation.session.heard(&ctx) } else { Events::new() };
        let mut ignored = None;
        for fact in facts {
            let observed = if current {
                conversation.observe(fact, &hash, &mut ctx)
            } else {
                conversation.reprocess(fact, &mut ctx)
            };
            events.extend(observed.events);
            ignored = match observed.outcome {
                FactOutcome::Applied => ignored,
                FactOutcome::Deferred => Some("deferred".to_owned()),
                FactOutcome::Ignored(reason) => Some(reason),
            };
        }
        (app.with_consequences(conversation, events, &mut ctx), ignored)
    }

    async fn exited(&mut self, run: RunId, exit: &RunExit) -> Result<(), Problem> {
        self.before_end(run).await?;
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let conversation = &mut self.loaded.conversation;
        let Sender::Current(ordinal) = conversation.session.sender(run) else { return Ok(()) };
        let how = exit
            .detail
            .clone()
            .or_else(|| exit.signal.map(|s| format!("signal {s}")))
            .or_else(|| exit.code.map(|c| format!("exit code {c}")));
        let events = conversation.run_ended(run, exit.drained, how, &mut ctx).map_err(Problem::from)?;
        let events = self.app.with_consequences(conversation, events, &mut ctx);
        let body = serde_json::to_value(RawEvent::RunExited(exit.clone())).map_err(Problem::internal)?;
        let cause = Cause::Agent { run_id: run, run: ordinal, sequence: None, occurred_at: None, body };
        self.entry(cause, events, None, None)
    }

    async fn lost(&mut self, run: RunId, detail: &str) -> Result<(), Problem> {
        self.before_end(run).await?;
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let conversation = &mut self.loaded.conversation;
        if !matches!(conversation.session.sender(run), Sender::Current(_)) {
            return Ok(());
        }
        let events = conversation.run_lost(run, Some(detail.to_owned()), &mut ctx).map_err(Problem::from)?;
        let events = self.app.with_consequences(conversation, events, &mut ctx);
        self.entry(Cause::Clock, events, None, None)
    }

    /// Applies the parked envelopes of a run before it ends.
    async fn before_end(&mut self, run: RunId) -> Result<(), Problem> {
        // The sender of the missing events is gone. The events that are parked behind the gap must be applied before the run ends.
        while matches!(self.loaded.conversation.session.sender(run), Sender::Current(_)) {
            let lost = self.loaded.conversation.session.close_gap();
            if lost.is_empty() {
                break;
            }
            self.entry(Cause::Clock, lost, None, None)?;
            self.apply_parked().await?;
        }
        if matches!(self.loaded.conversation.session.sender(run), Sender::Current(_)) {
            self.app.store.load_running_subagents(&mut self.loaded).await?;
        }
        Ok(())
    }

    pub(super) fn cause(
        &self,
        run_id: RunId,
        sequence: Option<u64>,
        occurred_at: Option<Timestamp>,
        body: Value,
    ) -> Cause {
        let run = match self.loaded.conversation.session.sender(run_id) {
            Sender::Current(ordinal) | Sender::Past(ordinal) => ordinal,
            Sender::Unknown => 0,
        };
        Cause::Agent { run_id, run, sequence, occurred_at, body }
    }

    pub(super) fn entry(
        &mut self,
        cause: Cause,
        events: Events,
        ignored: Option<String>,
        view: Option<&JournalView>,
    ) -> Result<(), Problem> {
        if events.is_empty() {
            return Ok(());
        }
        self.changed = true;
        self.app.record_beside(&mut self.commit, &self.loaded, &events)?;
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let id = ctx.event_id();
        let mut entry =
            texts::record(&mut self.loaded.conversation.session, id, ctx.now, cause, events, Vec::new());
        entry.ignored_reason = ignored;
        entry.traceparent = self.traceparent;
        Ok(self.commit.entry(&entry, view)?)
    }

    /// Commits the current state because the transaction is large, and reloads it.
    async fn commit_early(&mut self) -> Result<(), Problem> {
        let id = self.loaded.conversation.session.id();
        let commit = std::mem::take(&mut self.commit);
        Self::finish(self.app, commit, &self.loaded).await?;
        self.loaded = self.app.store.conversation(id).await?.ok_or_else(Problem::no_session)?;
        self.changed = false;
        Ok(())
    }

    async fn finish(app: &App, mut commit: Commit, loaded: &LoadedConversation) -> Result<(), CommitError> {
        commit.conversation(loaded, &app.deadlines)?;
        app.store.commit(commit).await
    }

    pub(super) async fn commit(self) -> Result<(), Problem> {
        if !self.changed {
            return Ok(());
        }
        Ok(Self::finish(self.app, self.commit, &self.loaded).await?)
    }
}

fn api_key_hash(app: &App, session: &AgentSession) -> String {
    sha256_hex(app.secret.api_key(session.id(), session.retry_count()).as_bytes())
}

/// Lists the result of a tool call beside the call. A further result of the call is not listed, because the first one counts.
fn place_result(session: &AgentSession, call: &ToolCallId, mapping: &mut acl::Mapping) {
    if session.has_tool_result(call) {
        mapping.view = None;
    }
    if let Some(JournalView::ToolResult { called_at, .. }) = &mut mapping.view {
        *called_at = session.tool_call_recorded_at(call);
    }
    if let (Some(call), Some(line)) = (session.open_tool_call(call), &mut mapping.line) {
        line.tool_name = Some(call.name.clone());
    }
}
