//! Searches the index of a project. It reads a bounded number of entries for each word.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use pilothouse_api::knowledge::{SearchHit, SearchResults};
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::ProjectId;
use pilothouse_domain::knowledge::{SearchTerms, Weight};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::KnowledgeScope;
use pilothouse_store::{Indexed, IndexedSubject};

/// Entries that are read for each word, and for each readable workstream of an agent.
pub(crate) const ENTRIES: usize = 200;
pub(crate) const RESULTS: usize = 20;
/// Most characters of a query.
const MAX_QUERY: usize = 500;

/// The words of a query.
pub(crate) fn terms_of(query: Option<&str>) -> Result<Vec<String>, Problem> {
    let query = query.ok_or_else(|| Problem::invalid("query", "is missing"))?;
    if query.chars().count() > MAX_QUERY {
        return Err(Problem::invalid("query", format!("must have at most {MAX_QUERY} characters")));
    }
    let terms = SearchTerms::of_query(query);
    if terms.is_empty() {
        return Err(Problem::invalid("query", "has no word to search for"));
    }
    Ok(terms)
}

/// Searches a project, or the readable workstreams of an agent. Results that have more of the words come first.
pub(crate) async fn search(
    app: &App,
    project: ProjectId,
    scope: Option<&KnowledgeScope>,
    terms: Vec<String>,
) -> Result<SearchResults, Problem> {
    let workstreams: Vec<Option<&WorkstreamId>> = match scope {
        Some(scope) => scope.readable().map(Some).collect(),
        None => vec![None],
    };
    let lookups = terms.iter().flat_map(|term| workstreams.iter().map(move |workstream| (term, *workstream)));
    let found = lookups.map(|(term, workstream)| app.store.found_under(project, term, workstream, ENTRIES));
    let mut hits: BTreeMap<IndexedSubject, (Indexed, usize, Weight)> = BTreeMap::new();
    for (indexed, weight) in try_join_all(found).await?.into_iter().flatten() {
        let hit = hits.entry(indexed.subject).or_insert((indexed, 0, 0));
        hit.1 += 1;
        hit.2 = hit.2.saturating_add(weight);
    }
    let mut hits: Vec<_> = hits.into_values().collect();
    hits.sort_by(|(one, matched, weight), (other, matched_other, weight_other)| {
        (matched_other, weight_other, &one.title).cmp(&(matched, weight, &other.title))
    });
    let items = hits.into_iter().take(RESULTS).map(|(indexed, matched, _)| hit(indexed, matched)).collect();
    Ok(SearchResults { items, terms })
}

fn hit(Indexed { subject, workstream, title }: Indexed, matched_terms: usize) -> SearchHit {
    let (artifact_id, agent_id) = match subject {
        IndexedSubject::Artifact { id } => (Some(id), None),
        IndexedSubject::Objective { id } => (None, Some(id)),
    };
    SearchHit { artifact_id, agent_id, workstream, title, matched_terms }
}
