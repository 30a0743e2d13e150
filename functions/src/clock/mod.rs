//! The clock: carries out what is due (rulings 12, 13, 26). Deadlines stand on the sessions; the Due index only says
//! where to look.

pub mod orphans;
pub mod schedules;

use pilothouse_broker::{MAX_BATCH, Received};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{Due, ProcessState};
use pilothouse_domain::{AgentSession, AgentSessionId, AgentTemplate, OwnedAggregate as _, Timestamp};
use pilothouse_runtime::ProcessState as Seen;
use pilothouse_store::{Commit, LoadedConversation, OwnedRef, Store};

use crate::app::{App, FreshIds};
use crate::edge::Problem;
use crate::intake::{apply_ready, chain};
use crate::queues::{self, DeadlineOf, Settlement};
use crate::relay;

/// Sessions that one tick looks at in each shard of the index.
const A_TICK: usize = 50;
/// Sessions that one sweep finds in each shard of the index, at most; the next finds the others.
const A_SWEEP: usize = 1000;
/// How often a lost race is run again.
const TRIES: u32 = 40;

/// Carries out what is due now. A session that fails is logged and looked at again at the next tick.
pub async fn tick(app: &App) -> Result<(), Problem> {
    for id in app.store.due(app.now(), A_TICK).await? {
        if let Err(cause) = carry_out(app, id).await {
            tracing::warn!(session = %id, cause = %chain(&cause), "what is due could not be carried out");
        }
    }
    for (aggregate, _) in app.store.due_owned(app.now(), A_TICK).await? {
        if let Err(cause) = carry_out_owned(app, &aggregate).await {
            let OwnedRef { kind, id } = aggregate;
            tracing::warn!(%kind, %id, cause = %chain(&cause), "what is due could not be carried out");
        }
    }
    Ok(())
}

/// Carries out what is due of an aggregate that is no session. Only templates ever have something due.
async fn carry_out_owned(app: &App, aggregate: &OwnedRef) -> Result<(), Problem> {
    match aggregate.kind.as_str() {
        AgentTemplate::KIND => {
            schedules::carry_out(app, aggregate.id.parse().map_err(Problem::internal)?).await
        }
        _ => Ok(()),
    }
}

/// Takes one batch of the deadlines queue, each of a session or a template that has something due by now, and leaves it to the caller
/// to settle it.
pub async fn process(app: &App, batch: Vec<Received>) -> Settlement {
    let mut settlement = Settlement::default();
    for message in batch {
        let carried_out = match serde_json::from_str::<DeadlineOf>(&message.body) {
            Ok(DeadlineOf::Session { session_id }) => carry_out(app, session_id).await,
            Ok(DeadlineOf::Owned(aggregate)) => carry_out_owned(app, &aggregate).await,
            Err(unreadable) => Err(Problem::internal(unreadable)),
        };
        match carried_out {
            Ok(()) => settlement.done.push(message.receipt),
            Err(cause) => {
                let receive_count = message.receive_count;
                tracing::warn!(cause = %chain(&cause), receive_count, "a deadline could not be carried out");
                settlement.again.push((vec![message.receipt], queues::pause(receive_count)));
            }
        }
    }
    settlement
}

/// Puts a message on the deadlines queue for each session and each template of which something is due before the next
/// sweep. Returns how many there are.
pub async fn sweep(app: &App) -> Result<usize, Problem> {
    let now = app.now();
    let due = app.store.due_times(now + relay::SOON, A_SWEEP).await?;
    let mut messages: Vec<_> = due.iter().filter_map(|(id, at)| relay::deadline(*id, *at, now)).collect();
    let owned = app.store.due_owned(now + relay::SOON, A_SWEEP).await?;
    messages.extend(owned.iter().filter_map(|(of, at)| relay::deadline_of_owned(of, *at, now)));
    for batch in messages.chunks(MAX_BATCH) {
        let sent = app.broker.send(&queues::deadlines(), batch.to_vec()).await.map_err(Problem::internal)?;
        if let Some((_, error)) = sent.failed.into_iter().next() {
            return Err(Problem::internal(error));
        }
    }
    Ok(messages.len())
}

/// Carries out what is due of one session.
pub async fn carry_out(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    for attempt in 0..TRIES {
        let Some(mut loaded) = app.store.conversation(id).await? else { return Ok(()) };
        let session = &loaded.conversation.session;
        let Some(due) =
            session.next_due(&app.deadlines).filter(|(at, _)| *at <= app.now()).map(|(_, due)| due)
        else {
            match put_off(app, loaded).await {
                // Whoever changed it meanwhile may have left it where it stands in the index.
                Err(Problem::VersionConflict) => continue,
                other => return other,
            }
        };
        if session.has_ready() {
            // An intake that was ended between two commits left these. What is due may be the end of their run, and what
            // was received counts before it.
            match apply_ready(app, Commit::new(), loaded).await {
                Ok(()) | Err(Problem::VersionConflict) => continue,
                Err(other) => return Err(other),
            }
        }
        let run = session.run().map(|run| run.id);
        // The runtime is asked only where its answer decides.
        let process = match (due, run) {
            (Due::Received | Due::Silence | Due::Replay | Due::Launch, Some(run)) => {
                match app.runtime.state(run).await {
                    Seen::Alive => ProcessState::Alive,
                    Seen::Dead => ProcessState::Dead,
                    Seen::Waiting => ProcessState::Waiting,
                    Seen::Unknown => ProcessState::Unknown,
                }
            }
            _ => ProcessState::Unknown,
        };
        let heard_at = match run {
            Some(run) => app.store.last_beat(id, run).await?,
            None => None,
        };
        if matches!(due, Due::Received | Due::Silence) {
            app.store.load_running_subagents(&mut loaded).await?;
        }
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        if is_dead(due, process, heard_at, app, &loaded.conversation.session) {
            // Nobody is left to send what is missing; what is parked behind it counts before the end does.
            let lost = loaded.conversation.session.close_gap();
            if !lost.is_empty() {
                let mut commit = Commit::new();
                app.record_entry(&mut commit, &mut loaded, Cause::Clock, lost)?;
                match apply_ready(app, commit, loaded).await {
                    Ok(()) | Err(Problem::VersionConflict) => continue,
                    Err(other) => return Err(other),
                }
            }
        }
        let events = loaded.conversation.on_due(process, heard_at, &mut cx)?;
        let events = app.follow(&mut loaded.conversation, events, &mut cx);
        let mut commit = Commit::new();
        app.record_entry(&mut commit, &mut loaded, Cause::Clock, events)?;
        match apply_ready(app, commit, loaded).await {
            Ok(()) => return Ok(()),
            Err(Problem::VersionConflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other),
        }
    }
    Err(Problem::VersionConflict)
}

/// Nothing is due yet: a session that the index has too early is moved on.
async fn put_off(app: &App, loaded: LoadedConversation) -> Result<(), Problem> {
    if !loaded.is_listed_due(app.now()) {
        return Ok(());
    }
    Ok(app.store.put_off(loaded, &app.deadlines).await?)
}

/// Whether what is due finds the run dead, with envelopes missing (ruling 13).
fn is_dead(
    due: Due,
    process: ProcessState,
    heard_at: Option<Timestamp>,
    app: &App,
    session: &AgentSession,
) -> bool {
    let heard_lately = heard_at.is_some_and(|at| at + app.deadlines.silent > app.now());
    due == Due::Silence
        && !heard_lately
        && session.run().is_some_and(|run| run.inbox.has_gap() && run.silence_is_death(process))
}
