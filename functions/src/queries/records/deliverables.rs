//! `GET /api/agents/sessions/{id}/deliverables`: returns the deliverables of the agent and their statuses (S4). The list is a
//! view of the journal.

use axum::extract::State;
use pilothouse_api::records::{DeliverableView, DeliverablesView};
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_wire::RawEvent;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-deliverables", Verb::Get, "/api/agents/sessions/{id}/deliverables", |verb| {
        verb.route(get_deliverables)
    })
    .owner()
    .summary("Get the deliverables of an agent and their statuses")
    .output::<DeliverablesView>(&[200]);

/// Responds with 200 and the latest list, or with 404 when there is none or its record has expired (decision 38).
async fn get_deliverables(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    let none = |why: &str| Problem::NotFound(why.to_owned());
    let recorded = session.deliverables().ok_or_else(|| none("the agent has made no deliverables"))?;
    let entry = app.store.journal_entry(id, recorded.journal_sequence).await?;
    let expired = || none("the list of the deliverables has expired; the session still has their counts");
    let Some(entry) = entry else { return Err(expired()) };
    let Some(RawEvent::Deliverables { deliverables }) = journal_views::raw_event(&entry) else {
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
    CommandResponse::ok(session.control_version(), &shown)
}
