//! The verdict that a request for permission names (decision 75).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::session::{AgentFact, AgentSession};
use pilothouse_wire::RawEvent;

/// Adds the verdict as the control plane recorded it. A verdict of another session, on another call or tool, or without a question is
/// ignored: the request then counts as one without a verdict.
pub(super) async fn attach(
    app: &App,
    session: &AgentSession,
    event: &RawEvent,
    facts: &mut [AgentFact],
) -> Result<(), Problem> {
    let RawEvent::QuestionAsked { request_id, approval: Some(asked), .. } = event else { return Ok(()) };
    let Some(id) = asked.verdict_id else { return Ok(()) };
    let entry = app.store.logged_verdict(id).await?;
    let entry = entry.filter(|entry| entry.session_id == Some(session.id()));
    let verdict = entry.and_then(|entry| entry.logged.asked_verdict(request_id));
    for fact in facts {
        if let AgentFact::QuestionAsked { approval: Some(approval), .. } = fact {
            let same_tool = verdict.as_ref().filter(|verdict| verdict.tool == approval.tool_name);
            approval.verdict = same_tool.cloned().map(Box::new);
        }
    }
    Ok(())
}
