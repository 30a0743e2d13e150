//! Layer 1 (S2, "Semantic similarity"): compares the beginnings of texts of different workstreams, and the latest choices of a project
//! with its artifacts. A scan runs when a version is reported or a choice is made `layer1ScanIntervalTicks` after the scan before, and
//! when a person requests an audit.
//!
//! | server | who scans |
//! |---|---|
//! | without an embedding model | the reaction, by the lexical engine |
//! | with one | the function `coherence-review`, because a model takes seconds. If the model fails, the lexical engine compares the texts, and the function tries again later |
//!
//! If the model refuses single texts, the lexical engine compares these texts with all others.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_app::{App, queues};
use pilothouse_broker::OutgoingMessage;
use pilothouse_domain::artifact::{Artifact, ArtifactSummary, VersionRecord};
use pilothouse_domain::coherence::alignment::MAX_DECISIONS;
use pilothouse_domain::coherence::comparison::{ComparedArtifact, Comparison};
use pilothouse_domain::coherence::lexical::has_words;
use pilothouse_domain::coherence::similarity::{Scan, ScannedTexts, is_comparable};
use pilothouse_domain::coherence::{
    CoherenceIssue, ComparisonEngine, Detected, EmbeddingFailure, ResolvedDecision,
};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{DomainContext, Project, ProjectId, Timestamp, UserId};
use pilothouse_store::{Commit, Loaded, ScanMark};
use serde::{Deserialize, Serialize};

use super::{CONCURRENT_READS, Detection, embeddings};

const PAGE: usize = 200;
/// The most issues of each kind that a scan raises. The next audit raises further ones.
const MAX_ISSUES: usize = 50;
/// The most findings of each kind that a scan looks up, because most may be issues already.
const MAX_LOOKUPS: usize = 200;
/// A window begins this long before the previous scan: a version may be older than its commit, and lists in AWS may lack it for a moment.
const OVERLAP_MILLIS: i64 = 60_000;
/// How long a scan of the queue waits for embeddings.
const EMBEDDING_TIME: Duration = Duration::from_secs(80);

/// A reference to a project whose texts are compared by embeddings.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanPointer {
    project_id: ProjectId,
}

/// What a scan compares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanRequest<'a> {
    /// The begin of its window. `None`: all texts are compared.
    pub(crate) since: Option<Timestamp>,
    /// The same for embeddings.
    pub(crate) since_embedded: Option<Timestamp>,
    /// How long it may wait for embeddings. `None`: the lexical engine compares the texts.
    pub(crate) embedding_time: Option<Duration>,
    pub(crate) tick: Tick,
    pub(crate) cause: &'a Cause,
}

/// The result of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The engine that compared the texts.
    pub(crate) engine: ComparisonEngine,
    /// Why it is not the embedding model that the server is configured with.
    pub(crate) fallback: Option<EmbeddingFailure>,
    pub(crate) compared: usize,
    pub(crate) compared_decisions: usize,
    /// Artifacts without text that can be compared.
    pub(crate) skipped: usize,
    /// The project has more artifacts than a scan compares.
    pub(crate) is_too_large: bool,
    pub(crate) similar: usize,
    /// Pairs of a decision and an artifact.
    pub(crate) misaligned: usize,
    pub(crate) raised: usize,
}

/// Whether the texts of a project are compared by embeddings.
pub(crate) fn uses_embeddings(app: &App, project: &Project) -> bool {
    app.integrations.has_embeddings && project.definition().coherence.embeddings.enabled
}

fn cause() -> Cause {
    Cause::Reaction { function: "coherence".to_owned() }
}

/// The begin of the window of a scan after one at `scanned_at`.
fn window_after(scanned_at: Timestamp) -> Timestamp {
    Timestamp::from_millis(scanned_at.as_millis().saturating_sub(OVERLAP_MILLIS))
}

/// Scans a project after a change at `tick`, if the scan before is old enough.
pub(crate) async fn scan_after(app: &App, id: ProjectId, tick: Tick) -> Result<(), Problem> {
    let mark = app.store.scan_mark(id).await?;
    // An interval has at least one tick.
    if mark.version > 0 && tick.since(mark.value.tick) == 0 {
        return Ok(());
    }
    let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(()) };
    let project = project.value;
    let interval = project.definition().coherence.layer1_scan_interval_ticks;
    let is_due = mark.version == 0 || tick.since(mark.value.tick) >= interval;
    if !is_due {
        return Ok(());
    }
    if uses_embeddings(app, &project) {
        request_scan(app, id, &mark.value).await?;
        if mark.value.failed_embeddings == 0 {
            return Ok(());
        }
        // The model may be unavailable for hours.
    }
    let now = app.now();
    let request = ScanRequest {
        since: (mark.version > 0).then(|| window_after(mark.value.scanned_at)),
        since_embedded: None,
        embedding_time: None,
        tick,
        cause: &cause(),
    };
    let scanned = scan_project(app, &project, &request).await?;
    // Stored last, so that the next scan repeats one that failed.
    store_mark(app, id, (tick, now), &scanned).await?;
    Ok(())
}

/// Requests a scan by embeddings. While the model fails, the queue recognizes repeated requests.
async fn request_scan(app: &App, project_id: ProjectId, mark: &ScanMark) -> Result<(), Problem> {
    let body = serde_json::to_string(&ScanPointer { project_id }).map_err(Problem::internal)?;
    let since = mark.embedded_at.map_or(0, Timestamp::as_millis);
    let group = format!("scan-{project_id}");
    let message = OutgoingMessage::new(group.clone(), format!("{group}-{since}"), body);
    let outcome = app.broker.send(&queues::reviews(), vec![message]).await.map_err(Problem::internal)?;
    match outcome.failed.into_iter().next() {
        Some((_, error)) => Err(Problem::internal(error)),
        None => Ok(()),
    }
}

/// Compares the texts of a project by embeddings. Returns when to try again, if the model could not be reached.
pub(crate) async fn scan_requested(app: &App, pointer: ScanPointer) -> Result<Option<Duration>, Problem> {
    let id = pointer.project_id;
    let Some(time) = app.project_time(id).await? else { return Ok(None) };
    let project = &time.project.value;
    if project.ensure_open().is_err() || !uses_embeddings(app, project) {
        return Ok(None);
    }
    let mark = app.store.scan_mark(id).await?;
    let now = app.now();
    let tick = time.tick(now)?;
    let request = ScanRequest {
        since: (mark.version > 0).then(|| window_after(mark.value.scanned_at)),
        since_embedded: mark.value.embedded_at.map(window_after),
        embedding_time: Some(EMBEDDING_TIME),
        tick,
        cause: &cause(),
    };
    let scanned = scan_project(app, project, &request).await?;
    let failures = store_mark(app, id, (tick, now), &scanned).await?;
    let is_retried = scanned.fallback == Some(EmbeddingFailure::Unavailable)
        && failures < CoherenceIssue::MAX_REVIEW_ATTEMPTS;
    Ok(is_retried.then(|| app.deadlines.review_retry_unit * 2u32.pow(failures)))
}

/// The mark after a scan that began at `now`. Of two scans at the same time, the later time stays.
fn advanced(mark: &Loaded<ScanMark>, (tick, now): (Tick, Timestamp), scanned: &Scanned) -> ScanMark {
    let mut after = mark.value;
    if mark.version == 0 || now > after.scanned_at {
        (after.tick, after.scanned_at) = (tick, now);
    }
    match (scanned.engine, scanned.fallback) {
        (ComparisonEngine::Embeddings, _) => {
            after.embedded_at = after.embedded_at.max(Some(now));
            after.failed_embeddings = 0;
        }
        (ComparisonEngine::Lexical, Some(_)) => {
            after.failed_embeddings = after.failed_embeddings.saturating_add(1);
        }
        (ComparisonEngine::Lexical, None) => {}
    }
    after
}

/// Returns how often in a row there were no embeddings.
async fn store_mark(
    app: &App,
    project: ProjectId,
    at: (Tick, Timestamp),
    scanned: &Scanned,
) -> Result<u32, Problem> {
    let load = async || Ok::<_, Problem>(app.store.scan_mark(project).await?);
    let decide = |mut mark: Loaded<ScanMark>, _: &mut DomainContext<'_>| {
        let after = advanced(&mark, at, scanned);
        if mark.version > 0 && after == mark.value {
            return Ok::<_, Problem>(Decision::Unchanged(after.failed_embeddings));
        }
        mark.value = after;
        let mut commit = Commit::new();
        commit.scan_mark(project, &mark)?;
        Ok(Decision::Commit(commit, after.failed_embeddings))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Compares what changed in the window of the request with everything else.
pub(crate) async fn scan_project(
    app: &App,
    project: &Project,
    request: &ScanRequest<'_>,
) -> Result<Scanned, Problem> {
    let config = &project.definition().coherence;
    let most = config.layer1_max_artifacts_per_scan;
    let (owner, id) = (project.owner_id(), project.id());
    let listed = listed(app, (owner, id), most).await?;
    if listed.len() > most {
        tracing::warn!(project = %id, most, "skipped a coherence scan of a project with more artifacts");
        return Ok(Scanned { is_too_large: true, ..Scanned::default() });
    }
    let all = listed.len();
    let comparable: Vec<_> =
        listed.into_iter().filter(|it| is_comparable(it.kind, &it.content.mime_type)).collect();
    let (mut artifacts, mut texts) = (Vec::new(), Vec::new());
    for some in comparable.chunks(CONCURRENT_READS) {
        for (artifact, text) in
            try_join_all(some.iter().map(|it| compared(app, it))).await?.into_iter().flatten()
        {
            artifacts.push(artifact);
            texts.push(text);
        }
    }
    let mut decisions = app.store.resolved_decisions(id, MAX_DECISIONS).await?;
    decisions.retain(|decision| has_words(&decision.text()));
    texts.extend(decisions.iter().map(ResolvedDecision::text));
    let compared = Compared { project, artifacts: &artifacts, decisions: &decisions, texts: &texts };
    let mut scanned = Scanned {
        compared: artifacts.len(),
        compared_decisions: decisions.len(),
        skipped: all - artifacts.len(),
        ..Scanned::default()
    };
    let Some((comparisons, since)) = compared.comparisons(app, request, &mut scanned).await? else {
        return Ok(scanned);
    };
    let reviews = app.store.review_ledger(id).await?.value;
    let (mut all_similar, mut all_misaligned) = (Vec::new(), Vec::new());
    for comparison in &comparisons {
        let texts = ScannedTexts {
            artifacts: &artifacts,
            decisions: &decisions,
            comparison,
            thresholds: reviews.thresholds(comparison.engine(), config),
            since,
            is_reviewed: is_reviewed(app, project),
        };
        let Scan::Done { similar, misaligned } = texts.scan(id) else {
            return Ok(Scanned { is_too_large: true, ..Scanned::default() });
        };
        all_similar.extend(similar);
        all_misaligned.extend(misaligned);
    }
    (scanned.similar, scanned.misaligned) = (all_similar.len(), all_misaligned.len());
    for found in [all_similar, all_misaligned] {
        scanned.raised += raise_new(app, (owner, id), request, found).await?;
    }
    Ok(scanned)
}

/// Whether a model reviews the issues of a project. Under a limit of 0 it reviews none.
pub(crate) fn is_reviewed(app: &App, project: &Project) -> bool {
    let config = &project.definition().coherence;
    app.integrations.has_model && config.enable_layer2 && config.layer2_max_reviews_per_hour > 0
}

/// The texts of a scan: those of the artifacts, then those of the decisions.
struct Compared<'a> {
    project: &'a Project,
    artifacts: &'a [ComparedArtifact],
    decisions: &'a [ResolvedDecision],
    texts: &'a [String],
}

impl Compared<'_> {
    /// The texts as an engine compares them, with the begin of its window. `None` if nothing changed in it. Sets the engine. A second
    /// comparison is that of the lexical engine for texts that the embedding model refuses.
    async fn comparisons(
        &self,
        app: &App,
        request: &ScanRequest<'_>,
        scanned: &mut Scanned,
    ) -> Result<Option<(Vec<Comparison>, Option<Timestamp>)>, Problem> {
        if let Some(within) = request.embedding_time {
            scanned.engine = ComparisonEngine::Embeddings;
            if !self.is_changed(request.since_embedded) {
                return Ok(None);
            }
            let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
            match Box::pin(embeddings::vectors(app, self.project, &texts, within)).await? {
                Ok(vectors) => {
                    let at = vectors.iter().enumerate();
                    let refused: BTreeSet<usize> =
                        at.filter_map(|(at, vector)| vector.is_none().then_some(at)).collect();
                    let lexical = (!refused.is_empty()).then(|| self.lexical(Some(refused)));
                    let comparisons = [Comparison::Embeddings(vectors)].into_iter().chain(lexical);
                    return Ok(Some((comparisons.collect(), request.since_embedded)));
                }
                Err(failure) => scanned.fallback = Some(failure),
            }
        }
        scanned.engine = ComparisonEngine::Lexical;
        if !self.is_changed(request.since) {
            return Ok(None);
        }
        Ok(Some((vec![self.lexical(None)], request.since)))
    }

    fn lexical(&self, only: Option<BTreeSet<usize>>) -> Comparison {
        let (artifacts, decisions) = self.texts.split_at(self.artifacts.len());
        let (artifacts, decisions) =
            (artifacts.iter().map(String::as_str), decisions.iter().map(String::as_str));
        Comparison::lexical(artifacts, decisions, only)
    }

    fn is_changed(&self, since: Option<Timestamp>) -> bool {
        let is_new = |at: Timestamp| since.is_none_or(|since| at >= since);
        self.artifacts.iter().any(|it| is_new(it.stored_at))
            || self.decisions.iter().any(|it| is_new(it.resolved_at))
    }
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

/// An artifact with its text; `None` without a text.
async fn compared(
    app: &App,
    artifact: &ArtifactSummary,
) -> Result<Option<(ComparedArtifact, String)>, Problem> {
    let part = VersionRecord::id(artifact.version);
    let record =
        app.store.archived_part::<Artifact, VersionRecord>(artifact.id, VersionRecord::GROUP, &part).await?;
    let Some(record) = record.filter(|record| has_words(&record.head)) else { return Ok(None) };
    let compared = ComparedArtifact {
        id: artifact.id,
        workstream: artifact.workstream.clone(),
        path: artifact.path.clone(),
        author: record.version.author.agent(),
        stored_at: record.version.stored_at,
        content_hash: artifact.content.content_hash.clone(),
    };
    Ok(Some((compared, record.head)))
}

/// Raises the first issues that are new. Returns their number.
async fn raise_new(
    app: &App,
    place: (&UserId, ProjectId),
    request: &ScanRequest<'_>,
    found: Vec<Detected>,
) -> Result<usize, Problem> {
    let mut raised = 0;
    for detected in found.into_iter().take(MAX_LOOKUPS) {
        if raised == MAX_ISSUES {
            break;
        }
        raised += usize::from(raise(app, place, request, detected).await?);
    }
    Ok(raised)
}

/// Returns whether the issue is new.
async fn raise(
    app: &App,
    place: (&UserId, ProjectId),
    ScanRequest { tick, cause, .. }: &ScanRequest<'_>,
    detected: Detected,
) -> Result<bool, Problem> {
    let load = async || Detection::load(app, place, *tick, vec![detected.clone()]).await;
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
