//! `GET /api/agents/sessions/{id}/deliverables`: what the agent is to deliver, and where each stands (S4). The list is a view
//! of the journal, like everything that an agent tells.

use axum::extract::State;
use pilothouse_wire::RawEvent;

use super::view;
use crate::api::records::{DeliverableView, DeliverablesView};
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// 200 with the latest list; 404 when the agent has made none, or when its record has expired (ruling 38).
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let session = app.session_of(&owner, id).await?;
    let none = |why: &str| Problem::NotFound(why.to_owned());
    let recorded = session.deliverables().ok_or_else(|| none("the agent has made no deliverables"))?;
    let entry = app.store.journal_entry(id, recorded.journal_sequence).await?;
    let expired = || none("the list of the deliverables has expired; the session still has their counts");
    let Some(entry) = entry else { return Err(expired()) };
    let Some(RawEvent::Deliverables { deliverables }) = view::raw_event(&entry) else {
        return Err(expired());
    };
    let shown = DeliverablesView {
        counts: recorded.counts,
        updated_at: entry.at,
        deliverables: deliverables
            .into_iter()
            .map(|it| DeliverableView {
                id: it.id,
                description: it.description,
                acceptance_criteria: it.acceptance_criteria,
                status: it.status,
            })
            .collect(),
    };
    Answer::ok(session.control_version(), &shown)
}
