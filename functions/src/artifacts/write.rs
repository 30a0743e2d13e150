//! Stores a version of an artifact: the content first, then everything else in one transaction, also the coherence issues that it
//! raises.

use pilothouse_api::artifacts::ArtifactUploadResult;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::{
    Artifact, ArtifactAuthor, ArtifactContent, ArtifactError, ArtifactPlace, ContentSize, MimeType,
    NewVersion, artifact_id,
};
use pilothouse_domain::coherence::structural::{CheckedVersion, check};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::text::{ArtifactName, WorkstreamId, cut};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::value::KnowledgeScope;
use pilothouse_domain::{ArtifactId, DomainContext, Events, Project, ProjectId, UserId};
use pilothouse_store::{Commit, LoadedAggregate};

use super::input::{Content, Target, Upload};
use crate::artifact_content;
use crate::coherence::Detection;
use crate::coherence::structural::evidence;

/// The author of a version, and its project.
pub(crate) struct Writer<'a> {
    pub(crate) owner: &'a UserId,
    pub(crate) project: ProjectId,
    pub(crate) author: ArtifactAuthor,
    /// The scope of an agent. People write everywhere.
    pub(crate) scope: Option<KnowledgeScope>,
}

/// The state on which a write depends.
pub(crate) struct WriteState {
    author: ArtifactAuthor,
    id: ArtifactId,
    before: Option<LoadedAggregate<Artifact>>,
    workstream: WorkstreamId,
    content: ArtifactContent,
    head: String,
    tick: Tick,
    detection: Detection,
}

impl Writer<'_> {
    /// Loads the artifact and checks the scope, then stores the content and checks the coherence with other artifacts.
    ///
    /// # Errors
    /// [`ArtifactError::NotWritable`] for a workstream that is not the agent's own.
    pub(crate) async fn load(&self, app: &App, upload: &Upload) -> Result<WriteState, Problem> {
        let (id, before) = self.target(app, &upload.target).await?;
        let time = app.project_time(self.project).await?.ok_or_else(Problem::no_project)?;
        let before_workstream = before.as_ref().map(|it| it.value.workstream());
        let workstream =
            self.workstream(upload.input.workstream.as_ref(), before_workstream, &time.project.value)?;
        if before.is_none() {
            app.store.artifact_tally(self.project).await?.value.ensure_room()?;
        }
        let (content, head) = self.content(app, upload).await?;
        let tick = time.tick(app.now())?;
        let before_artifact = before.as_ref().map(|before| &before.value);
        let detection =
            self.detect(app, upload, (id, before_artifact), (&workstream, &content), tick).await?;
        Ok(WriteState { author: self.author.clone(), id, before, workstream, content, head, tick, detection })
    }

    /// Layer 0 of the coherence checks (S2, "Structural checks").
    async fn detect(
        &self,
        app: &App,
        upload: &Upload,
        (id, before): (ArtifactId, Option<&Artifact>),
        (workstream, content): (&WorkstreamId, &ArtifactContent),
        tick: Tick,
    ) -> Result<Detection, Problem> {
        let place = (self.owner, self.project);
        let path = match (&upload.target, before) {
            (Target::Path(path), _) => path,
            (Target::Artifact(_), Some(before)) => before.path(),
            (Target::Artifact(_), None) => return Err(Problem::no_artifact()),
        };
        let (source_path, sources) = (upload.input.source_path.as_ref(), &upload.input.source_artifact_ids);
        let evidence = evidence(app, place, source_path, &content.content_hash, sources).await?;
        let version = CheckedVersion {
            project: self.project,
            artifact_id: id,
            workstream,
            path,
            source_path,
            author: &self.author,
            is_empty: content.size_bytes.bytes() == 0,
            stored_at: app.now(),
            tick,
            previous: before.map(|before| (&before.latest().author, before.latest().tick)),
        };
        Detection::load(app, place, tick, check(&version, &evidence, self.scope.as_ref())).await
    }

    async fn target(
        &self,
        app: &App,
        target: &Target,
    ) -> Result<(ArtifactId, Option<LoadedAggregate<Artifact>>), Problem> {
        let id = match target {
            Target::Artifact(id) => *id,
            Target::Path(path) => artifact_id(self.project, &self.author, path),
        };
        let before = app.store.aggregate::<Artifact>(self.owner, id).await?;
        let before = before.filter(|artifact| artifact.value.project_id() == self.project);
        if before.is_none() && matches!(target, Target::Artifact(_)) {
            return Err(Problem::no_artifact());
        }
        Ok((id, before))
    }

    fn workstream(
        &self,
        named: Option<&WorkstreamId>,
        before: Option<&WorkstreamId>,
        project: &Project,
    ) -> Result<WorkstreamId, Problem> {
        let own = self.scope.as_ref().map(KnowledgeScope::own);
        let workstream = named.or(before).or(own);
        let workstream = workstream.ok_or_else(|| Problem::invalid("workstream", "is missing"))?;
        let outside =
            |concerned: &WorkstreamId| self.scope.as_ref().is_some_and(|scope| !scope.may_write(concerned));
        if let Some(refused) = [Some(workstream), before].into_iter().flatten().find(|it| outside(it)) {
            return Err(ArtifactError::NotWritable { workstream: refused.clone() }.into());
        }
        if !project.has_workstream(workstream) {
            return Err(Problem::invalid("workstream", "the project has no such workstream"));
        }
        Ok(workstream.clone())
    }

    async fn content(&self, app: &App, upload: &Upload) -> Result<(ArtifactContent, String), Problem> {
        let key = artifact_content::blob_key(self.project, &self.author, upload.content.hash())?;
        let given = upload.input.mime_type.clone();
        let content = |size_bytes, is_text| ArtifactContent {
            content_hash: upload.content.hash().clone(),
            size_bytes,
            mime_type: given.unwrap_or_else(|| MimeType::default_of(is_text)),
        };
        match &upload.content {
            Content::Inline { bytes, is_text, .. } => {
                upload
                    .is_stored
                    .get_or_try_init(|| artifact_content::store(app, &key, bytes.clone()))
                    .await?;
                let size = ContentSize::new(bytes.len() as u64);
                let size = size.map_err(|wrong| Problem::invalid("sizeBytes", wrong))?;
                Ok((content(size, *is_text), artifact_content::head(bytes)))
            }
            Content::Uploaded { size, .. } => match app.blobs.size(&key).await.map_err(Problem::internal)? {
                Some(stored) if stored == size.bytes() => Ok((content(*size, false), String::new())),
                Some(stored) => {
                    Err(Problem::invalid("sizeBytes", format!("is not the size of the content, {stored}")))
                }
                None => Err(Problem::invalid(
                    "contentHash",
                    "names a content that you have not uploaded; request an address for it first",
                )),
            },
        }
    }
}

/// The stored version, and whether this write stored it.
pub(crate) struct Written {
    pub(crate) result: ArtifactUploadResult,
    pub(crate) is_new: bool,
    /// The coherence issues that it raises, for the journal of the session that wrote it.
    pub(crate) raised: Events,
    pub(crate) artifact: Artifact,
}

impl WriteState {
    /// Adds the version to `commit`. A repetition adds nothing.
    pub(crate) fn decide(
        self,
        app: &App,
        (owner, project): (&UserId, ProjectId),
        upload: &Upload,
        cause: Cause,
        (commit, ctx): (&mut Commit, &DomainContext<'_>),
    ) -> Result<Written, Problem> {
        let Self { author, id, before, workstream, content, head, tick, detection } = self;
        let input = &upload.input;
        let path = match (&upload.target, &before) {
            (_, Some(before)) => before.value.path().clone(),
            (Target::Path(path), None) => path.clone(),
            (Target::Artifact(_), None) => return Err(Problem::no_artifact()),
        };
        let known_name = before.as_ref().map(|before| before.value.name().clone());
        let name = match input.name.clone().or(known_name) {
            Some(name) => name,
            None => {
                ArtifactName::parse(cut(path.file_name(), ArtifactName::MAX)).map_err(Problem::internal)?
            }
        };
        let new = NewVersion {
            name,
            kind: input.kind,
            tags: input.tags.clone().unwrap_or_default(),
            content,
            head,
            author,
            source_path: input.source_path.clone(),
            source_artifact_ids: input.source_artifact_ids.clone(),
            expected_version: input.expected_version,
            tick,
        };
        let earlier = before.as_ref().map(|before| before.value.clone());
        let (loaded, events) = if let Some(mut loaded) = before {
            let events = loaded.value.revise(&workstream, new, ctx)?;
            (loaded, events)
        } else {
            let place = ArtifactPlace { owner_id: owner.clone(), project_id: project, workstream, path };
            let (artifact, events) = Artifact::create(id, place, new, ctx)?;
            (LoadedAggregate::new(artifact), events)
        };
        let result = ArtifactUploadResult::of(&loaded.value);
        let is_new = !events.is_empty();
        let mut raised = Events::new();
        if is_new {
            raised = detection.record(app, &cause, commit, ctx)?;
            app.record_aggregate(commit, &loaded, cause, events)?;
            commit.artifact_entries(earlier.as_ref(), &loaded.value)?;
        }
        Ok(Written { result, is_new, raised, artifact: loaded.value })
    }
}
