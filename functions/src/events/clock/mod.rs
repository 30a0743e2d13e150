//! The clock: processes due deadlines (decisions 12, 13, 26). The sessions hold the deadlines; the Due index only locates them.

mod decisions;
pub mod orphans;
pub mod schedules;
pub mod watch;

use std::time::{Duration, Instant};

use pilothouse_app::batch::BatchOutcome;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::{CLOCK, DEADLINES};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::queues::{self, DeadlineOf};
use pilothouse_app::run_exit::RunExitReporter;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_app::{App, FreshIds};
use pilothouse_broker::{MAX_BATCH, Received};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{DeadlineKind, Observation, ProcessState};
use pilothouse_domain::{AgentSessionId, AgentTemplate, Aggregate as _, Brake, DomainContext, Events, RunId};
use pilothouse_runtime::ProcessState as Seen;
use pilothouse_store::{AggregateRef, Commit, LoadedConversation, layout};

use crate::events::intake::apply_ready;
use crate::events::relay;
use crate::reactions::{brakes, injections};

pub const FUNCTION: EventFunction = EventFunction::new(
    "clock",
    &[
        Subscription::queue(DEADLINES, |ctx, batch| {
            Box::pin(async move { Ok(process(&ctx.app, batch).await) })
        }),
        Subscription::schedule(|ctx| Box::pin(async move { sweep_all(&ctx.app).await })),
    ],
    CLOCK,
)
.summary("Process due deadlines");

async fn sweep_all(app: &App) -> Result<(), Problem> {
    let due = sweep(app).await?;
    let orphans = orphans::sweep(app).await?;
    tracing::info!(due, orphans, "swept");
    Ok(())
}

/// The most sessions that one tick processes from each shard of the index.
const A_TICK: usize = 50;
/// The most sessions that one sweep finds in each shard of the index. The next sweep finds the rest.
const MAX_DUE_PER_SWEEP: usize = 1000;
/// The lower bound of the gap that counts as an absence. Short deadlines must not turn a busy machine into an absent one.
const SHORTEST_GAP: Duration = Duration::from_secs(1);

/// Processes due deadlines. A failure is logged, and the next tick tries again.
pub async fn tick(app: &App) -> Result<(), Problem> {
    let longest = SHORTEST_GAP.max(app.deadlines.received_timeout / 3);
    watch::swept(app, longest).await?;
    let (began, real) = (app.now(), Instant::now());
    for id in app.store.due(app.now(), A_TICK).await? {
        if let Err(cause) = carry_out(app, id).await {
            tracing::warn!(session = %id, cause = %error_chain(&cause), "failed to process a due deadline");
        }
    }
    for (aggregate, _) in app.store.due_aggregates(app.now(), A_TICK).await? {
        if let Err(cause) = carry_out_aggregate(app, &aggregate).await {
            let AggregateRef { kind, id } = aggregate;
            tracing::warn!(%kind, %id, cause = %error_chain(&cause), "failed to process a due deadline");
        }
    }
    // A tick that takes long is not an absence. A step of the clock during the tick is one, which the next tick detects.
    if app.now().since(began) <= real.elapsed() + longest {
        watch::sweep_ended(app, longest).await?;
    }
    Ok(())
}

/// Processes the due deadline of an aggregate other than a session. Templates, brakes, free decisions and the injections
/// of agents have deadlines.
async fn carry_out_aggregate(app: &App, aggregate: &AggregateRef) -> Result<(), Problem> {
    match aggregate.kind.as_str() {
        AgentTemplate::KIND => {
            schedules::carry_out(app, aggregate.id.parse().map_err(Problem::internal)?).await
        }
        Brake::KIND => brakes::release_due(app, aggregate.id.parse().map_err(Problem::internal)?).await,
        layout::INJECTIONS => {
            injections::inject_due(app, aggregate.id.parse().map_err(Problem::internal)?).await
        }
        layout::DECISION => decisions::carry_out(app, aggregate.id.parse().map_err(Problem::internal)?).await,
        _ => Ok(()),
    }
}

/// Processes a batch of the deadlines queue, each message for a session or a template. The caller settles the batch.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    let mut outcome = BatchOutcome::default();
    if let Err(cause) = watch::swept(app, longest_gap(app)).await {
        tracing::warn!(cause = %error_chain(&cause), "failed to store the time of the sweep");
    }
    for message in batch {
        let carried_out = match serde_json::from_str::<DeadlineOf>(&message.body) {
            Ok(DeadlineOf::Session { session_id }) => carry_out(app, session_id).await,
            Ok(DeadlineOf::Aggregate(aggregate)) => carry_out_aggregate(app, &aggregate).await,
            Err(unreadable) => Err(Problem::internal(unreadable)),
        };
        match carried_out {
            Ok(()) => outcome.done.push(message.receipt),
            Err(cause) => {
                let receive_count = message.receive_count;
                tracing::warn!(cause = %error_chain(&cause), receive_count, "failed to process a due deadline");
                outcome
                    .retry
                    .push((vec![message.receipt], pilothouse_app::batch::retry_delay(receive_count)));
            }
        }
    }
    outcome
}

/// Sends a message to the deadlines queue for each session and each template with a deadline before the next sweep. Returns the
/// number of messages.
pub async fn sweep(app: &App) -> Result<usize, Problem> {
    watch::swept(app, longest_gap(app)).await?;
    let now = app.now();
    let due = app.store.due_times(now + relay::SOON, MAX_DUE_PER_SWEEP).await?;
    let mut messages: Vec<_> = due.iter().filter_map(|(id, at)| relay::deadline(*id, *at, now)).collect();
    let aggregate = app.store.due_aggregates(now + relay::SOON, MAX_DUE_PER_SWEEP).await?;
    messages.extend(aggregate.iter().filter_map(|(of, at)| relay::deadline_of_aggregate(of, *at, now)));
    for batch in messages.chunks(MAX_BATCH) {
        let sent = app.broker.send(&queues::deadlines(), batch.to_vec()).await.map_err(Problem::internal)?;
        if let Some((_, error)) = sent.failed.into_iter().next() {
            return Err(Problem::internal(error));
        }
    }
    Ok(messages.len())
}

/// The longest regular time between two sweeps, which are a minute apart.
fn longest_gap(app: &App) -> Duration {
    relay::SOON + app.deadlines.received_timeout
}

pub async fn carry_out(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    RetryPolicy::EVENT.retry(async || attempt(app, id).await).await
}

async fn attempt(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    loop {
        let Some(mut loaded) = app.store.conversation(id).await? else { return Ok(()) };
        let session = &loaded.conversation.session;
        let Some(due) =
            session.next_deadline(&app.deadlines).filter(|(at, _)| *at <= app.now()).map(|(_, due)| due)
        else {
            // After a concurrent change the index may still have an outdated deadline.
            return postpone_deadline(app, loaded).await;
        };
        if session.has_ready() {
            // An intake that stopped between two commits left ready envelopes. The deadline may end the run, so these envelopes
            // are applied first.
            apply_ready(app, Commit::new(), loaded).await?;
            continue;
        }
        let run = session.run().map(|run| run.id);
        let mut observed = observe(app, id, run, due).await?;
        if due == DeadlineKind::Request {
            observed.ticks = app.ticks_of(session).await?;
        }
        if matches!(due, DeadlineKind::Received | DeadlineKind::Silence) {
            app.store.load_running_subagents(&mut loaded).await?;
        }
        let session = &mut loaded.conversation.session;
        if let Some(run) = run.filter(|_| due == DeadlineKind::Silence) {
            let decides = session.silence_decides_after(&observed, &app.deadlines, app.now());
            if let Some(after) = decides.filter(|after| observed.processed_until.is_none_or(|at| at < *after))
            {
                RunExitReporter::of(app).send_probe(id, run, after).await.map_err(Problem::internal)?;
            }
            if session.silence_ends_run(&observed, &app.deadlines, app.now()) {
                // No sender of the missing events remains. The events parked behind the gap must be applied before the run ends.
                let lost = session.close_gap();
                if !lost.is_empty() {
                    let mut commit = Commit::new();
                    app.record_entry(&mut commit, &mut loaded, Cause::Clock, lost)?;
                    apply_ready(app, commit, loaded).await?;
                    continue;
                }
            }
        }
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let events = if due == DeadlineKind::Disk && app.disk().is_short() {
            loaded.conversation.session.postpone_disk_check(&ctx);
            Events::new()
        } else {
            loaded.conversation.on_deadline(&observed, &mut ctx)?
        };
        let events = app.with_consequences(&mut loaded.conversation, events, &mut ctx);
        let mut commit = Commit::new();
        app.record_entry(&mut commit, &mut loaded, Cause::Clock, events)?;
        return apply_ready(app, commit, loaded).await;
    }
}

/// Corrects the index if it lists a session too early.
async fn postpone_deadline(app: &App, loaded: LoadedConversation) -> Result<(), Problem> {
    if !loaded.is_listed_due(app.now()) {
        return Ok(());
    }
    Ok(app.store.postpone_deadline(loaded, &app.deadlines).await?)
}

/// Pauses a session with a working agent because the disk of the server is nearly full.
pub async fn pause_for_disk(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    let load = async || Ok(app.store.conversation(id).await?);
    let decide = |loaded: Option<LoadedConversation>, ctx: &mut DomainContext<'_>| {
        let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(())) };
        let events = loaded.conversation.session.pause_for_disk(ctx);
        if events.is_empty() {
            return Ok(Decision::Unchanged(()));
        }
        let events = app.with_consequences(&mut loaded.conversation, events, ctx);
        let mut commit = Commit::new();
        app.record(&mut commit, &mut loaded, Cause::Clock, events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Collects the state of a run. Queries the runtime only if the deadline depends on it.
async fn observe(
    app: &App,
    id: AgentSessionId,
    run: Option<RunId>,
    due: DeadlineKind,
) -> Result<Observation, Problem> {
    let absence = app.store.clock_sweep().await?.and_then(|sweep| sweep.absence);
    let nothing = Observation {
        process: ProcessState::Unknown,
        heard_at: None,
        processed_until: None,
        absence,
        ticks: None,
    };
    let Some(run) = run.filter(|_| due.needs_process_state()) else { return Ok(nothing) };
    let process = match app.runtime.state(run).await {
        Seen::Alive => ProcessState::Alive,
        Seen::Dead => ProcessState::Dead,
        Seen::Waiting => ProcessState::Waiting,
        Seen::Unknown => ProcessState::Unknown,
        Seen::Unreachable => ProcessState::Unreachable,
    };
    let heard_at = app.store.last_heartbeat(id, run).await?;
    let processed_until = app.store.processed_until(id, run).await?;
    Ok(Observation { process, heard_at, processed_until, absence, ticks: None })
}
