//! `POST /api/trust/{id}/simulate`: replays the outcomes of an agent under another configuration (S2, "Trust score calibration").

use axum::Json;
use axum::extract::State;
use pilothouse_api::input::trust::TrustInput;
use pilothouse_api::trust::SimulationView;
use pilothouse_app::App;
use pilothouse_app::function::requirements::QUERY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::trust::{TrustEntry, simulate};
use pilothouse_domain::{ProjectAgent, ProjectAgentEvent, ProjectAgentId};

use super::agent_with_time;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("trust-simulate", Verb::Post, "/api/trust/{id}/simulate", |verb| {
        verb.route(simulate_trust)
    })
    .owner()
    .summary("Replay the outcomes of an agent under another trust configuration")
    .input::<TrustInput>()
    .output::<SimulationView>(&[200])
    .requires(QUERY);

/// The most outcomes that are replayed.
const MAX_OUTCOMES: usize = 10_000;
/// Journal entries in one read.
const PAGE: usize = 1000;

/// Responds with 200 and the score that the agent would have. Nothing changes.
async fn simulate_trust(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectAgentId>,
    body: Body<TrustInput>,
) -> Result<Json<SimulationView>, Problem> {
    let profile = body.input.0;
    let (agent, time) = agent_with_time(&app, &owner, id).await?;
    let agent = agent.value;
    let (history, truncated) = outcomes(&app, id).await?;
    let tick = time.tick(app.now())?;
    let simulation = simulate(&history, &profile, agent.started_at_tick(), tick);
    let calibration = &time.project.value.definition().trust;
    let current = agent.trust_under(calibration, tick).score(tick, calibration);
    Ok(Json(SimulationView::of(id, (profile, &simulation), current, truncated)))
}

/// The outcomes of an agent, oldest first, and whether there are more.
async fn outcomes(app: &App, id: ProjectAgentId) -> Result<(Vec<TrustEntry>, bool), Problem> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let listing = app.store.aggregate_journal::<ProjectAgent>(id, false, PAGE, after).await?;
        for event in listing.items.into_iter().flat_map(|entry| entry.events) {
            if let ProjectAgentEvent::TrustChanged { entry, .. } = event {
                found.push(*entry);
            }
        }
        after = listing.next;
        if after.is_none() || found.len() > MAX_OUTCOMES {
            let truncated = found.len() > MAX_OUTCOMES;
            found.truncate(MAX_OUTCOMES);
            return Ok((found, truncated));
        }
    }
}
