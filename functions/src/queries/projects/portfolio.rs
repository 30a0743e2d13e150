//! `GET /api/portfolio`: all projects of an owner at a glance (S2).
//!
//! Nothing is counted in advance, so that no item is shared: a page reads the agents of at most [`MAX_PROJECTS`] projects with their
//! sessions, and the first 1,000 decisions of the inbox.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::portfolio::{PortfolioBrake, PortfolioEntry, TrustSummary};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::projects::brake_concerns;
use pilothouse_domain::decision::Decision;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::{Project, ProjectAgent, ProjectId, UserId};
use pilothouse_store::OwnerBrakes;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("portfolio", Verb::Get, "/api/portfolio", |verb| verb.route(show_portfolio))
        .owner()
        .summary("Show all projects at a glance, newest first")
        .query(&["limit", "cursor", "isArchived"])
        .output::<Page<PortfolioEntry>>(&[200]);

/// The most projects of a page.
const MAX_PROJECTS: usize = 10;

/// The open decisions of an owner, by project and severity.
#[derive(Default)]
struct OpenDecisions {
    by_project: BTreeMap<ProjectId, BTreeMap<Severity, usize>>,
    has_more: bool,
}

/// Responds with 200 and a page of at most 10 projects, with their agents, open decisions, spend, brakes, mode, tick and trust.
async fn show_portfolio(
    State(app): State<App>,
    Owner(owner): Owner,
    mut page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<PortfolioEntry>>, Problem> {
    let wanted: Option<bool> = parameters.parsed("isArchived")?;
    let filter = parameters.text("isArchived").unwrap_or_default();
    let keep = |project: &Project| wanted.is_none_or(|wanted| project.archived_at().is_some() == wanted);
    page.limit = page.limit.min(MAX_PROJECTS);
    let projects = app.page_of_aggregates(&owner, &page, filter, true, keep, Project::clone).await?;
    let brakes = app.store.brakes(&owner).await?;
    let mut decisions = OpenDecisions::default();
    if !projects.items.is_empty() {
        decisions = OpenDecisions::load(&app, &owner).await?;
    }
    let mut items = Vec::with_capacity(projects.items.len());
    for project in &projects.items {
        items.push(entry(&app, project, &brakes, &mut decisions).await?);
    }
    Ok(Json(Page { items, next_cursor: projects.next_cursor }))
}

async fn entry(
    app: &App,
    project: &Project,
    brakes: &OwnerBrakes,
    decisions: &mut OpenDecisions,
) -> Result<PortfolioEntry, Problem> {
    let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
    let (tick, definition) = (time.tick(app.now())?, project.definition());
    let agents = app.agents_of(project).await?;
    let mut by_status = BTreeMap::new();
    for (_, session) in &agents {
        *by_status.entry(AgentStatus::of(session)).or_default() += 1;
    }
    let score =
        |agent: &ProjectAgent| agent.trust_under(&definition.trust, tick).score(tick, &definition.trust);
    // A brake on a session does not count.
    let stopping = brakes.iter().filter(|brake| brake_concerns(&brake.scope, project, |_| false));
    Ok(PortfolioEntry {
        project_id: project.id(),
        name: definition.brief.name.to_string(),
        archived_at: project.archived_at(),
        control_mode: project.control_mode().mode(),
        tick,
        agents: by_status,
        open_decisions: decisions.by_project.remove(&project.id()).unwrap_or_default(),
        more_decisions: decisions.has_more,
        spent_usd: agents.iter().map(|(_, session)| session.budget().account_usd()).sum(),
        spending_cap: definition.spending_cap,
        spending: app.spending(project).await?,
        brakes: stopping.map(|brake| PortfolioBrake { id: brake.id, scope: brake.scope.clone() }).collect(),
        trust: TrustSummary::of(agents.iter().map(|(agent, _)| score(&agent.value)).collect()),
    })
}

impl OpenDecisions {
    async fn load(app: &App, owner: &UserId) -> Result<Self, Problem> {
        let mut by_project: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
        let count = |decision: Decision| {
            if let Some(project) = decision.project_id() {
                *by_project.entry(project).or_default().entry(decision.rank().0).or_default() += 1;
            }
        };
        let has_more = app.first_open_decisions(owner, count).await?;
        Ok(Self { by_project, has_more })
    }
}
