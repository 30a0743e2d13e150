//! Changes of skills by agents: memory pills and proposed consolidations. One transaction changes the skill and records the
//! change in the journals of both the skill and the session.

use pilothouse_app::command::CommandResponse;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_app::texts;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::{App, trace};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::{AgentSkill, AgentSkillId, DomainContext, SessionEvent, SkillEvent};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};
use serde_json::Value;

use super::{AgentCall, CallerContext};

pub(super) struct SkillChange {
    pub(super) function: &'static str,
    /// SHA-256 of the body. The idempotency record stores it.
    pub(super) request_hash: String,
    pub(super) skill: AgentSkillId,
}

/// Changes a skill of the session's owner with one domain call. The events are recorded in both journals.
pub(super) async fn change(
    app: &App,
    caller: &AgentCaller,
    skill_change: SkillChange,
    mut decide: impl FnMut(
        &mut AgentSkill,
        &AgentSession,
        &mut DomainContext<'_>,
    ) -> Result<(Vec<SkillEvent>, CommandResponse), Problem>,
) -> Result<CommandResponse, Problem> {
    let request = format!("{} {}", skill_change.skill, skill_change.request_hash);
    let call = AgentCall {
        app,
        caller,
        path_session: caller.session,
        function: skill_change.function,
        request: &request,
    };
    let load = async |context: CallerContext| {
        let skill = app.store.aggregate::<AgentSkill>(&context.owner, skill_change.skill).await?;
        skill.ok_or_else(Problem::no_skill)
    };
    let decide = |mut loaded: LoadedConversation,
                  mut skill: LoadedAggregate<AgentSkill>,
                  ctx: &mut DomainContext<'_>| {
        let session = &mut loaded.conversation.session;
        let (events, response) = decide(&mut skill.value, session, ctx)?;
        if events.is_empty() {
            return Ok(Decision::Unchanged(response));
        }
        let cause = || Cause::AgentApi { function: skill_change.function.to_owned(), body: Value::Null };
        let mut commit = Commit::new();
        let of_session = events.iter().filter_map(SessionEvent::of_skill).collect();
        app.record_aggregate(&mut commit, &skill, cause(), events)?;
        let mut entry = texts::record(session, ctx.event_id(), ctx.now, cause(), of_session, Vec::new());
        entry.traceparent = trace::here();
        commit.entry(&entry, None)?;
        commit.conversation(&loaded, &app.deadlines)?;
        Ok(Decision::Commit(commit, response))
    };
    call.run(load, decide).await
}
