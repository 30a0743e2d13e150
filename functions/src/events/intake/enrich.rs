//! Completes the facts of an event with data that only the control plane has: to a request, the verdict that a permission names
//! (decision 75), the blob with a long input of its call (decision 6), and the timeout of a request in a project (decision 77); to an output,
//! how its result violates the schema of the brief (decision 83) and the guardrails that trip on it (decision 79).

use bytes::Bytes;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::ProjectAgent;
use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::session::{AgentFact, AgentSession};
use pilothouse_store::blob::BlobKey;
use pilothouse_wire::RawEvent;

/// Adds the verdict as the control plane recorded it. A verdict of another session, on another call or tool, or without a question is
/// ignored: the request then counts as one without a verdict.
pub(super) async fn attach_verdict(
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

/// Stores a long input of a tool call as a blob, because the session keeps only its beginning. The blob is written first, so that an
/// approval never names a missing blob. The limit of the beginning is in characters, so an input of at most as many bytes is not cut.
/// A sidecar has already stored an input that it cut.
pub(super) async fn attach_input(
    app: &App,
    session: &AgentSession,
    event: &RawEvent,
    facts: &mut [AgentFact],
) -> Result<(), Problem> {
    let RawEvent::QuestionAsked { approval: Some(asked), .. } = event else { return Ok(()) };
    let input = asked.input.to_string();
    if asked.input_blob.is_some() || input.len() <= ToolApproval::MAX_INPUT {
        return Ok(());
    }
    let prefix = format!("sessions/{}", session.id());
    let key = BlobKey::of(&prefix, input.as_bytes()).map_err(Problem::internal)?;
    app.blobs.put(&key, Bytes::from(input)).await.map_err(Problem::internal)?;
    for fact in facts {
        if let AgentFact::QuestionAsked { approval: Some(approval), .. } = fact {
            approval.input_blob = Some(key.digest().to_owned());
        }
    }
    Ok(())
}

/// Adds the timeout policy that holds now, with the ticks of the project.
pub(super) async fn attach_timeout(
    app: &App,
    session: &AgentSession,
    facts: &mut [AgentFact],
) -> Result<(), Problem> {
    let Some(membership) = session.project() else { return Ok(()) };
    for fact in facts {
        if let AgentFact::QuestionAsked { timeout, .. } | AgentFact::PlanShown { timeout, .. } = fact {
            let Some(time) = app.project_time(membership.project_id).await? else { return Ok(()) };
            let agent = app.store.aggregate::<ProjectAgent>(session.owner_id(), membership.agent_id).await?;
            let brief = agent.and_then(|agent| agent.value.brief().decision_timeout);
            let now = app.now();
            let ticks = time.clock(now)?.read_for(membership.agent_id, now);
            *timeout = Some(Box::new(time.project.value.timeout_terms(brief, ticks)));
        }
    }
    Ok(())
}

/// Checks the results of outputs against the schema and the guardrails of the brief. What the sidecar reports about that does not count.
pub(super) async fn check_outputs(
    app: &App,
    session: &AgentSession,
    facts: &mut [AgentFact],
) -> Result<(), Problem> {
    for fact in facts {
        if let AgentFact::TurnCompleted { output: Some(output), .. }
        | AgentFact::SessionEnded { output: Some(output), .. } = fact
        {
            let rules = app.output_rules(session.owner_id(), session.project()).await?;
            output.check_result(&rules);
        }
    }
    Ok(())
}
