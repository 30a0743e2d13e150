//! The `Artifact` aggregate (S2, "Knowledge Store"; decision 84): a result of an agent's work, with versions and their review.
//!
//! | module | contents |
//! |---|---|
//! | `content` | hash, size and type of a content |
//! | `path` | paths relative to the project |
//! | `version` | a version and its author |
//! | `report` | a version in the events of its agent |
//! | `review` | the review of the latest version |
//! | `summary` | an artifact in lists |
//! | `unreported` | files of a workspace that are not artifacts |

mod content;
mod error;
mod event;
mod path;
mod report;
mod review;
mod summary;
mod unreported;
mod version;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use content::{ArtifactContent, ContentSize, ContentTooLarge, InvalidMimeType, MimeType};
pub use error::ArtifactError;
pub use event::ArtifactEvent;
pub use path::{ArtifactPath, InvalidArtifactPath};
pub use report::{ArtifactReport, ArtifactStatus, Provenance};
pub use review::{ArtifactReview, ArtifactState};
pub use summary::ArtifactSummary;
pub use unreported::{ReportState, UnreportedFile, UnreportedFiles, UnreportedReason, WorkspaceFile};
pub use version::{ArtifactAuthor, ArtifactVersion, VersionRecord};

use crate::aggregate::ArchivedPart;
use crate::names::named;
use crate::text::{ArtifactName, Feedback, Tags, WorkstreamId};
use crate::tick::Tick;
use crate::{Aggregate, ArtifactId, DomainContext, ProjectId, Timestamp, UserId};

/// S2 `ArtifactKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    Code,
    Document,
    Design,
    Config,
    Test,
    Other,
}

named!(ArtifactKind {
    Code => "code",
    Document => "document",
    Design => "design",
    Config => "config",
    Test => "test",
    Other => "other",
});

impl ArtifactKind {
    pub const ALL: [Self; 6] =
        [Self::Code, Self::Document, Self::Design, Self::Config, Self::Test, Self::Other];
}

/// A method that returns an [`ArtifactError`] has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    id: ArtifactId,
    owner_id: UserId,
    project_id: ProjectId,
    workstream: WorkstreamId,
    path: ArtifactPath,
    name: ArtifactName,
    kind: ArtifactKind,
    #[serde(default)]
    tags: Tags,
    latest: ArtifactVersion,
    review: ArtifactReview,
    created_by: ArtifactAuthor,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The beginning of the text of a version that this change stores.
    #[serde(skip)]
    stored_head: Option<String>,
}

/// The owner, project, workstream and path of an artifact, which do not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactPlace {
    pub owner_id: UserId,
    pub project_id: ProjectId,
    pub workstream: WorkstreamId,
    pub path: ArtifactPath,
}

/// A version to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVersion {
    pub name: ArtifactName,
    pub kind: ArtifactKind,
    pub tags: Tags,
    pub content: ArtifactContent,
    /// At most [`VersionRecord::HEAD_CHARS`] characters from the beginning of a text.
    pub head: String,
    pub author: ArtifactAuthor,
    pub source_path: Option<ArtifactPath>,
    pub source_artifact_ids: Vec<ArtifactId>,
    /// The version that the author has read; 0 for a new artifact. An author may omit it while nobody else has written a version.
    pub expected_version: Option<u32>,
    pub tick: Tick,
}

/// The id of the artifact that an author reports under a path. Each agent has its own; people of a project share theirs.
pub fn artifact_id(project: ProjectId, author: &ArtifactAuthor, path: &ArtifactPath) -> ArtifactId {
    let name = format!("{}\n{path}", author.address());
    ArtifactId::new(Uuid::new_v5(&project.uuid(), name.as_bytes()))
}

impl Artifact {
    /// Most artifacts of a project.
    pub const MAX_PER_PROJECT: u64 = 10_000;
    /// Most artifacts that a version names as its sources.
    pub const MAX_SOURCES: usize = 50;

    /// Creates an artifact with its first version.
    pub fn create(
        id: ArtifactId,
        place: ArtifactPlace,
        new: NewVersion,
        ctx: &DomainContext<'_>,
    ) -> Result<(Self, Vec<ArtifactEvent>), ArtifactError> {
        if new.expected_version.is_some_and(|expected| expected != 0) {
            return Err(ArtifactError::VersionConflict { current: 0 });
        }
        let ArtifactPlace { owner_id, project_id, workstream, path } = place;
        let created_by = new.author.clone();
        let (name, kind, tags, head) = (new.name.clone(), new.kind, new.tags.clone(), new.head.clone());
        let artifact = Self {
            id,
            owner_id,
            project_id,
            workstream,
            path,
            name,
            kind,
            tags,
            latest: Self::version_of(1, new, ctx),
            review: ArtifactReview::Pending,
            created_by,
            created_at: ctx.now,
            updated_at: ctx.now,
            stored_head: Some(head),
        };
        let reported = artifact.reported();
        Ok((artifact, vec![reported]))
    }

    /// Stores the next version, whose review is pending. A repetition of the latest version by its author changes nothing, also with
    /// the `expected_version` of the first attempt.
    pub fn revise(
        &mut self,
        workstream: &WorkstreamId,
        new: NewVersion,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ArtifactEvent>, ArtifactError> {
        if *workstream != self.workstream {
            return Err(ArtifactError::OtherWorkstream { workstream: self.workstream.clone() });
        }
        let current = self.latest.version;
        let is_by_same = self.latest.author.is_same(&new.author);
        let may_repeat =
            new.expected_version.is_none_or(|expected| (current - 1..=current).contains(&expected));
        if is_by_same && may_repeat && self.is_same(&new) {
            return Ok(Vec::new());
        }
        if new.expected_version.map_or(!is_by_same, |expected| expected != current) {
            return Err(ArtifactError::VersionConflict { current });
        }
        self.name = new.name.clone();
        self.kind = new.kind;
        self.tags = new.tags.clone();
        self.stored_head = Some(new.head.clone());
        self.latest = Self::version_of(current.saturating_add(1), new, ctx);
        self.review = ArtifactReview::Pending;
        self.updated_at = ctx.now;
        Ok(vec![self.reported()])
    }

    /// A person approves the latest version. `seen` is the version that the person has looked at.
    pub fn approve(
        &mut self,
        by: &UserId,
        seen: Option<u32>,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ArtifactEvent>, ArtifactError> {
        if !self.may_be_reviewed(ArtifactState::Approved, seen)? {
            return Ok(Vec::new());
        }
        self.review = ArtifactReview::Approved { by: by.clone(), at: ctx.now };
        self.updated_at = ctx.now;
        let (project_id, version, author) =
            (self.project_id, self.latest.version, self.latest.author.clone());
        Ok(vec![ArtifactEvent::Approved { project_id, version, author }])
    }

    /// A person rejects the latest version. `seen` is the version that the person has looked at.
    pub fn reject(
        &mut self,
        by: &UserId,
        (seen, reason): (Option<u32>, Feedback),
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ArtifactEvent>, ArtifactError> {
        if !self.may_be_reviewed(ArtifactState::Rejected, seen)? {
            return Ok(Vec::new());
        }
        self.review = ArtifactReview::Rejected { by: by.clone(), at: ctx.now, reason: reason.clone() };
        self.updated_at = ctx.now;
        let (project_id, version, author) =
            (self.project_id, self.latest.version, self.latest.author.clone());
        Ok(vec![ArtifactEvent::Rejected { project_id, version, author, reason }])
    }

    /// Whether a review changes the artifact. The review of a version is final, because it counts for the trust of its author.
    fn may_be_reviewed(&self, wanted: ArtifactState, seen: Option<u32>) -> Result<bool, ArtifactError> {
        let version = self.latest.version;
        if seen.is_some_and(|seen| seen != version) {
            return Err(ArtifactError::VersionConflict { current: version });
        }
        match self.review.state() {
            ArtifactState::Pending => Ok(true),
            state if state == wanted => Ok(false),
            state => Err(ArtifactError::Reviewed { version, state }),
        }
    }

    fn is_same(&self, new: &NewVersion) -> bool {
        self.latest.content == new.content
            && self.name == new.name
            && self.kind == new.kind
            && self.tags == new.tags
            && self.latest.source_path == new.source_path
            && self.latest.source_artifact_ids == new.source_artifact_ids
    }

    fn version_of(version: u32, new: NewVersion, ctx: &DomainContext<'_>) -> ArtifactVersion {
        ArtifactVersion {
            version,
            content: new.content,
            author: new.author,
            source_path: new.source_path,
            source_artifact_ids: new.source_artifact_ids,
            stored_at: ctx.now,
            tick: new.tick,
        }
    }

    fn reported(&self) -> ArtifactEvent {
        ArtifactEvent::Reported {
            project_id: self.project_id,
            workstream: self.workstream.clone(),
            version: self.latest.version,
            content_hash: self.latest.content.content_hash.clone(),
            author: self.latest.author.clone(),
        }
    }
}

/// Read access.
impl Artifact {
    pub const fn id(&self) -> ArtifactId {
        self.id
    }

    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    pub const fn workstream(&self) -> &WorkstreamId {
        &self.workstream
    }

    pub const fn path(&self) -> &ArtifactPath {
        &self.path
    }

    pub const fn name(&self) -> &ArtifactName {
        &self.name
    }

    pub const fn kind(&self) -> ArtifactKind {
        self.kind
    }

    pub const fn tags(&self) -> &Tags {
        &self.tags
    }

    pub const fn latest(&self) -> &ArtifactVersion {
        &self.latest
    }

    pub const fn review(&self) -> &ArtifactReview {
        &self.review
    }

    pub const fn created_by(&self) -> &ArtifactAuthor {
        &self.created_by
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// The address under which events and other artifacts refer to it (S2 `backendUri`).
    pub fn uri(&self) -> String {
        format!("artifact://{}/{}/{}", self.project_id, self.created_by.address(), self.path)
    }
}

impl Aggregate for Artifact {
    type Id = ArtifactId;
    type Event = ArtifactEvent;

    const KIND: &'static str = "artifact";

    fn id(&self) -> ArtifactId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// By project, then by the last change.
    fn listing_sort(&self) -> String {
        format!("{}#{:016}#{}", self.project_id, self.updated_at.as_millis().max(0), self.id)
    }

    fn archived_parts(&self) -> Vec<ArchivedPart> {
        let Some(head) = &self.stored_head else { return Vec::new() };
        let record = VersionRecord { version: self.latest.clone(), head: head.clone() };
        vec![ArchivedPart {
            group: VersionRecord::GROUP,
            id: VersionRecord::id(self.latest.version),
            value: serde_json::to_value(record).unwrap_or_default(),
        }]
    }
}
