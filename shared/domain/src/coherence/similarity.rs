//! Layer 1 (S2, "Semantic similarity"): which artifacts of different workstreams have similar texts.
//!
//! Similar texts are candidates for duplicates and overlapping work. Similarity cannot find contradictions or gaps: texts that contradict
//! each other are as similar as texts that agree.

use super::finding::{Detected, Finding, IssueSource, similar_issue_id};
use super::lexical::{Corpus, Features};
use crate::artifact::{ArtifactKind, ArtifactPath, ContentHash, MimeType};
use crate::effect::Severity;
use crate::knowledge::CoherenceCategory;
use crate::text::WorkstreamId;
use crate::{ArtifactId, ProjectAgentId, ProjectId, Timestamp};

/// A scan compares at most so many artifacts. A project may set a lower limit (S2 `layer1MaxArtifactsPerScan`).
pub const MAX_ARTIFACTS: usize = 500;

/// From which similarity an issue is raised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// An issue of medium severity.
    pub promotion: f64,
    /// An issue of low severity.
    pub advisory: f64,
}

/// Whether the content of an artifact is text that can be compared. PDF documents and images are not.
pub fn is_comparable(kind: ArtifactKind, mime_type: &MimeType) -> bool {
    let is_text = mime_type.as_str().starts_with("text/");
    match kind {
        ArtifactKind::Code | ArtifactKind::Config | ArtifactKind::Test | ArtifactKind::Other => is_text,
        ArtifactKind::Document | ArtifactKind::Design => is_text || mime_type.as_str() == "application/json",
    }
}

/// An artifact that is compared.
#[derive(Debug, Clone)]
pub struct ComparedArtifact {
    pub id: ArtifactId,
    pub workstream: WorkstreamId,
    pub path: ArtifactPath,
    pub author: Option<ProjectAgentId>,
    pub stored_at: Timestamp,
    pub content_hash: ContentHash,
    /// Whether its latest version is newer than the scan before.
    pub is_changed: bool,
    pub features: Features,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scan {
    /// The issues, the most similar first.
    Done(Vec<Detected>),
    /// The project has more artifacts than a scan compares.
    TooMany { artifacts: usize },
}

/// Compares each changed artifact with all artifacts of other workstreams. The same content is an issue of layer 0 already.
pub fn scan(project: ProjectId, artifacts: &[ComparedArtifact], thresholds: Thresholds) -> Scan {
    if artifacts.len() > MAX_ARTIFACTS {
        return Scan::TooMany { artifacts: artifacts.len() };
    }
    let corpus: Corpus = artifacts.iter().map(|artifact| &artifact.features).collect();
    let vectors: Vec<_> = artifacts.iter().map(|artifact| corpus.weigh(&artifact.features)).collect();
    let mut similar = Vec::new();
    for (at, (one, of_one)) in artifacts.iter().zip(&vectors).enumerate() {
        for (other, of_other) in artifacts.iter().zip(&vectors).skip(at + 1) {
            let is_compared = one.workstream != other.workstream && one.content_hash != other.content_hash;
            if is_compared && (one.is_changed || other.is_changed) {
                let similarity = of_one.similarity(of_other);
                if similarity >= thresholds.advisory {
                    similar.push((similarity, one, other));
                }
            }
        }
    }
    similar.sort_by(|one, other| {
        other.0.total_cmp(&one.0).then((one.1.id, one.2.id).cmp(&(other.1.id, other.2.id)))
    });
    Scan::Done(
        similar
            .into_iter()
            .map(|(similarity, a, b)| detected(project, (a, b), similarity, thresholds))
            .collect(),
    )
}

fn detected(
    project: ProjectId,
    (one, other): (&ComparedArtifact, &ComparedArtifact),
    similarity: f64,
    thresholds: Thresholds,
) -> Detected {
    let percent = percent(similarity);
    let is_promoted = similarity >= thresholds.promotion;
    let severity = if is_promoted { Severity::Medium } else { Severity::Low };
    let what = if is_promoted { "probably the same content" } else { "similar content" };
    let finding = Finding {
        source: IssueSource::Similarity { percent },
        category: CoherenceCategory::Duplication,
        severity,
        title: format!("{} and {} have {what}", one.path, other.path),
        description: format!(
            "The texts of {} ({}) and {} ({}) share {percent} % of their weighed words. They may duplicate or overlap each other. Nobody has confirmed it.",
            one.path, one.workstream, other.path, other.workstream
        ),
        affected_workstreams: vec![one.workstream.clone(), other.workstream.clone()],
        affected_artifact_ids: vec![one.id, other.id],
        affected_agent_ids: one.author.into_iter().chain(other.author).collect(),
        evidence_at: one.stored_at.max(other.stored_at),
    };
    Detected { id: similar_issue_id(project, one.id, other.id), finding }
}

/// Rounded down.
fn percent(similarity: f64) -> u8 {
    (1..=100).rev().find(|percent| f64::from(*percent) <= similarity * 100.0).unwrap_or(0)
}
