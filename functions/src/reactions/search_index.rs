//! Maintains the search index of projects: the words of artifacts, and of the objectives of agents (decision 84).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::{Artifact, VersionRecord};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::knowledge::SearchTerms;
use pilothouse_domain::text::cut;
use pilothouse_domain::{ProjectId, SessionEvent};
use pilothouse_store::{Indexed, IndexedSubject};

/// Words of names count more than those of texts.
const NAME: u32 = 4;
const TAG: u32 = 3;
const PATH: u32 = 2;
const TEXT: u32 = 1;
/// Most characters of an objective as a title.
const MAX_TITLE: usize = 200;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::Created { .. })
}

/// Indexes the objective of an agent whose session was created.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = entry.project.as_ref().filter(|_| entry.events.iter().any(concerns)) else {
        return Ok(());
    };
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    let objective = session.objective().as_str();
    let indexed = Indexed {
        subject: IndexedSubject::Objective { id: membership.agent_id },
        workstream: membership.workstream.clone(),
        title: cut(objective, MAX_TITLE),
    };
    index(app, membership.project_id, &indexed, &SearchTerms::default().with(objective, TEXT)).await
}

/// Indexes the latest version of an artifact.
pub(super) async fn react_of_artifact(app: &App, artifact: &Artifact) -> Result<(), Problem> {
    let id = artifact.id();
    let part = VersionRecord::id(artifact.latest().version);
    let record = app.store.archived_part::<Artifact, VersionRecord>(id, VersionRecord::GROUP, &part).await?;
    let mut terms = SearchTerms::default().with(artifact.name().as_str(), NAME);
    for tag in artifact.tags().as_slice() {
        terms = terms.with(tag.as_str(), TAG);
    }
    terms = terms.with(artifact.path().as_str(), PATH);
    if let Some(record) = record {
        terms = terms.with(&record.head, TEXT);
    }
    let indexed = Indexed {
        subject: IndexedSubject::Artifact { id },
        workstream: artifact.workstream().clone(),
        title: artifact.name().to_string(),
    };
    index(app, artifact.project_id(), &indexed, &terms).await
}

/// Updates the index. A lost race fails the message, which is then processed again.
async fn index(app: &App, project: ProjectId, indexed: &Indexed, terms: &SearchTerms) -> Result<(), Problem> {
    for commit in app.store.index(project, indexed, terms).await? {
        app.store.commit(commit).await?;
    }
    Ok(())
}
