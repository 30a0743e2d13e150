//! Layer 1 (S2, "Semantic similarity"): which artifacts of different workstreams have similar texts, and which artifacts do not fit a
//! decision.
//!
//! Similar texts are candidates for duplicates and overlapping work. Similarity cannot find contradictions or gaps: texts that contradict
//! each other are as similar as texts that agree.

use super::alignment::{self, ResolvedDecision};
use super::category::CoherenceCategory;
use super::comparison::{ComparedArtifact, Comparison, ComparisonEngine, Thresholds, percent};
use super::finding::{Detected, Finding, IssueSource, similar_issue_id};
use crate::artifact::{ArtifactKind, MimeType};
use crate::effect::Severity;
use crate::{ProjectId, Timestamp};

/// A scan compares at most so many artifacts. A project may set a lower limit (S2 `layer1MaxArtifactsPerScan`).
pub const MAX_ARTIFACTS: usize = 500;

/// Whether the content of an artifact is text that can be compared. PDF documents and images are not.
pub fn is_comparable(kind: ArtifactKind, mime_type: &MimeType) -> bool {
    let is_text = mime_type.as_str().starts_with("text/");
    match kind {
        ArtifactKind::Code | ArtifactKind::Config | ArtifactKind::Test | ArtifactKind::Other => is_text,
        ArtifactKind::Document | ArtifactKind::Design => is_text || mime_type.as_str() == "application/json",
    }
}

/// What a scan compares, and by which rules.
#[derive(Debug, Clone, Copy)]
pub struct ScannedTexts<'a> {
    pub artifacts: &'a [ComparedArtifact],
    pub decisions: &'a [ResolvedDecision],
    /// The texts of the artifacts, then those of the decisions.
    pub comparison: &'a Comparison,
    pub thresholds: Thresholds,
    /// The begin of the window. A pair of which neither part is newer is not compared again. `None`: all are compared.
    pub since: Option<Timestamp>,
    /// Whether a model reviews issues. Only a model can tell whether an artifact agrees with a decision on its subject.
    pub is_reviewed: bool,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scan {
    Done {
        /// Artifacts with similar texts, the most similar first.
        similar: Vec<Detected>,
        /// Artifacts that may not fit a decision, those of the latest decisions first.
        misaligned: Vec<Detected>,
    },
    /// The project has more artifacts than a scan compares.
    TooMany { artifacts: usize },
}

impl ScannedTexts<'_> {
    /// Compares each changed artifact with all artifacts of other workstreams and with all decisions, and each new decision with all
    /// artifacts. The same content is an issue of layer 0 already.
    pub fn scan(&self, project: ProjectId) -> Scan {
        if self.artifacts.len() > MAX_ARTIFACTS {
            return Scan::TooMany { artifacts: self.artifacts.len() };
        }
        Scan::Done { similar: self.similar(project), misaligned: self.misaligned(project) }
    }

    fn is_new(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since)
    }

    fn similar(&self, project: ProjectId) -> Vec<Detected> {
        let mut similar = Vec::new();
        for (at, one) in self.artifacts.iter().enumerate() {
            for (beside, other) in self.artifacts.iter().enumerate().skip(at + 1) {
                let is_compared =
                    one.workstream != other.workstream && one.content_hash != other.content_hash;
                if is_compared
                    && (self.is_new(one.stored_at) || self.is_new(other.stored_at))
                    && let Some(similarity) = self.comparison.similarity(at, beside)
                    && similarity >= self.thresholds.advisory
                {
                    similar.push((similarity, one, other));
                }
            }
        }
        similar.sort_by(|one, other| {
            other.0.total_cmp(&one.0).then((one.1.id, one.2.id).cmp(&(other.1.id, other.2.id)))
        });
        let engine = self.comparison.engine();
        similar
            .into_iter()
            .map(|(similarity, a, b)| detected(project, (a, b), engine, similarity, self.thresholds))
            .collect()
    }

    fn misaligned(&self, project: ProjectId) -> Vec<Detected> {
        let mut found = Vec::new();
        for (at, decision) in self.decisions.iter().enumerate() {
            for (beside, artifact) in self.artifacts.iter().enumerate() {
                if (self.is_new(decision.resolved_at) || self.is_new(artifact.stored_at))
                    && let Some(similarity) = self.comparison.similarity(self.artifacts.len() + at, beside)
                    && let Some(check) =
                        alignment::check(decision, artifact, similarity, self.thresholds, self.is_reviewed)
                {
                    let engine = self.comparison.engine();
                    found.push(alignment::detected(project, (decision, artifact), check, engine, similarity));
                }
            }
        }
        found
    }
}

fn detected(
    project: ProjectId,
    (one, other): (&ComparedArtifact, &ComparedArtifact),
    engine: ComparisonEngine,
    similarity: f64,
    thresholds: Thresholds,
) -> Detected {
    let percent = percent(similarity);
    let is_promoted = similarity >= thresholds.promotion;
    let severity = if is_promoted { Severity::Medium } else { Severity::Low };
    let what = if is_promoted { "probably the same content" } else { "similar content" };
    let measured = match engine {
        ComparisonEngine::Lexical => format!("share {percent} % of their weighed words"),
        ComparisonEngine::Embeddings => format!("are {percent} % similar for the embedding model"),
    };
    let finding = Finding {
        source: IssueSource::Similarity { engine, percent },
        category: CoherenceCategory::Duplication,
        severity,
        title: format!("{} and {} have {what}", one.path, other.path),
        description: format!(
            "The texts of {} ({}) and {} ({}) {measured}. They may duplicate or overlap each other. Nobody has confirmed it.",
            one.path, one.workstream, other.path, other.workstream
        ),
        affected_workstreams: vec![one.workstream.clone(), other.workstream.clone()],
        affected_artifact_ids: vec![one.id, other.id],
        affected_agent_ids: one.author.into_iter().chain(other.author).collect(),
        evidence_at: one.stored_at.max(other.stored_at),
    };
    Detected { id: similar_issue_id(project, one.id, other.id), finding }
}
