//! Assembles the request for the review of an issue by a model (S2, "Context assembly").

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::Artifact;
use pilothouse_domain::coherence::similarity::is_comparable;
use pilothouse_domain::coherence::structural::Recommendation;
use pilothouse_domain::coherence::{
    CoherenceIssue, RelevantDecision, ResolvedDecision, ReviewCandidate, ReviewRequest, ReviewedArtifact,
    WorkstreamBrief,
};
use pilothouse_domain::decision::Decision;
use pilothouse_domain::{Aggregate as _, Project};
use pilothouse_store::IssueList;

use crate::artifact_content;

/// Most recommendations for an artifact in a request, the latest first.
const DECISIONS: usize = 5;
/// Contents with more bytes are left out.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Open issues of a project that are considered for a request.
const WAITING: usize = 50;
/// Waiting issues whose texts are read for a request.
const MAX_READ: usize = 8;

/// The request for the review of `issue`, together with other issues that wait for a review, while all texts fit in. After a failed
/// review, the issue is judged alone.
pub(crate) async fn assemble(
    app: &App,
    issue: &CoherenceIssue,
    project: &Project,
) -> Result<ReviewRequest, Problem> {
    let mut request = request_for(app, issue, project).await?;
    if issue.failed_reviews() > 0 {
        return Ok(request);
    }
    let open =
        app.store.coherence_issues(issue.owner_id(), project.id(), IssueList::Open, WAITING, None).await?;
    let waits = |other: &CoherenceIssue| {
        other.id() != issue.id() && other.needs_review() && !other.has_given_up_review()
    };
    for other in open.items.iter().filter(|other| waits(other)).take(MAX_READ) {
        if request.candidates.len() == ReviewRequest::MAX_CANDIDATES
            || !request.has_room_for(&BTreeMap::new())
        {
            break;
        }
        match request_for(app, other, project).await {
            Ok(added) if request.has_room_for(&added.artifact_contents) => request.extend(added),
            Ok(_) => {}
            // Its own review reports it.
            Err(cause) => {
                tracing::warn!(issue = %other.id(), cause = %error_chain(&cause), "left an issue out of a review");
            }
        }
    }
    Ok(request)
}

async fn request_for(app: &App, issue: &CoherenceIssue, project: &Project) -> Result<ReviewRequest, Problem> {
    let finding = issue.finding();
    let ids = &finding.affected_artifact_ids;
    let artifacts = ids.iter().map(|id| app.store.aggregate::<Artifact>(issue.owner_id(), *id));
    let artifacts = try_join_all(artifacts).await?.into_iter().flatten().map(|loaded| loaded.value);
    let artifacts: Vec<_> = artifacts.filter(|artifact| artifact.project_id() == project.id()).collect();
    let mut contents = BTreeMap::new();
    for artifact in &artifacts {
        let text = text_of(app, artifact).await?;
        let path = artifact.path().to_string();
        let reviewed = ReviewedArtifact::new(path, artifact.workstream().clone(), &text, artifacts.len());
        contents.insert(artifact.id(), reviewed);
    }
    let mut decisions: Vec<RelevantDecision> = Vec::new();
    if let Some(id) = finding.source.decision_id() {
        let decision = app.store.decision_of(issue.owner_id(), id).await?;
        decisions.extend(decision.as_ref().and_then(ResolvedDecision::of).map(RelevantDecision::from));
    }
    for artifact in &artifacts {
        let recommendations = app.store.recommendations(project.id(), artifact.id(), DECISIONS).await?;
        for recommendation in recommendations {
            if decisions.iter().any(|known| known.decision_id == recommendation.decision_id) {
                continue;
            }
            let decision = app.store.decision_of(issue.owner_id(), recommendation.decision_id).await?;
            decisions.push(relevant(recommendation, decision.as_ref()));
        }
    }
    Ok(ReviewRequest {
        candidates: vec![ReviewCandidate::of(issue.id(), finding, issue.detected_at())],
        artifact_contents: contents,
        relevant_decisions: decisions,
        workstream_briefs: finding
            .affected_workstreams
            .iter()
            .filter_map(|id| project.workstream(id))
            .map(|it| WorkstreamBrief { id: it.id.clone(), name: it.name.clone(), goals: it.goals.clone() })
            .collect(),
    })
}

/// The content, if it is text of at most [`MAX_BYTES`]; empty otherwise.
async fn text_of(app: &App, artifact: &Artifact) -> Result<String, Problem> {
    let latest = artifact.latest();
    let is_text = is_comparable(artifact.kind(), &latest.content.mime_type);
    if !is_text || latest.content.size_bytes.bytes() > MAX_BYTES {
        return Ok(String::new());
    }
    let bytes = artifact_content::load(app, artifact.project_id(), latest).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The choice that was made, or the recommended option before that.
fn relevant(recommendation: Recommendation, decision: Option<&Decision>) -> RelevantDecision {
    match decision.and_then(ResolvedDecision::of) {
        Some(choice) => RelevantDecision::from(choice),
        None => RelevantDecision {
            decision_id: recommendation.decision_id,
            workstream: recommendation.workstream,
            question: recommendation.question,
            option: recommendation.option,
            description: None,
            reason: None,
            is_resolved: false,
        },
    }
}
