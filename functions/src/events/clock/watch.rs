//! Detects an absence of the clock: the server was down, the machine was suspended, or its time was stepped forward. Deadlines of
//! runs do not count such a time ([decision 61](../../../docs/decisions/0061-unreachable-runs.md)).

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::session::Absence;
use pilothouse_store::ClockSweep;

/// The server was absent since its last sweep.
pub async fn started(app: &App) -> Result<(), Problem> {
    let now = app.now();
    let from = app.store.clock_sweep().await?.map_or(now, |sweep| sweep.at);
    let absence = Some(Absence { from: from.min(now), until: now });
    Ok(app.store.record_clock_sweep(&ClockSweep { at: now, absence }).await?)
}

/// Records a sweep, and an absence if the last sweep is longer ago than `longest`. The time is stored only a few times per
/// `longest`, to save writes.
pub(super) async fn swept(app: &App, longest: Duration) -> Result<(), Problem> {
    let now = app.now();
    match app.store.clock_sweep().await? {
        Some(last) if last.at + longest < now => {
            let seconds = now.since(last.at).as_secs();
            tracing::info!(seconds, "the clock was absent; deadlines start over");
            let absence = Some(Absence { from: last.at, until: now });
            Ok(app.store.record_clock_sweep(&ClockSweep { at: now, absence }).await?)
        }
        last => keep(app, last, longest).await,
    }
}

pub(super) async fn sweep_ended(app: &App, longest: Duration) -> Result<(), Problem> {
    keep(app, app.store.clock_sweep().await?, longest).await
}

async fn keep(app: &App, last: Option<ClockSweep>, longest: Duration) -> Result<(), Problem> {
    let now = app.now();
    if last.is_some_and(|last| last.at <= now && now < last.at + longest / 3) {
        return Ok(());
    }
    let absence = last.and_then(|last| last.absence);
    Ok(app.store.record_clock_sweep(&ClockSweep { at: now, absence }).await?)
}
