//! Layer 1 (S2, "Semantic similarity"): compares the beginnings of texts of different workstreams. A scan runs when a version is
//! reported `layer1ScanIntervalTicks` after the scan before, and when a person requests an audit.

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::{Artifact, ArtifactSummary, VersionRecord};
use pilothouse_domain::coherence::lexical::Features;
use pilothouse_domain::coherence::similarity::{ComparedArtifact, Scan, is_comparable, scan};
use pilothouse_domain::coherence::{CoherenceMonitorConfig, Detected};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{DomainContext, Project, ProjectId, Timestamp, UserId};
use pilothouse_store::{Commit, Loaded, ScanMark};

use super::Detection;

/// The most texts that are read at the same time.
const CONCURRENT_READS: usize = 16;
const PAGE: usize = 200;
/// The most issues that a scan raises. The next audit finds further ones.
const MAX_ISSUES: usize = 50;

/// The result of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) compared: usize,
    /// Artifacts without text that can be compared.
    pub(crate) skipped: usize,
    /// The project has more artifacts than a scan compares.
    pub(crate) is_too_large: bool,
    pub(crate) similar: usize,
    pub(crate) raised: usize,
}

/// Scans the project of a new version, if the scan before is old enough.
pub(crate) async fn scan_after(app: &App, artifact: &Artifact) -> Result<(), Problem> {
    let id = artifact.project_id();
    let mark = app.store.scan_mark(id).await?;
    let tick = artifact.latest().tick;
    // An interval has at least one tick.
    if mark.version > 0 && tick.since(mark.value.tick) == 0 {
        return Ok(());
    }
    let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(()) };
    let interval = project.value.definition().coherence.layer1_scan_interval_ticks;
    let is_due = mark.version == 0 || tick.since(mark.value.tick) >= interval;
    if !is_due {
        return Ok(());
    }
    let now = app.now();
    let since = (mark.version > 0).then_some(mark.value.scanned_at);
    let cause = Cause::Reaction { function: "coherence".to_owned() };
    scan_project(app, &project.value, since, tick, &cause).await?;
    // Stored last, so that the next scan repeats one that failed.
    store_mark(app, id, ScanMark { tick, scanned_at: now }).await
}

/// Of two scans at the same time, the later mark stays.
async fn store_mark(app: &App, project: ProjectId, scanned: ScanMark) -> Result<(), Problem> {
    let load = async || Ok::<_, Problem>(app.store.scan_mark(project).await?);
    let decide = |mut mark: Loaded<ScanMark>, _: &mut DomainContext<'_>| {
        if mark.version > 0 && mark.value.scanned_at >= scanned.scanned_at {
            return Ok::<_, Problem>(Decision::Unchanged(()));
        }
        mark.value = scanned;
        let mut commit = Commit::new();
        commit.scan_mark(project, &mark)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Compares the artifacts that changed after `since` with all others. Without `since`, it compares all.
pub(crate) async fn scan_project(
    app: &App,
    project: &Project,
    since: Option<Timestamp>,
    tick: Tick,
    cause: &Cause,
) -> Result<Scanned, Problem> {
    let CoherenceMonitorConfig { layer1_max_artifacts_per_scan: most, .. } = project.definition().coherence;
    let (owner, id) = (project.owner_id(), project.id());
    let listed = listed(app, (owner, id), most).await?;
    if listed.len() > most {
        tracing::warn!(project = %id, most, "skipped a coherence scan of a project with more artifacts");
        return Ok(Scanned { is_too_large: true, ..Scanned::default() });
    }
    let all = listed.len();
    let comparable: Vec<_> =
        listed.into_iter().filter(|it| is_comparable(it.kind, &it.content.mime_type)).collect();
    let mut artifacts = Vec::new();
    for some in comparable.chunks(CONCURRENT_READS) {
        let read = some.iter().map(|artifact| compared(app, artifact, since));
        artifacts.extend(try_join_all(read).await?.into_iter().flatten());
    }
    let compared = artifacts.len();
    let reviews = app.store.review_ledger(id).await?.value;
    let thresholds = reviews.thresholds(&project.definition().coherence);
    let Scan::Done(detected) = scan(id, &artifacts, thresholds) else {
        return Ok(Scanned { is_too_large: true, ..Scanned::default() });
    };
    let similar = detected.len();
    let mut raised = 0;
    for detected in detected.into_iter().take(MAX_ISSUES) {
        raised += usize::from(raise(app, (owner, id), tick, cause, detected).await?);
    }
    Ok(Scanned { compared, skipped: all - compared, is_too_large: false, similar, raised })
}

/// The artifacts of a project, a page at a time until there are more than `most`.
async fn listed(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    most: usize,
) -> Result<Vec<ArtifactSummary>, Problem> {
    let (mut artifacts, mut after) = (Vec::new(), None);
    while artifacts.len() <= most {
        let listing = app.store.artifacts(owner, project, PAGE, after).await?;
        artifacts.extend(listing.items);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok(artifacts)
}

/// `None` without a text.
async fn compared(
    app: &App,
    artifact: &ArtifactSummary,
    since: Option<Timestamp>,
) -> Result<Option<ComparedArtifact>, Problem> {
    let part = VersionRecord::id(artifact.version);
    let record =
        app.store.archived_part::<Artifact, VersionRecord>(artifact.id, VersionRecord::GROUP, &part).await?;
    let Some(record) = record else { return Ok(None) };
    let features = Features::of(&record.head);
    let compared = ComparedArtifact {
        id: artifact.id,
        workstream: artifact.workstream.clone(),
        path: artifact.path.clone(),
        author: record.version.author.agent(),
        stored_at: record.version.stored_at,
        content_hash: artifact.content.content_hash.clone(),
        is_changed: since.is_none_or(|since| record.version.stored_at >= since),
        features,
    };
    Ok(Some(compared).filter(|it| !it.features.is_empty()))
}

/// Returns whether the issue is new.
async fn raise(
    app: &App,
    place: (&UserId, ProjectId),
    tick: Tick,
    cause: &Cause,
    detected: Detected,
) -> Result<bool, Problem> {
    let load = async || Detection::load(app, place, tick, vec![detected.clone()]).await;
    let decide = |detection: Detection, ctx: &mut DomainContext<'_>| {
        let mut commit = Commit::new();
        let raised = detection.record(app, cause, &mut commit, ctx)?;
        Ok::<_, Problem>(if raised.is_empty() {
            Decision::Unchanged(false)
        } else {
            Decision::Commit(commit, true)
        })
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
