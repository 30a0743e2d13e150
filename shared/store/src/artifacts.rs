//! Artifacts of a project (decision 84): their lists, and the entries that coherence checks read.
//!
//! Each entry belongs to one artifact, so that agents of one project never write the same item. A reaction maintains
//! the number of artifacts.

use pilothouse_domain::artifact::{Artifact, ArtifactPath, ArtifactState, ArtifactSummary};
use pilothouse_domain::coherence::structural::ArtifactTrace;
use pilothouse_domain::knowledge::ArtifactTally;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{ArtifactId, ProjectAgentId, ProjectId, UserId};

use crate::commit::{Commit, Loaded, Purpose, guarded};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, write};
use crate::table::{Condition, Index, Key, Position, Query, SortRange, Write};

/// A list of a project's artifacts, by the value that they have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactList {
    Workstream(WorkstreamId),
    /// Artifacts whose first version the agent wrote.
    Agent(ProjectAgentId),
    Kind(pilothouse_domain::artifact::ArtifactKind),
    State(ArtifactState),
}

impl ArtifactList {
    const fn name(&self) -> &'static str {
        match self {
            Self::Workstream(_) => "workstream",
            Self::Agent(_) => "agent",
            Self::Kind(_) => "kind",
            Self::State(_) => "state",
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Workstream(workstream) => workstream.to_string(),
            Self::Agent(agent) => agent.to_string(),
            Self::Kind(kind) => kind.to_string(),
            Self::State(state) => state.to_string(),
        }
    }

    /// The lists that contain an artifact.
    fn of(artifact: &ArtifactSummary) -> impl Iterator<Item = Self> {
        let agent = artifact.created_by.agent().map(Self::Agent);
        [
            Self::Workstream(artifact.workstream.clone()),
            Self::Kind(artifact.kind),
            Self::State(artifact.state),
        ]
        .into_iter()
        .chain(agent)
    }

    /// The partition of the list in the Listing index.
    pub fn partition(&self, project: ProjectId) -> String {
        layout::artifacts_partition(project, self.name(), &self.value())
    }
}

fn trace_of(artifact: &Artifact) -> ArtifactTrace {
    let latest = artifact.latest();
    ArtifactTrace {
        artifact_id: artifact.id(),
        workstream: artifact.workstream().clone(),
        path: artifact.path().clone(),
        version: latest.version,
        author: latest.author.clone(),
        stored_at: latest.stored_at,
        tick: latest.tick,
    }
}

fn path_key(artifact: &Artifact) -> Option<Key> {
    let path = artifact.latest().source_path.as_ref()?;
    Some(Key::new(layout::artifacts_at_path(artifact.project_id(), path), artifact.id().to_string()))
}

fn hash_key(artifact: &Artifact) -> Key {
    let hash = &artifact.latest().content.content_hash;
    Key::new(layout::artifacts_with_hash(artifact.project_id(), hash), artifact.id().to_string())
}

impl Commit {
    /// Adds the entries of an artifact in lists, and those under its path and content. The aggregate is added separately; its version
    /// guards them. `before` is the artifact as it was loaded.
    pub fn artifact_entries(
        &mut self,
        before: Option<&Artifact>,
        artifact: &Artifact,
    ) -> Result<(), StoreError> {
        let summary = artifact.summary();
        for list in ArtifactList::of(&summary) {
            let key = layout::artifact_in_list(artifact.id(), list.name());
            let mut row = write(key, "artifact-in-list", &summary)?;
            row.listing = Some(layout::listed_artifact(&summary, list.name(), &list.value()));
            self.push(Write::Put(row, Condition::Always), Purpose::Record);
        }
        if before.is_some_and(|before| before.latest() == artifact.latest()) {
            return Ok(());
        }
        let trace = trace_of(artifact);
        let places = [
            ("artifact-path", before.and_then(path_key), path_key(artifact)),
            ("artifact-hash", before.map(hash_key), Some(hash_key(artifact))),
        ];
        for (kind, before, now) in places {
            if let Some(before) = before.filter(|before| Some(before) != now.as_ref()) {
                self.push(Write::Delete(before, Condition::Always), Purpose::Record);
            }
            if let Some(key) = now {
                self.push(Write::Put(write(key, kind, &trace)?, Condition::Always), Purpose::Record);
            }
        }
        Ok(())
    }

    /// Adds the number of a project's artifacts, and a mark that `artifact` is counted. The commit fails if it was counted before.
    pub fn artifact_tally(
        &mut self,
        project: ProjectId,
        tally: &Loaded<ArtifactTally>,
        artifact: ArtifactId,
    ) -> Result<(), StoreError> {
        let row = write(layout::artifact_tally(project), "artifact-tally", &tally.value)?;
        self.push(guarded(row, tally.version), Purpose::Guard);
        let row = write(layout::artifact_counted(artifact), "artifact-counted", &())?;
        self.push(guarded(row, 0), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// The artifacts of a project, those that changed last first.
    pub async fn artifacts(
        &self,
        owner: &UserId,
        project: ProjectId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<ArtifactSummary>, StoreError> {
        let range = SortRange::Prefix(format!("{project}#"));
        let listing = self.list_aggregates_in::<Artifact>(owner, range, true, limit, after).await?;
        Ok(Listing { items: listing.items.iter().map(Artifact::summary).collect(), next: listing.next })
    }

    /// The artifacts of a list, those that changed last first. The caller has checked the owner of the project.
    pub async fn artifacts_in(
        &self,
        project: ProjectId,
        list: &ArtifactList,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<ArtifactSummary>, StoreError> {
        self.list(Query {
            index: Some(Index::Listing),
            partition: list.partition(project),
            range: SortRange::All,
            descending: true,
            limit,
            after,
        })
        .await
    }

    /// The artifacts that are copies of the file at `path`, at most `limit`. Consistent with all earlier commits.
    pub async fn artifacts_at_path(
        &self,
        project: ProjectId,
        path: &ArtifactPath,
        limit: usize,
    ) -> Result<Vec<ArtifactTrace>, StoreError> {
        self.traces(layout::artifacts_at_path(project, path), limit).await
    }

    /// The artifacts whose latest version has this content, at most `limit`. Consistent with all earlier commits.
    pub async fn artifacts_with_hash(
        &self,
        project: ProjectId,
        hash: &ContentHash,
        limit: usize,
    ) -> Result<Vec<ArtifactTrace>, StoreError> {
        self.traces(layout::artifacts_with_hash(project, hash), limit).await
    }

    async fn traces(&self, partition: String, limit: usize) -> Result<Vec<ArtifactTrace>, StoreError> {
        let query = Query::new(partition, SortRange::All, limit);
        Ok(self.list(query).await?.items)
    }

    pub async fn artifact_tally(&self, project: ProjectId) -> Result<Loaded<ArtifactTally>, StoreError> {
        let tally = self.load(&layout::artifact_tally(project)).await?;
        Ok(tally.unwrap_or(Loaded::new(ArtifactTally::default())))
    }

    pub async fn is_artifact_counted(&self, id: ArtifactId) -> Result<bool, StoreError> {
        Ok(self.load::<()>(&layout::artifact_counted(id)).await?.is_some())
    }
}
