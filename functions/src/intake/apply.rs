//! Applying opened messages to one session, in order and once (ruling 9).

use pilothouse_domain::conversation::Outcome;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::{AgentFact, Arrival, Sender};
use pilothouse_domain::text::cut;
use pilothouse_domain::{AgentSessionId, DomainEvent, Events, RunId, TraceParent};
use pilothouse_store::{Commit, CommitError, LoadedConversation, ParkedEnvelope, SetAside, Store, View};
use pilothouse_wire::RawEvent;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::launch::RunExit;
use serde_json::Value;

use super::body;
use super::open::Opened;
use crate::acl;
use crate::app::{App, FreshIds, METRICS};
use crate::edge::Problem;
use crate::trace;

/// How often a lost race is run again.
const TRIES: u32 = 60;
/// A commit is closed before it gets larger than this, in writes and bytes; a transaction takes 100 and 4 MB.
const MAX_WRITES: usize = 60;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Applies messages of one session. They are all applied when it succeeds; those before a failure may be, and are then
/// recognised as duplicates.
pub(super) async fn apply(app: &App, session: AgentSessionId, messages: &[Opened]) -> Result<(), Problem> {
    for attempt in 0..TRIES {
        let Some(batch) = Batch::load(app, session).await? else {
            tracing::warn!(%session, "events of a session that is not there");
            return Ok(());
        };
        match batch.take_all(messages).await {
            // A part may be committed: it is recognised when it is taken again.
            Err(Problem::VersionConflict) => {
                tracing::trace!(target: METRICS, conflicts = 1_u64);
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            other => return other,
        }
    }
    Err(Problem::VersionConflict)
}

/// Counts the sequence of a message that keeps failing as consumed (ruling 9).
pub(super) async fn set_aside(
    app: &App,
    session: AgentSessionId,
    message: &Opened,
    cause: &str,
) -> Result<(), Problem> {
    let Opened::Event { run, sequence, .. } = message else { return Ok(()) };
    for attempt in 0..TRIES {
        let Some(batch) = Batch::load(app, session).await? else { return Ok(()) };
        if batch.loaded.conversation.session.arrival(*run, *sequence) != Arrival::Next {
            return Ok(());
        }
        let errors = vec![format!("it could not be applied and is among the dead letters: {cause}")];
        match batch.skip(*run, *sequence, errors, cause).await {
            Err(Problem::VersionConflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            other => return other,
        }
    }
    Err(Problem::VersionConflict)
}

/// Applies the parked envelopes that became ready when a gap was given up, within a change of the clock's.
pub async fn apply_ready(app: &App, commit: Commit, loaded: LoadedConversation) -> Result<(), Problem> {
    let mut batch = Batch { app, loaded, commit, changed: true, place: trace::here() };
    batch.apply_parked().await?;
    // There may be a second gap behind the one that was given up, and the agent may have nothing more to tell.
    batch.ask_for_missing()?;
    batch.commit().await
}

struct Batch<'a> {
    app: &'a App,
    loaded: LoadedConversation,
    commit: Commit,
    changed: bool,
    /// Where what is applied stands in a trace.
    place: Option<TraceParent>,
}

impl<'a> Batch<'a> {
    async fn load(app: &'a App, session: AgentSessionId) -> Result<Option<Self>, Problem> {
        let loaded = app.store.conversation(session).await?;
        Ok(loaded.map(|loaded| Self { app, loaded, commit: Commit::new(), changed: false, place: None }))
    }

    /// Takes messages in order and commits: all in one transaction, unless they release or bring too much for it.
    async fn take_all(mut self, messages: &[Opened]) -> Result<(), Problem> {
        // What an earlier batch took out of the gap and did not get to apply.
        self.apply_parked().await?;
        for message in messages {
            self.take(message).await?;
        }
        self.commit().await
    }

    /// Counts a sequence as consumed without its event, which is owed from then on.
    async fn skip(
        mut self,
        run: RunId,
        sequence: u64,
        errors: Vec<String>,
        cause: &str,
    ) -> Result<(), Problem> {
        self.quarantine(run, sequence, Value::Null, errors)?;
        let (id, aside) = (self.loaded.conversation.session.id(), SetAside { cause: cut(cause, 1000) });
        self.commit.set_aside(id, run, sequence, &aside, self.app.now())?;
        self.consumed(run, sequence).await?;
        self.commit().await
    }

    async fn take(&mut self, message: &Opened) -> Result<(), Problem> {
        self.place = match message {
            Opened::Event { traceparent, .. } => *traceparent,
            Opened::Heartbeat { .. } | Opened::Exited { .. } => None,
        };
        match message {
            Opened::Heartbeat { run } => self.beat(*run).await,
            Opened::Exited { run, exit } => self.exited(*run, exit).await,
            Opened::Event { run, sequence, body, redriven, .. } => {
                if *redriven && self.is_owed(*run, *sequence).await? {
                    return self.late(*run, *sequence, body).await;
                }
                // Not set aside, or applied since: like any other.
                self.event(*run, *sequence, body).await
            }
        }
    }

    /// Only the current run's: an earlier one that is still alive must not make it look silent.
    async fn beat(&self, run: RunId) -> Result<(), Problem> {
        let session = &self.loaded.conversation.session;
        if !matches!(session.sender(run), Sender::Current(_)) {
            return Ok(());
        }
        Ok(self.app.store.record_beat(session.id(), run, self.app.now()).await?)
    }

    async fn event(&mut self, run: RunId, sequence: u64, body: &str) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if session.sender(run) == Sender::Unknown {
            tracing::warn!(session = %session.id(), %run, "an event of a run that is long over");
            return Ok(());
        }
        match session.arrival(run, sequence) {
            Arrival::Duplicate => Ok(()),
            // Kept on the queue it would stand in the way of those that it waits for.
            Arrival::TooEarly => {
                session.turn_away(sequence);
                self.changed = true;
                self.ask_for_missing()
            }
            Arrival::Early => {
                session.park(sequence);
                self.changed = true;
                let id = session.id();
                self.commit.park(
                    id,
                    run,
                    sequence,
                    &ParkedEnvelope { body: body.to_owned() },
                    self.app.now(),
                )?;
                self.ask_for_missing()
            }
            Arrival::Next => {
                self.apply_one(run, sequence, body).await?;
                self.consumed(run, sequence).await
            }
        }
    }

    /// Whether an event was set aside and neither applied since nor by this commit.
    async fn is_owed(&self, run: RunId, sequence: u64) -> Result<bool, Problem> {
        let id = self.loaded.conversation.session.id();
        Ok(!self.commit.applies_late(id, run, sequence)
            && self.app.store.is_set_aside(id, run, sequence).await?)
    }

    /// Applies an event that was set aside. Its sequence is consumed already, so order is no matter.
    async fn late(&mut self, run: RunId, sequence: u64, body: &str) -> Result<(), Problem> {
        let id = self.loaded.conversation.session.id();
        self.apply_event(run, sequence, body, vec![DomainEvent::EventRedriven { sequence }]).await?;
        self.commit.applied_late(id, run, sequence);
        self.changed = true;
        Ok(())
    }

    fn ask_for_missing(&mut self) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        if !session.has_unasked_gap() {
            return Ok(());
        }
        let mut ids = FreshIds;
        let mut cx = self.app.occasion(&mut ids);
        let events = session.ask_for_missing(&mut cx);
        self.entry(Cause::Clock, events, None, None)
    }

    /// The sequence is consumed; what was parked behind it follows.
    async fn consumed(&mut self, run: RunId, sequence: u64) -> Result<(), Problem> {
        self.changed = true;
        let ready = self.loaded.conversation.session.consume(run, sequence);
        self.go_on(run, ready).await?;
        self.ask_for_missing()
    }

    /// Applies what is parked and next, if there is anything.
    async fn apply_parked(&mut self) -> Result<(), Problem> {
        let session = &mut self.loaded.conversation.session;
        let Some(run) = session.run().map(|run| run.id) else { return Ok(()) };
        match session.take_ready() {
            Some(ready) => self.go_on(run, Some(ready)).await,
            None => Ok(()),
        }
    }

    /// Applies the parked envelope `ready` and those that follow it. Between two of them, and nowhere else, the
    /// transaction may be committed early: there every entry stands with its sequence consumed.
    async fn go_on(&mut self, run: RunId, mut ready: Option<u64>) -> Result<(), Problem> {
        loop {
            if self.commit.len() >= MAX_WRITES || self.commit.bytes() >= MAX_BYTES {
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
            // A parked envelope keeps its body alone.
            self.place = None;
            let id = self.loaded.conversation.session.id();
            match self.app.store.parked(id, run, sequence).await? {
                Some(envelope) => self.apply_one(run, sequence, &envelope.body).await?,
                // Parked in this very batch: it stands in the commit, not yet in the table.
                None => match self.commit.parked_body(id, run, sequence) {
                    Some(body) => self.apply_one(run, sequence, &body).await?,
                    None => self.quarantine(
                        run,
                        sequence,
                        Value::Null,
                        vec!["its parked body is missing".to_owned()],
                    )?,
                },
            }
            self.commit.unpark(id, run, sequence);
            self.changed = true;
            ready = self.loaded.conversation.session.consume(run, sequence);
        }
    }

    async fn apply_one(&mut self, run: RunId, sequence: u64, body: &str) -> Result<(), Problem> {
        self.apply_event(run, sequence, body, Events::new()).await
    }

    /// Applies an event; `first` is what the entry says before what follows from it.
    async fn apply_event(
        &mut self,
        run: RunId,
        sequence: u64,
        body: &str,
        first: Events,
    ) -> Result<(), Problem> {
        let now = self.app.now();
        let value: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let event = match serde_json::from_str::<RawEvent>(body) {
            Ok(event) => event,
            Err(error) => {
                let value = self.fit(value).await?;
                return self.quarantine(run, sequence, value, vec![cut(&error.to_string(), 1000)]);
            }
        };
        let Some(mut mapping) = acl::map(&event, now) else {
            let value = self.fit(value).await?;
            return self.quarantine(
                run,
                sequence,
                value,
                vec![format!("{} has no place in the sequence", event.name())],
            );
        };
        if let Some(subagent) = &mapping.subagent {
            self.app.store.load_subagent(&mut self.loaded, subagent).await?;
        }
        if let (Some(View::ToolResult { called_at, .. }), RawEvent::ToolResult { tool_call_id, .. }) =
            (&mut mapping.view, &event)
        {
            *called_at = self
                .loaded
                .conversation
                .session
                .open_tool_call(tool_call_id)
                .map(|call| call.journal_sequence);
        }
        let (observed, ignored) = self.observe(run, mapping.facts);
        let mut events = first;
        events.extend(observed);
        let delivered = events.iter().any(|event| matches!(event, DomainEvent::MessageDelivered { .. }));
        let view = if delivered { Some(View::Message { subagent: None }) } else { mapping.view };

        let body = self.fit(value).await?;
        let cause = self.cause(run, Some(sequence), body);
        self.app.record_beside(&mut self.commit, &self.loaded, &events)?;
        let mut ids = FreshIds;
        let id = self.app.occasion(&mut ids).event_id();
        let session = &mut self.loaded.conversation.session;
        let mut entry =
            JournalEntry::record(session, id, now, cause, events, mapping.line.into_iter().collect());
        entry.ignored_reason = ignored;
        entry.traceparent = self.place;
        self.commit.entry(&entry, view.as_ref())?;
        self.changed = true;
        Ok(())
    }

    async fn fit(&self, body: Value) -> Result<Value, Problem> {
        body::fit(self.app, self.loaded.conversation.session.id(), body).await.map_err(Problem::internal)
    }

    /// Takes the facts of one event and what follows from them.
    fn observe(&mut self, run: RunId, facts: Vec<AgentFact>) -> (Events, Option<String>) {
        let app = self.app;
        let conversation = &mut self.loaded.conversation;
        let key = app.secret.api_key(conversation.session.id(), conversation.session.retry_count());
        let hash = sha256_hex(key.as_bytes());
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let current = matches!(conversation.session.sender(run), Sender::Current(_));
        if current {
            conversation.session.heard(&cx);
        }
        let mut events = Events::new();
        let mut ignored = None;
        for fact in facts {
            let observed = if current {
                conversation.observe(fact, &hash, &mut cx)
            } else {
                conversation.observe_late(fact, &mut cx)
            };
            events.extend(observed.events);
            ignored = match observed.outcome {
                Outcome::Applied => ignored,
                Outcome::Deferred => Some("deferred".to_owned()),
                Outcome::Ignored(reason) => Some(reason),
            };
        }
        (app.follow(conversation, events, &mut cx), ignored)
    }

    async fn exited(&mut self, run: RunId, exit: &RunExit) -> Result<(), Problem> {
        // Nobody is left to send what is missing; what is parked behind it counts before the end does.
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
        let mut ids = FreshIds;
        let mut cx = self.app.occasion(&mut ids);
        let conversation = &mut self.loaded.conversation;
        let Sender::Current(ordinal) = conversation.session.sender(run) else { return Ok(()) };
        let how = exit
            .detail
            .clone()
            .or_else(|| exit.signal.map(|s| format!("signal {s}")))
            .or_else(|| exit.code.map(|c| format!("exit code {c}")));
        let events = conversation.run_ended(run, exit.drained, how, &mut cx).map_err(Problem::from)?;
        let events = self.app.follow(conversation, events, &mut cx);
        let body = serde_json::to_value(RawEvent::RunExited(exit.clone())).map_err(Problem::internal)?;
        self.entry(Cause::Agent { run_id: run, run: ordinal, sequence: None, body }, events, None, None)
    }

    /// An authentic event that cannot be read consumes its sequence, is shown, and blocks nothing (ruling 9).
    fn quarantine(
        &mut self,
        run: RunId,
        sequence: u64,
        body: Value,
        errors: Vec<String>,
    ) -> Result<(), Problem> {
        tracing::trace!(target: METRICS, events_quarantined = 1_u64);
        let cause = self.cause(run, Some(sequence), body);
        self.entry(
            cause,
            vec![DomainEvent::EventQuarantined { errors }],
            Some("quarantined".to_owned()),
            None,
        )
    }

    fn cause(&self, run_id: RunId, sequence: Option<u64>, body: Value) -> Cause {
        let run = match self.loaded.conversation.session.sender(run_id) {
            Sender::Current(ordinal) | Sender::Past(ordinal) => ordinal,
            Sender::Unknown => 0,
        };
        Cause::Agent { run_id, run, sequence, body }
    }

    fn entry(
        &mut self,
        cause: Cause,
        events: Events,
        ignored: Option<String>,
        view: Option<&View>,
    ) -> Result<(), Problem> {
        if events.is_empty() {
            return Ok(());
        }
        self.changed = true;
        self.app.record_beside(&mut self.commit, &self.loaded, &events)?;
        let mut ids = FreshIds;
        let mut cx = self.app.occasion(&mut ids);
        let id = cx.event_id();
        let mut entry = JournalEntry::record(
            &mut self.loaded.conversation.session,
            id,
            cx.now,
            cause,
            events,
            Vec::new(),
        );
        entry.ignored_reason = ignored;
        entry.traceparent = self.place;
        Ok(self.commit.entry(&entry, view)?)
    }

    /// Commits what there is, as the transaction gets large, and goes on with the state that was committed.
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

    async fn commit(self) -> Result<(), Problem> {
        if !self.changed {
            return Ok(());
        }
        Ok(Self::finish(self.app, self.commit, &self.loaded).await?)
    }
}
