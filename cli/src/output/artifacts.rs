//! Artifacts, and the knowledge of projects.

use std::fmt::Write as _;

use pilothouse_api::artifacts::{ArtifactDiff, ArtifactView};
use pilothouse_api::knowledge::{SearchHit, SearchResults};
use pilothouse_domain::artifact::{
    ArtifactAuthor, ArtifactReview, ArtifactState, ArtifactSummary, ArtifactVersion,
};
use pilothouse_domain::knowledge::KnowledgeSnapshot;
use pilothouse_domain::{ArtifactId, ProjectAgentId, Timestamp};

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::{text, time};

/// Characters of an id. They differ already at the beginning, because ids of artifacts are hashes.
const ID: usize = 8;

fn short(id: ArtifactId) -> String {
    id.to_string().chars().take(ID).collect()
}

/// The ids of agents differ at their end.
fn agent(id: ProjectAgentId) -> String {
    let id = id.to_string();
    id.get(id.len().saturating_sub(6)..).unwrap_or_default().to_owned()
}

fn author(author: &ArtifactAuthor) -> String {
    match author {
        ArtifactAuthor::Person { id } => id.to_string(),
        ArtifactAuthor::Agent { agent_id, .. } => format!("agent {}", agent(*agent_id)),
    }
}

const fn paint(state: ArtifactState) -> Paint {
    match state {
        ArtifactState::Pending => Paint::Yellow,
        ArtifactState::Approved => Paint::Green,
        ArtifactState::Rejected => Paint::Red,
    }
}

/// Artifacts, one a line.
pub fn list(artifacts: &[ArtifactSummary], style: Style, now: Timestamp) -> String {
    if artifacts.is_empty() {
        return "No artifacts\n".to_owned();
    }
    let mut table = Table::new(&["ID", "PATH", "KIND", "WORKSTREAM", "BY", ">VERSION", "STATE", "CHANGED"]);
    for artifact in artifacts {
        table.row(vec![
            short(artifact.id).into(),
            text::line(artifact.path.as_str(), 60).into(),
            artifact.kind.to_string().into(),
            artifact.workstream.to_string().into(),
            author(&artifact.created_by).into(),
            artifact.version.to_string().into(),
            Cell::painted(artifact.state.to_string(), paint(artifact.state)),
            time::ago(artifact.updated_at, now).into(),
        ]);
    }
    table.render(style)
}

/// An artifact with its versions.
pub fn show(view: &ArtifactView, versions: &[ArtifactVersion], style: Style, now: Timestamp) -> String {
    let it = &view.summary;
    let name = text::clean(it.name.as_str());
    let mut out = format!("{}  {}  {}\n{}\n", style.bold(&name), it.kind, it.id, text::clean(&view.uri));
    let _ = writeln!(out, "Workstream {}, version {}: {}", it.workstream, it.version, review(view));
    if !it.tags.is_empty() {
        let tags: Vec<_> = it.tags.as_slice().iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "Tags: {}", text::clean(&tags.join(", ")));
    }
    let mut table = Table::new(&[">VERSION", "BY", ">BYTES", "TYPE", "SHA-256", "STORED"]);
    for version in versions {
        table.row(vec![
            version.version.to_string().into(),
            author(&version.author).into(),
            version.content.size_bytes.bytes().to_string().into(),
            version.content.mime_type.to_string().into(),
            version.content.content_hash.as_str().chars().take(12).collect::<String>().into(),
            time::ago(version.stored_at, now).into(),
        ]);
    }
    let _ = write!(out, "\n{}", table.render(style));
    out
}

fn review(view: &ArtifactView) -> String {
    match &view.review {
        ArtifactReview::Pending => "pending".to_owned(),
        ArtifactReview::Approved { by, .. } => format!("approved by {by}"),
        ArtifactReview::Rejected { by, reason, .. } => {
            format!("rejected by {by}: {}", text::clean(reason.as_str()))
        }
    }
}

/// The review that was recorded.
pub fn reviewed(view: &ArtifactView, style: Style) -> String {
    format!(
        "{}, version {}: {}\n",
        style.bold(&text::clean(view.summary.path.as_str())),
        view.summary.version,
        review(view)
    )
}

/// The differences in the unified format.
pub fn diff(diff: &ArtifactDiff) -> String {
    if diff.unified.is_empty() {
        return format!("Versions {} and {} are equal\n", diff.from, diff.to);
    }
    let unified = text::clean(&diff.unified);
    format!("{unified}{} lines added, {} removed\n", diff.added_lines, diff.removed_lines)
}

/// The results of a search.
pub fn results(results: &SearchResults, style: Style) -> String {
    if results.items.is_empty() {
        return format!("No results for: {}\n", results.terms.join(", "));
    }
    let mut table = Table::new(&["TYPE", "ID", "WORKSTREAM", "TITLE", ">WORDS"]);
    for hit in &results.items {
        let (kind, id) = match hit {
            SearchHit { artifact_id: Some(id), .. } => ("artifact", short(*id)),
            SearchHit { agent_id: Some(id), .. } => ("objective", agent(*id)),
            SearchHit { .. } => ("", String::new()),
        };
        table.row(vec![
            kind.into(),
            id.into(),
            hit.workstream.to_string().into(),
            text::line(&hit.title, 70).into(),
            hit.matched_terms.to_string().into(),
        ]);
    }
    table.render(style)
}

/// The knowledge snapshot of an agent.
pub fn snapshot(snapshot: &KnowledgeSnapshot, style: Style) -> String {
    let (version, tokens) = (snapshot.snapshot_version, snapshot.estimated_tokens);
    let mut out = format!("{} {version}, about {tokens} tokens\n", style.bold("Snapshot"));
    for it in &snapshot.workstreams {
        let (artifacts, decisions) = (it.artifact_count, it.pending_decision_count);
        let _ =
            writeln!(out, "\n{}: {} ({artifacts} artifacts, {decisions} pending decisions)", it.id, it.name);
        if !it.recent_activity.is_empty() {
            let _ = writeln!(out, "  {}", text::clean(&it.recent_activity));
        }
        for artifact in snapshot.artifact_index.iter().filter(|artifact| artifact.workstream == it.id) {
            let name = text::clean(artifact.name.as_str());
            let _ = writeln!(out, "  {} {name}, version {}", short(artifact.id), artifact.version);
        }
        for other in snapshot.active_agents.iter().filter(|other| other.workstream == it.id) {
            let _ = writeln!(out, "  agent {} {}: {}", agent(other.id), other.role, other.status);
        }
        for decision in snapshot.pending_decisions.iter().filter(|decision| decision.workstream == it.id) {
            let _ = writeln!(out, "  pending: {} ({})", text::line(&decision.title, 100), decision.severity);
        }
    }
    for issue in &snapshot.recent_coherence_issues {
        let _ = writeln!(out, "\nissue: {} ({})", issue.title, issue.severity);
    }
    let it = &snapshot.omitted;
    let omitted = it.artifacts + it.pending_decisions + it.coherence_issues + it.agents + it.workstreams;
    if omitted > 0 {
        let _ = writeln!(out, "\n{omitted} more do not fit; `--tokens` allows more");
    }
    out
}
