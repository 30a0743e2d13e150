//! `GET /api/agents/search`: searches the owner's sessions by words (decision 97).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use futures_util::future::try_join_all;
use pilothouse_api::sessions::{SessionHit, SessionSearchResults, SessionSummary};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::knowledge::Weight;

use crate::knowledge::search::{ENTRIES, RESULTS, terms_of};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-search", Verb::Get, "/api/agents/search", |verb| verb.route(search_sessions))
        .owner()
        .summary("Search sessions by the words of their names, labels and objectives")
        .query(&["query"])
        .output::<SessionSearchResults>(&[200]);

/// Responds with 200 and at most 20 sessions: those with most of the words first, then the newest. The 200 newest sessions with a word
/// are considered. A reaction updates the index, so new sessions appear after a moment.
async fn search_sessions(
    State(app): State<App>,
    Owner(owner): Owner,
    parameters: Parameters,
) -> Result<Json<SessionSearchResults>, Problem> {
    let terms = terms_of(parameters.text("query"))?;
    let found = terms.iter().map(|term| app.store.sessions_found_under(&owner, term, ENTRIES));
    let mut hits: BTreeMap<AgentSessionId, (usize, Weight)> = BTreeMap::new();
    for (id, weight) in try_join_all(found).await?.into_iter().flatten() {
        let hit = hits.entry(id).or_default();
        *hit = (hit.0 + 1, hit.1.saturating_add(weight));
    }
    let mut hits: Vec<_> = hits.into_iter().map(|(id, (matched, weight))| (matched, weight, id)).collect();
    hits.sort_by_key(|hit| Reverse(*hit));
    let hits = hits.into_iter().take(RESULTS).map(|(matched_terms, _, id)| {
        let (app, owner) = (&app, &owner);
        async move {
            let session = app.store.session_of(owner, id).await?;
            let hit = |session| SessionHit { session: SessionSummary::of(&session), matched_terms };
            Ok::<_, Problem>(session.map(hit))
        }
    });
    let items = try_join_all(hits).await?.into_iter().flatten().collect();
    Ok(Json(SessionSearchResults { items, terms }))
}
