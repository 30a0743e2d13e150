//! `GET /api/projects/{id}/coherence`: returns the coherence score of a project (S2, "Coherence score computation").

use axum::Json;
use axum::extract::State;
use pilothouse_api::coherence::CoherenceReport;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::coherence::{
    CoherenceIssue, CoherenceScore, CoherenceTrend, EmbeddingUse, OpenIssues, ScoredIssue,
};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{Project, ProjectId, UserId};
use pilothouse_store::IssueList;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-coherence", Verb::Get, "/api/projects/{id}/coherence", |verb| {
        verb.route(get_score)
    })
    .owner()
    .summary("Get the coherence score of a project and its trend")
    .output::<CoherenceReport>(&[200]);

/// Issues in a read, and the most reads of each list. The latest 1,000 issues count.
const PAGE: usize = 200;
const READS: usize = 5;

/// Responds with 200 and the score, which is computed from the issues that are not dismissed or resolved.
async fn get_score(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
) -> Result<Json<CoherenceReport>, Problem> {
    app.store.aggregate::<Project>(&owner, id).await?.ok_or_else(Problem::no_project)?;
    let time = app.project_time(id).await?.ok_or_else(Problem::no_project)?;
    let tick = time.tick(app.now())?;
    let mut issues = read(&app, (&owner, id), IssueList::Open, |_| false).await?;
    let is_older = |ended: Tick| tick.since(ended) >= CoherenceScore::TREND_TICKS;
    issues.extend(read(&app, (&owner, id), IssueList::Ended, is_older).await?);
    let reviews = app.store.review_ledger(id).await?.value;
    let (score, score_before) = (CoherenceScore::now(&issues), CoherenceScore::before(&issues, tick));
    Ok(Json(CoherenceReport {
        score,
        score_before,
        trend: CoherenceTrend::between(score_before, score),
        open_issues: OpenIssues::count(&issues),
        tick,
        reviews: Some(reviews.usage()).filter(|usage| usage.reviews > 0),
        embeddings: Some(reviews.embeddings()).filter(|usage| *usage != EmbeddingUse::default()),
    }))
}

/// The issues of a list, until one that ended at a tick which `is_enough`.
async fn read(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    list: IssueList,
    is_enough: impl Fn(Tick) -> bool,
) -> Result<Vec<ScoredIssue>, Problem> {
    let (mut issues, mut after) = (Vec::new(), None);
    for _ in 0..READS {
        let listing = app.store.coherence_issues(owner, project, list, PAGE, after).await?;
        issues.extend(listing.items.iter().map(CoherenceIssue::scored));
        after = listing.next;
        let oldest = issues.last().and_then(|issue| issue.ended);
        if after.is_none() || oldest.is_some_and(&is_enough) {
            break;
        }
    }
    Ok(issues)
}
