//! `GET /api/coherence`: lists the coherence issues of a project (S2, "Frontend REST API").

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::Aggregate as _;
use pilothouse_domain::coherence::{CoherenceCategory, CoherenceIssue, CoherenceState};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_store::{IssueList, layout};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-list", Verb::Get, "/api/coherence", |verb| verb.route(list_issues))
        .owner()
        .summary("List the coherence issues of a project, the open ones first")
        .query(&["limit", "cursor", "projectId", "state", "severity", "category", "workstream"])
        .output::<Page<CoherenceIssueView>>(&[200]);

/// The filters of a list.
struct Filter {
    state: Option<CoherenceState>,
    severity: Option<Severity>,
    category: Option<CoherenceCategory>,
    workstream: Option<WorkstreamId>,
}

impl Filter {
    fn of(parameters: &Parameters) -> Result<Self, Problem> {
        let workstream = parameters.text("workstream").map(WorkstreamId::parse).transpose();
        Ok(Self {
            state: parameters.one_of("state", &CoherenceState::ALL)?,
            severity: parameters.one_of("severity", &Severity::ALL)?,
            category: parameters.one_of("category", &CoherenceCategory::ALL)?,
            workstream: workstream.map_err(|wrong| Problem::invalid("workstream", wrong))?,
        })
    }

    const fn list(&self) -> IssueList {
        match self.state {
            None => IssueList::All,
            Some(state) if state.counts() => IssueList::Open,
            Some(_) => IssueList::Ended,
        }
    }

    fn admits(&self, issue: &CoherenceIssue) -> bool {
        let finding = issue.finding();
        self.state.is_none_or(|state| issue.status().state() == state)
            && self.severity.is_none_or(|severity| finding.severity == severity)
            && self.category.is_none_or(|category| finding.category == category)
            && self.workstream.as_ref().is_none_or(|it| finding.affected_workstreams.contains(it))
    }
}

/// Responds with 200 and a page: open and confirmed issues, the latest first, then those that are dismissed or resolved. An owner with
/// one project may omit `projectId`. With filters, a page may be short, or even empty, although more follow.
async fn list_issues(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<CoherenceIssueView>>, Problem> {
    let filter = Filter::of(&parameters)?;
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value.id();
    let scope = Scope::new("coherence", layout::aggregate_partition(&owner, CoherenceIssue::KIND))
        .filtered_by(project, &parameters, &["state", "severity", "category", "workstream"]);
    let read = |limit, after| app.store.coherence_issues(&owner, project, filter.list(), limit, after);
    let keep = |issue| filter.admits(&issue).then(|| CoherenceIssueView::of(&issue));
    Ok(Json(scope.read(&page, read, keep).await?))
}
