//! Maintains the search indexes: the words of artifacts and of the objectives of agents in their project (decision 84), and those of
//! sessions (decision 97).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::{Artifact, VersionRecord};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::knowledge::SearchTerms;
use pilothouse_domain::text::cut;
use pilothouse_domain::{AgentSession, ProjectId, SessionEvent};
use pilothouse_store::{Commit, Indexed, IndexedSubject};

/// Words of names count more than those of texts.
const NAME: u32 = 4;
const TAG: u32 = 3;
const PATH: u32 = 2;
const TEXT: u32 = 1;
/// Maximum number of words of a session. Each is an item that its start costs.
const MAX_SESSION_TERMS: usize = 40;
/// Maximum number of characters of an objective as a title.
const MAX_TITLE: usize = 200;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::Created { .. })
}

/// Indexes a session that was created, and the objective of its agent in the project.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    if !entry.events.iter().any(concerns) {
        return Ok(());
    }
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    let mut commit = Commit::new();
    commit.index_session(session.owner_id(), session.id(), &terms_of(&session))?;
    app.store.commit(commit).await?;
    let Some(membership) = &entry.project else { return Ok(()) };
    let objective = session.objective().as_str();
    let indexed = Indexed {
        subject: IndexedSubject::Objective { id: membership.agent_id },
        workstream: membership.workstream.clone(),
        title: cut(objective, MAX_TITLE),
    };
    index(app, membership.project_id, &indexed, &SearchTerms::default().with(objective, TEXT)).await
}

/// The words of a session: its name, its labels, and the first ones of its objective.
fn terms_of(session: &AgentSession) -> SearchTerms {
    let mut terms = SearchTerms::at_most(MAX_SESSION_TERMS).with(session.name().as_str(), NAME);
    for (label, value) in &session.settings().labels {
        terms = terms.with(label, TAG).with(value, TAG);
    }
    terms.with(session.objective().as_str(), TEXT)
}

/// Indexes the latest version of an artifact.
pub(super) async fn index_artifact(app: &App, artifact: &Artifact) -> Result<(), Problem> {
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
