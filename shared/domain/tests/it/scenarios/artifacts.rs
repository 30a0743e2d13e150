//! Artifacts: versions, reviews and scopes (decision 84).

use pilothouse_domain::artifact::{
    Artifact, ArtifactAuthor, ArtifactContent, ArtifactError as X, ArtifactEvent as E, ArtifactKind,
    ArtifactPath, ArtifactPlace, ArtifactState, ContentSize, MimeType, NewVersion, VersionRecord,
    artifact_id,
};
use pilothouse_domain::knowledge::ArtifactTally;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::text::{ArtifactName, Feedback, Tags, WorkstreamId};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{
    AgentSessionId, Aggregate as _, Deadlines, DomainContext, ProjectAgentId, ProjectId, Timestamp, UserId,
};
use serde_json::json;
use uuid::Uuid;

fn at<T>(millis: i64, decide: impl FnOnce(&DomainContext<'_>) -> T) -> T {
    let mut ids = || Uuid::nil();
    decide(&DomainContext::new(Timestamp::from_millis(millis), Deadlines::default(), &mut ids))
}

fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

fn project() -> ProjectId {
    ProjectId::new(Uuid::from_u128(1))
}

fn workstream(id: &str) -> WorkstreamId {
    WorkstreamId::parse(id).unwrap()
}

fn agent(n: u128) -> ArtifactAuthor {
    ArtifactAuthor::Agent {
        agent_id: ProjectAgentId::new(Uuid::from_u128(n)),
        session_id: AgentSessionId::new(Uuid::from_u128(n)),
        run_id: None,
        tool_call_id: None,
    }
}

fn person() -> ArtifactAuthor {
    ArtifactAuthor::Person { id: owner() }
}

fn path() -> ArtifactPath {
    ArtifactPath::parse("src/api.ts").unwrap()
}

/// A version with a content that `n` identifies.
fn version(author: ArtifactAuthor, n: u64) -> NewVersion {
    NewVersion {
        name: ArtifactName::parse("API").unwrap(),
        kind: ArtifactKind::Code,
        tags: Tags::default(),
        content: ArtifactContent {
            content_hash: ContentHash::parse(format!("{n:064x}")).unwrap(),
            size_bytes: ContentSize::new(n).unwrap(),
            mime_type: MimeType::parse("text/typescript").unwrap(),
        },
        head: format!("content {n}"),
        author,
        source_path: Some(path()),
        source_artifact_ids: Vec::new(),
        expected_version: None,
        tick: Tick::new(7),
    }
}

/// A version whose author has read `read`.
fn after(read: u32, author: ArtifactAuthor, n: u64) -> NewVersion {
    NewVersion { expected_version: Some(read), ..version(author, n) }
}

struct Given(Artifact);

/// An artifact of workstream `api` that agent 1 has reported.
fn reported() -> Given {
    let id = artifact_id(project(), &agent(1), &path());
    let place = ArtifactPlace {
        owner_id: owner(),
        project_id: project(),
        workstream: workstream("api"),
        path: path(),
    };
    let (artifact, events) = at(1, |ctx| Artifact::create(id, place, version(agent(1), 1), ctx)).unwrap();
    assert!(matches!(&events[..], [E::Reported { version: 1, .. }]));
    Given(artifact)
}

impl Given {
    fn revise(&mut self, new: NewVersion) -> Result<Vec<E>, X> {
        at(2, |ctx| self.0.revise(&workstream("api"), new, ctx))
    }

    fn approve(&mut self, seen: Option<u32>) -> Result<Vec<E>, X> {
        at(3, |ctx| self.0.approve(&owner(), seen, ctx))
    }

    fn reject(&mut self, seen: Option<u32>) -> Result<Vec<E>, X> {
        at(3, |ctx| self.0.reject(&owner(), (seen, Feedback::parse("Too short").unwrap()), ctx))
    }

    /// The step is refused, and changes nothing.
    fn refuses(&mut self, step: impl FnOnce(&mut Self) -> Result<Vec<E>, X>, error: &X) {
        let before = self.0.clone();
        assert_eq!(step(self).as_ref(), Err(error));
        assert_eq!(self.0, before);
    }

    /// The step changes nothing.
    fn ignores(&mut self, step: impl FnOnce(&mut Self) -> Result<Vec<E>, X>) {
        let before = self.0.clone();
        assert_eq!(step(self), Ok(Vec::new()));
        assert_eq!(self.0, before);
    }

    fn at_version(&self) -> (u32, ArtifactState) {
        (self.0.latest().version, self.0.review().state())
    }
}

#[test]
fn each_author_has_its_own_artifact_at_a_path() {
    let given = reported();
    assert_eq!(given.0.uri(), format!("artifact://{}/{}/src/api.ts", project(), Uuid::from_u128(1)));
    let id = |author| artifact_id(project(), &author, &path());
    assert_eq!(given.0.id(), id(agent(1)));
    assert_ne!(id(agent(1)), id(agent(2)));
    assert_ne!(id(agent(1)), id(person()));
}

#[test]
fn version_that_others_wrote_must_be_read_first() {
    let mut given = reported();
    assert!(given.revise(version(agent(1), 2)).is_ok(), "its author may go on");
    given.refuses(|it| it.revise(version(agent(2), 3)), &X::VersionConflict { current: 2 });
    given.refuses(|it| it.revise(after(1, agent(2), 3)), &X::VersionConflict { current: 2 });
    assert!(given.revise(after(2, agent(2), 3)).is_ok());
    given.refuses(|it| it.revise(version(agent(1), 4)), &X::VersionConflict { current: 3 });
    assert_eq!(given.at_version(), (3, ArtifactState::Pending));
}

#[test]
fn repeated_content_is_no_new_version() {
    let mut given = reported();
    given.ignores(|it| it.revise(version(agent(1), 1)));
    given.ignores(|it| it.revise(after(0, agent(1), 1)));
    given.ignores(|it| it.revise(after(1, agent(1), 1)));
    given.refuses(|it| it.revise(after(2, agent(1), 1)), &X::VersionConflict { current: 1 });
    let renamed = NewVersion { name: ArtifactName::parse("Orders").unwrap(), ..version(agent(1), 1) };
    assert!(matches!(&given.revise(renamed).unwrap()[..], [E::Reported { version: 2, .. }]));
    assert!(matches!(&given.revise(after(2, agent(2), 1)).unwrap()[..], [E::Reported { version: 3, .. }]));
}

#[test]
fn first_version_of_an_artifact_expects_none() {
    let place = ArtifactPlace {
        owner_id: owner(),
        project_id: project(),
        workstream: workstream("api"),
        path: path(),
    };
    let create = |new| at(1, |ctx| Artifact::create(reported().0.id(), place.clone(), new, ctx));
    assert!(create(after(0, agent(1), 1)).is_ok());
    assert_eq!(create(after(3, agent(1), 1)).unwrap_err(), X::VersionConflict { current: 0 });
}

#[test]
fn artifact_stays_in_its_workstream() {
    let mut given = reported();
    let before = given.0.clone();
    let moved = at(2, |ctx| given.0.revise(&workstream("docs"), version(agent(1), 2), ctx));
    assert_eq!(moved, Err(X::OtherWorkstream { workstream: workstream("api") }));
    assert_eq!(given.0, before);
}

#[test]
fn version_is_reviewed_once_and_a_new_one_again() {
    let mut given = reported();
    assert!(matches!(&given.approve(Some(1)).unwrap()[..], [E::Approved { version: 1, .. }]));
    given.ignores(|it| it.approve(None));
    let reviewed = X::Reviewed { version: 1, state: ArtifactState::Approved };
    given.refuses(|it| it.reject(None), &reviewed);
    given.revise(version(agent(1), 2)).unwrap();
    assert_eq!(given.at_version(), (2, ArtifactState::Pending));
    given.refuses(|it| it.approve(Some(1)), &X::VersionConflict { current: 2 });
    assert!(matches!(&given.reject(Some(2)).unwrap()[..], [E::Rejected { version: 2, .. }]));
    given.ignores(|it| it.reject(Some(2)));
}

#[test]
fn only_a_new_version_is_archived() {
    let mut given = reported();
    let parts = given.0.archived_parts();
    let record: VersionRecord = serde_json::from_value(parts[0].value.clone()).unwrap();
    assert_eq!((parts.len(), record.version.version, record.head.as_str()), (1, 1, "content 1"));
    let stored: Artifact = serde_json::from_value(serde_json::to_value(&given.0).unwrap()).unwrap();
    assert_eq!(stored.archived_parts(), []);
    given = Given(stored);
    given.approve(None).unwrap();
    assert_eq!(given.0.archived_parts(), [], "a review stores no version");
}

#[test]
fn agents_write_their_workstream_and_read_those_of_their_brief() {
    let brief = json!({ "role": "Builder", "workstream": "api", "readableWorkstreams": ["docs"] });
    let brief: AgentBrief = serde_json::from_value(brief).unwrap();
    let scope = brief.knowledge_scope();
    let may = |id: &str| (scope.may_read(&workstream(id)), scope.may_write(&workstream(id)));
    assert_eq!([may("api"), may("docs"), may("web")], [(true, true), (true, false), (false, false)]);
}

#[test]
fn project_has_at_most_10_000_artifacts() {
    let mut tally = ArtifactTally::default();
    for n in 0..Artifact::MAX_PER_PROJECT {
        assert_eq!(tally.ensure_room(), Ok(()));
        tally.count(workstream(if n % 2 == 0 { "api" } else { "docs" }));
    }
    assert_eq!((tally.of(&workstream("api")), tally.of(&workstream("web"))), (5_000, 0));
    assert_eq!(tally.ensure_room(), Err(X::TooMany { max: 10_000 }));
}
