//! Changes of skills by agents: memory pills and proposed consolidations. One transaction changes the skill and records the
//! change in the journals of both the skill and the session.

use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_app::texts;
use pilothouse_app::trace;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::agent_api::AGENT_API_RATE_LIMIT;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::{AgentSkill, AgentSkillId, DomainContext, Events};
use pilothouse_store::{Commit, CommitError, Store};
use serde_json::Value;

/// The metadata of a requested change.
pub(super) struct Asked {
    pub(super) function: &'static str,
    /// SHA-256 of the body. The idempotency record stores it.
    pub(super) request_hash: String,
    pub(super) skill: AgentSkillId,
}

/// Changes a skill of the session's owner with one domain call. The events are recorded in both journals.
pub(super) async fn change(
    app: &App,
    caller: &AgentCaller,
    asked: Asked,
    mut decide: impl FnMut(
        &mut AgentSkill,
        &AgentSession,
        &mut DomainContext<'_>,
    ) -> Result<(Events, CommandResponse), Problem>,
) -> Result<CommandResponse, Problem> {
    for attempt in 0..32 {
        let mut loaded = super::caller_session(app, caller).await?;
        let owner = loaded.conversation.session.owner_id().clone();
        let request = format!("{} {}", asked.skill, asked.request_hash);
        let command = CommandContext::for_agent(owner, asked.function, caller, &request);
        if let Some(answer) = command.earlier_response(&app.store).await? {
            return Ok(answer);
        }
        let mut calls = app.store.calls(caller.session).await?;
        calls.value = calls.value.take(AGENT_API_RATE_LIMIT, app.now())?;
        let skill = app.store.aggregate::<AgentSkill>(&command.owner, asked.skill).await?;
        let mut skill = skill.ok_or_else(Problem::no_skill)?;
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let session = &mut loaded.conversation.session;
        let (events, answer) = decide(&mut skill.value, session, &mut ctx)?;
        if events.is_empty() && !command.has_idempotency_key() {
            return Ok(answer);
        }
        let cause = || Cause::AgentApi { function: asked.function.to_owned(), body: Value::Null };
        let mut commit = Commit::new();
        commit.calls(caller.session, &calls)?;
        app.record_aggregate(&mut commit, &skill, cause(), events.clone())?;
        let mut entry = texts::record(session, ctx.event_id(), ctx.now, cause(), events, Vec::new());
        entry.traceparent = trace::here();
        commit.entry(&entry, None)?;
        commit.conversation(&loaded, &app.deadlines)?;
        command.store_response(&mut commit, &answer, app)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(answer),
            Err(CommitError::Conflict | CommitError::ResponseExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
