//! The search indexes of projects and of owners' sessions, and the versions of snapshots (decisions 84, 97). Reactions maintain the index; each of its items belongs to
//! one artifact or one agent.

use std::collections::BTreeMap;

use pilothouse_domain::injection::InjectionLedger;
use pilothouse_domain::knowledge::{SearchTerms, Weight};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::{AgentSessionId, ArtifactId, ProjectAgentId, ProjectId, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose, guarded};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};
use crate::table::{Condition, Key, Query, SortRange, Write};

/// An artifact or an objective in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum IndexedSubject {
    Artifact {
        id: ArtifactId,
    },
    /// The objective of an agent.
    Objective {
        id: ProjectAgentId,
    },
}

impl IndexedSubject {
    /// Part of stored keys.
    fn key(self) -> String {
        match self {
            Self::Artifact { id } => format!("artifact#{id}"),
            Self::Objective { id } => format!("objective#{id}"),
        }
    }
}

/// A subject with the fields that a search result shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Indexed {
    pub subject: IndexedSubject,
    pub workstream: WorkstreamId,
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Posting {
    #[serde(flatten)]
    indexed: Indexed,
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionPosting {
    session_id: AgentSessionId,
    weight: Weight,
}

/// The words of a subject that the index contains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredTerms {
    title: String,
    weights: BTreeMap<String, Weight>,
}

/// The version of the latest snapshot of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMark {
    pub version: u64,
    pub content_hash: String,
}

/// Writes of one commit; a transaction has at most 100.
const WRITES: usize = 50;

fn posting_key(project: ProjectId, term: &str, indexed: &Indexed) -> Key {
    let sort = format!("{}{}", layout::postings_of(&indexed.workstream), indexed.subject.key());
    Key::new(layout::postings_partition(project, term), sort)
}

impl Store {
    /// The commits, in their order, after which the index contains a subject under these words only. Repeating them changes nothing.
    ///
    /// Each is guarded by the version of the stored words, so that an update stops as soon as another one has begun. The last one stores
    /// the words of the subject. The others store all words that the index may contain, so that the next update completes an interrupted
    /// one.
    pub async fn index(
        &self,
        project: ProjectId,
        indexed: &Indexed,
        terms: &SearchTerms,
    ) -> Result<Vec<Commit>, StoreError> {
        let key = layout::search_terms(&indexed.subject.key());
        let before: Loaded<StoredTerms> =
            self.load(&key).await?.unwrap_or(Loaded::new(StoredTerms::default()));
        let weights: BTreeMap<_, _> = terms.iter().map(|(term, weight)| (term.to_owned(), weight)).collect();
        let now = StoredTerms { title: indexed.title.clone(), weights };
        if now == before.value {
            return Ok(Vec::new());
        }
        let mut writes = Vec::new();
        for (term, weight) in &now.weights {
            let is_known = before.value.weights.get(term) == Some(weight) && before.value.title == now.title;
            if !is_known {
                let posting = Posting { indexed: indexed.clone(), weight: *weight };
                let row = write(posting_key(project, term, indexed), "posting", &posting)?;
                writes.push(Write::Put(row, Condition::Always));
            }
        }
        for term in before.value.weights.keys().filter(|term| !now.weights.contains_key(*term)) {
            writes.push(Write::Delete(posting_key(project, term, indexed), Condition::Always));
        }
        // No subject has an empty title, so that the next update writes all postings again.
        let mut possible = StoredTerms { title: String::new(), ..before.value };
        possible.weights.extend(now.weights.clone());
        let mut commits = Vec::new();
        let mut remaining = &writes[..];
        for version in before.version.. {
            let (some, later) = remaining.split_at(remaining.len().min(WRITES));
            let stored = if later.is_empty() { &now } else { &possible };
            let mut commit = Commit::new();
            for write in some {
                commit.push(write.clone(), Purpose::Record);
            }
            commit.push(guarded(write(key.clone(), "search-terms", stored)?, version), Purpose::Guard);
            commits.push(commit);
            remaining = later;
            if remaining.is_empty() {
                break;
            }
        }
        Ok(commits)
    }

    /// At most `limit` subjects of a project that have a word, in one workstream or in all.
    pub async fn found_under(
        &self,
        project: ProjectId,
        term: &str,
        workstream: Option<&WorkstreamId>,
        limit: usize,
    ) -> Result<Vec<(Indexed, Weight)>, StoreError> {
        let range = workstream.map_or(SortRange::All, |it| SortRange::Prefix(layout::postings_of(it)));
        let query = Query::new(layout::postings_partition(project, term), range, limit);
        let postings = self.list::<Posting>(query).await?.items;
        Ok(postings.into_iter().map(|posting| (posting.indexed, posting.weight)).collect())
    }

    /// At most `limit` sessions of an owner that have a word, newest first.
    pub async fn sessions_found_under(
        &self,
        owner: &UserId,
        term: &str,
        limit: usize,
    ) -> Result<Vec<(AgentSessionId, Weight)>, StoreError> {
        let query = Query {
            descending: true,
            ..Query::new(layout::session_postings_partition(owner, term), SortRange::All, limit)
        };
        let postings = self.list::<SessionPosting>(query).await?.items;
        Ok(postings.into_iter().map(|posting| (posting.session_id, posting.weight)).collect())
    }

    /// The injections of an agent, with the version of their item.
    pub async fn injection_ledger(
        &self,
        agent: ProjectAgentId,
    ) -> Result<Loaded<InjectionLedger>, StoreError> {
        let loaded = self.load(&layout::injections(agent)).await?;
        Ok(loaded.unwrap_or(Loaded::new(InjectionLedger::default())))
    }

    pub async fn snapshot_mark(&self, agent: ProjectAgentId) -> Result<Loaded<SnapshotMark>, StoreError> {
        Ok(self.load(&layout::snapshot(agent)).await?.unwrap_or(Loaded::new(SnapshotMark::default())))
    }
}

impl Commit {
    /// Adds a session to the index of its owner. The words of a session do not change, so that a repetition changes nothing.
    pub fn index_session(
        &mut self,
        owner: &UserId,
        session_id: AgentSessionId,
        terms: &SearchTerms,
    ) -> Result<(), StoreError> {
        for (term, weight) in terms.iter() {
            let key = Key::new(layout::session_postings_partition(owner, term), session_id.to_string());
            let row = write(key, "session-posting", &SessionPosting { session_id, weight })?;
            self.push(Write::Put(row, Condition::Always), Purpose::Record);
        }
        Ok(())
    }

    /// Adds the injections of an agent, guarded by their loaded version, with their deadline.
    pub fn injection_ledger(
        &mut self,
        agent: ProjectAgentId,
        ledger: &Loaded<InjectionLedger>,
    ) -> Result<(), StoreError> {
        let mut row = write(layout::injections(agent), layout::INJECTIONS, &ledger.value)?;
        row.due =
            ledger.value.due_at().map(|at| layout::aggregate_due(layout::INJECTIONS, &agent.to_string(), at));
        self.push(guarded(row, ledger.version), Purpose::Guard);
        Ok(())
    }

    /// Adds the mark of an agent's snapshot, guarded by its loaded version.
    pub fn snapshot_mark(
        &mut self,
        agent: ProjectAgentId,
        mark: &Loaded<SnapshotMark>,
    ) -> Result<(), StoreError> {
        let row = write(layout::snapshot(agent), "snapshot", &mark.value)?;
        self.push(guarded(row, mark.version), Purpose::Guard);
        Ok(())
    }
}
