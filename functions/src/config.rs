//! What a session's agent works with (S0 8.11 `AgentSessionConfig`): composed for each launch of a sidecar, and anew for each
//! reload, of the skills as they are then. A sidecar keeps what it was given.

use pilothouse_domain::composition::{
    Composition, SkillPart, TemplatePart, compose_what_fits, consolidation_prompt,
};
use pilothouse_domain::session::{AgentSession, SessionError};
use pilothouse_domain::skill::{MemoryPill, SkillError};
use pilothouse_domain::value::ContextPolicy;
use pilothouse_domain::{AgentSkill, AgentSkillId, AgentTemplate, UserId};
use pilothouse_wire::command::{AgentSessionConfig, Handoff};

use crate::api::Violation;
use crate::app::App;
use crate::edge::Problem;

/// The configuration of a session as it is composed now.
///
/// # Errors
/// The store cannot be read.
pub async fn composed(app: &App, session: &AgentSession) -> Result<AgentSessionConfig, Problem> {
    let settings = session.settings();
    let skills = skills_of(app, session.owner_id(), session.enabled_skill_ids()).await?;
    let brief = consolidation_brief(app, session).await?;
    let template = template_of(app, session).await?;
    let asked = |brief| TemplatePart { system_prompt: Some(brief), ..TemplatePart::default() };
    let template = brief.as_deref().map(asked).or_else(|| part_of(template.as_ref(), session));
    let (composition, left_out) =
        compose_what_fits(template, &parts(&skills), &settings.allowed_tools, settings.context_policy);
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|skill| skill.name).collect();
        tracing::warn!(session = %session.id(), ?names, "skills do not fit the configuration");
    }
    Ok(AgentSessionConfig {
        model_id: session.model_id().as_str().to_owned(),
        thinking_level: settings.thinking_level,
        composed_system_prompt: composition.system_prompt,
        allowed_tools: composition.allowed_tools,
        custom_tools: composition.custom_tools,
        sub_agents: composition.sub_agents,
        working_directory: session.working_directory().as_str().to_owned(),
        objective: session.objective().as_str().to_owned(),
        plan_approval_required: settings.plan_approval_required,
        context_warn_at_percent: settings.context_warn_at_percent,
        context_policy: settings.context_policy,
        handoff: handoff(session),
        adapter_options: settings.adapter_options.clone(),
    })
}

fn parts(skills: &[AgentSkill]) -> Vec<SkillPart<'_>> {
    skills.iter().map(Into::into).collect()
}

/// What a template gives to a session.
fn part_of<'a>(template: Option<&'a AgentTemplate>, session: &AgentSession) -> Option<TemplatePart<'a>> {
    let part = TemplatePart::from(template?);
    // What a start says stands in place of what its template says.
    let said = !session.settings().allowed_tools.is_empty();
    Some(if said { TemplatePart { allowed_tools: &[], ..part } } else { part })
}

/// The template of a session, as it is now. One that was deactivated since stays in force for those that have it.
async fn template_of(app: &App, session: &AgentSession) -> Result<Option<AgentTemplate>, Problem> {
    let Some(id) = session.template_id() else { return Ok(None) };
    Ok(app.store.owned::<AgentTemplate>(session.owner_id(), id).await?.map(|loaded| loaded.value))
}

/// The skills of a session, in its order. One that was deactivated since stays in force for those that have it.
async fn skills_of(app: &App, owner: &UserId, ids: &[AgentSkillId]) -> Result<Vec<AgentSkill>, Problem> {
    let mut skills = Vec::with_capacity(ids.len());
    for id in ids {
        skills.extend(app.store.owned::<AgentSkill>(owner, *id).await?.map(|loaded| loaded.value));
    }
    Ok(skills)
}

/// What the agent of a consolidation is told, while that is under way: it comes where a template's prompt would.
async fn consolidation_brief(app: &App, session: &AgentSession) -> Result<Option<String>, Problem> {
    let Some(skill) = session.consolidates() else { return Ok(None) };
    let Some(loaded) = app.store.owned::<AgentSkill>(session.owner_id(), skill).await? else {
        return Ok(None);
    };
    let skill = &loaded.value;
    let Some(consolidation) = skill.consolidation().filter(|c| c.session_id == session.id()) else {
        return Ok(None);
    };
    let given = |pill: &&MemoryPill| consolidation.pill_ids.contains(&pill.id);
    let pills: Vec<_> = skill.active_pills().iter().filter(given).cloned().collect();
    Ok(Some(consolidation_prompt(skill, &pills)))
}

/// The skills that a session is to start with, in their order; `field` of the input names them.
///
/// # Errors
/// [`Problem::Invalid`] names every one that is not the owner's, or is deactivated, and says when they are too large together.
pub async fn skills_to_start_with(
    app: &App,
    owner: &UserId,
    field: &str,
    ids: &[AgentSkillId],
    session_tools: &[String],
) -> Result<Vec<AgentSkill>, Problem> {
    if ids.len() > AgentSession::MAX_SKILLS {
        let most = SessionError::TooManySkills { max: AgentSession::MAX_SKILLS };
        return Err(Problem::invalid(field, most));
    }
    let (mut skills, mut wrong) = (Vec::with_capacity(ids.len()), Vec::new());
    for (at, id) in ids.iter().enumerate() {
        match app.store.owned::<AgentSkill>(owner, *id).await? {
            Some(loaded) if loaded.value.is_active() => skills.push(loaded.value),
            Some(_) => wrong.push((at, SkillError::Inactive { skill_id: *id }.to_string())),
            None => wrong.push((at, format!("there is no skill {id}"))),
        }
    }
    if wrong.is_empty() {
        return ensure_fits(None, &skills, session_tools)
            .map(|()| skills)
            .map_err(|e| Problem::invalid(field, e));
    }
    let violation = |(at, message)| Violation { field: format!("{field}[{at}]"), message };
    Err(Problem::Invalid(wrong.into_iter().map(violation).collect()))
}

/// Refuses a skill that is not the owner's, is deactivated, or does not fit beside the session's others.
///
/// # Errors
/// [`Problem::NotFound`], [`SkillError::Inactive`], [`SkillError::TooLargeTogether`].
pub async fn ensure_can_be_enabled(
    app: &App,
    session: &AgentSession,
    skill: AgentSkillId,
) -> Result<(), Problem> {
    let owner = session.owner_id();
    let loaded = app.store.owned::<AgentSkill>(owner, skill).await?.ok_or_else(crate::skills::no_skill)?;
    if !loaded.value.is_active() {
        return Err(SkillError::Inactive { skill_id: skill }.into());
    }
    let mut skills = skills_of(app, owner, session.enabled_skill_ids()).await?;
    if skills.iter().all(|enabled| enabled.id() != skill) {
        skills.push(loaded.value);
    }
    let template = template_of(app, session).await?;
    let template = part_of(template.as_ref(), session);
    Ok(ensure_fits(template, &skills, &session.settings().allowed_tools)?)
}

fn ensure_fits(
    template: Option<TemplatePart<'_>>,
    skills: &[AgentSkill],
    session_tools: &[String],
) -> Result<(), SkillError> {
    // The larger of the two, so that they fit whatever the policy is.
    let policy = ContextPolicy::Handoff;
    let (_, left_out) = compose_what_fits(template, &parts(skills), session_tools, policy);
    if left_out.is_empty() {
        return Ok(());
    }
    Err(SkillError::TooLargeTogether { max_kib: Composition::MAX_BYTES / 1024 })
}

/// What the session before it left, in the version of now.
fn handoff(session: &AgentSession) -> Option<Handoff> {
    let continues = session.continues()?;
    let document = continues.document.as_ref()?.document.clone();
    Some(Handoff { from_session_id: continues.session_id, position: continues.position, document })
}
