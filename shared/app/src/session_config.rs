//! The configuration of a session's agent (S0 8.11 `AgentSessionConfig`). It is composed for each launch of a sidecar and for each
//! reload, from the current skills. A running sidecar keeps the configuration that it received.

use pilothouse_api::Violation;
use pilothouse_domain::composition::{
    Composition, SkillPart, TemplatePart, compose_within_limit, consolidation_prompt,
};
use pilothouse_domain::escalation::{ListedCall, Listing, ToolAllowList};
use pilothouse_domain::project_agent::{AgentBrief, brief_prompt};
use pilothouse_domain::session::{AgentSession, SessionError};
use pilothouse_domain::skill::{MemoryPill, SkillError};
use pilothouse_domain::value::ContextPolicy;
use pilothouse_domain::{AgentSkill, AgentSkillId, AgentTemplate, Project, ProjectAgent, UserId};
use pilothouse_wire::command::{AgentSessionConfig, BriefPolicies, Handoff};

use crate::App;
use crate::problem::Problem;

pub async fn composed(app: &App, session: &AgentSession) -> Result<AgentSessionConfig, Problem> {
    let settings = session.settings();
    let skills = skills_of(app, session.owner_id(), session.enabled_skill_ids()).await?;
    let consolidation = consolidation_brief(app, session).await?;
    let template = template_of(app, session).await?;
    let asked = |prompt| TemplatePart { system_prompt: Some(prompt), ..TemplatePart::default() };
    let brief = project_brief(app, session).await?;
    // The current brief replaces what the agent started with.
    let tools = brief.as_ref().map_or(&settings.allowed_tools, |(_, brief)| &brief.allowed_tools);
    let template = consolidation.as_deref().map(asked).or_else(|| part_of(template.as_ref(), tools));
    // Of two tools with the same name, the first one counts: that of the brief.
    let mut custom_tools = brief.as_ref().map(|(_, brief)| brief.mcp_tools()).unwrap_or_default();
    custom_tools.extend(template.iter().flat_map(|template| template.custom_tools).cloned());
    let template = match &brief {
        Some((prompt, _)) => Some(TemplatePart {
            brief: Some(prompt),
            custom_tools: &custom_tools,
            ..template.unwrap_or_default()
        }),
        None => template,
    };
    let policies = brief.as_ref().map(|(_, brief)| policies_of(brief)).unwrap_or_default();
    let mut options = settings.agent.clone();
    if let Some(policy) = policies.session_policy.and_then(|policy| policy.context_policy()) {
        options.context_policy = policy;
    }
    let (mut composition, left_out) =
        compose_within_limit(template, &parts(&skills), tools, options.context_policy);
    if let Some(policy) = &policies.delegation_policy {
        composition.sub_agents.retain(|agent| policy.offers(agent.name.as_str()));
    }
    let allowed = [&app.allowed_models, session.allowed_models()];
    composition.sub_agents.retain(|agent| allowed.iter().all(|models| models.check(&agent.model_id).is_ok()));
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|skill| skill.name).collect();
        tracing::warn!(session = %session.id(), ?names, "left out skills that exceed the size of the configuration");
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
        options,
        policies,
        handoff: handoff(session),
        adapter_options: adapter_options(session, brief.as_ref().map(|(_, brief)| brief)),
    })
}

fn policies_of(brief: &AgentBrief) -> BriefPolicies {
    BriefPolicies {
        delegation_policy: brief.delegation_policy.clone(),
        session_policy: brief.session_policy,
        artifact_files: brief.artifact_files.clone(),
    }
}

fn parts(skills: &[AgentSkill]) -> Vec<SkillPart<'_>> {
    skills.iter().map(Into::into).collect()
}

/// `session_tools`: those of the start request or the brief. They replace the tools of the template.
fn part_of<'a>(template: Option<&'a AgentTemplate>, session_tools: &[String]) -> Option<TemplatePart<'a>> {
    let part = TemplatePart::from(template?);
    Some(if session_tools.is_empty() { part } else { TemplatePart { allowed_tools: &[], ..part } })
}

/// The options of the current brief, unless they are meant for another adapter: that one drives the next session.
fn adapter_options(session: &AgentSession, brief: Option<&AgentBrief>) -> serde_json::Value {
    let settings = session.settings();
    let is_of_adapter = |brief: &&AgentBrief| brief.adapter.as_ref().is_none_or(|it| *it == settings.adapter);
    let of_brief = brief.filter(is_of_adapter).map(|brief| &brief.provider_config);
    of_brief.filter(|options| !options.is_null()).unwrap_or(&settings.adapter_options).clone()
}

/// A template that was deactivated since still applies.
async fn template_of(app: &App, session: &AgentSession) -> Result<Option<AgentTemplate>, Problem> {
    let Some(id) = session.template_id() else { return Ok(None) };
    Ok(app.store.aggregate::<AgentTemplate>(session.owner_id(), id).await?.map(|loaded| loaded.value))
}

/// A skill that was deactivated since still applies.
async fn skills_of(app: &App, owner: &UserId, ids: &[AgentSkillId]) -> Result<Vec<AgentSkill>, Problem> {
    let mut skills = Vec::with_capacity(ids.len());
    for id in ids {
        skills.extend(app.store.aggregate::<AgentSkill>(owner, *id).await?.map(|loaded| loaded.value));
    }
    Ok(skills)
}

/// The prompt of a session that consolidates a skill, which replaces the template's prompt.
async fn consolidation_brief(app: &App, session: &AgentSession) -> Result<Option<String>, Problem> {
    let Some(skill) = session.consolidates() else { return Ok(None) };
    let Some(loaded) = app.store.aggregate::<AgentSkill>(session.owner_id(), skill).await? else {
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

/// The current brief of a project's agent, with the prompt that it becomes.
async fn project_brief(app: &App, session: &AgentSession) -> Result<Option<(String, AgentBrief)>, Problem> {
    let Some(membership) = session.project() else { return Ok(None) };
    let owner = session.owner_id();
    let project = app.store.aggregate::<Project>(owner, membership.project_id).await?;
    let agent = app.store.aggregate::<ProjectAgent>(owner, membership.agent_id).await?;
    Ok(project
        .zip(agent)
        .map(|(project, agent)| (brief_prompt(&project.value, &agent.value), agent.value.brief().clone())))
}

/// Whether an agent of a project may use a tool: by the list of its brief, or else of its template. MCP tools of the configuration
/// are listed, too. Template and skills are read only if the brief does not decide.
pub async fn tool_listing(
    app: &App,
    session: &AgentSession,
    brief: &AgentBrief,
    call: ListedCall<'_>,
) -> Result<Listing, Problem> {
    let of_brief = ToolAllowList::new(&brief.allowed_tools).with_mcp_tools(&brief.mcp_tools());
    let listing = of_brief.listing(call);
    let brief_decides = !brief.allowed_tools.is_empty() || session.template_id().is_none();
    if brief_decides && !matches!(listing, Listing::NotAllowed(_)) {
        return Ok(listing);
    }
    let template = template_of(app, session).await?;
    let template = template.as_ref().map(TemplatePart::from).unwrap_or_default();
    let skills = skills_of(app, session.owner_id(), session.enabled_skill_ids()).await?;
    let allowed = if brief.allowed_tools.is_empty() {
        ToolAllowList::new(template.allowed_tools).with_mcp_tools(&brief.mcp_tools())
    } else {
        of_brief
    };
    let of_skills =
        |allowed: ToolAllowList, skill: &AgentSkill| allowed.with_mcp_tools(skill.tool_definitions());
    let allowed = skills.iter().fold(allowed.with_mcp_tools(template.custom_tools), of_skills);
    Ok(allowed.listing(call))
}

/// Loads the skills that a session starts with, in order. `field` is the name of the input that lists them.
///
/// # Errors
/// [`Problem::Invalid`] lists every skill that is unknown or deactivated, or reports that they are too large together.
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
        match app.store.aggregate::<AgentSkill>(owner, *id).await? {
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

/// Checks that a skill exists, is active, and fits the configuration with the session's other skills.
pub async fn ensure_can_be_enabled(
    app: &App,
    session: &AgentSession,
    skill: AgentSkillId,
) -> Result<(), Problem> {
    let owner = session.owner_id();
    let loaded = app.store.aggregate::<AgentSkill>(owner, skill).await?.ok_or_else(Problem::no_skill)?;
    if !loaded.value.is_active() {
        return Err(SkillError::Inactive { skill_id: skill }.into());
    }
    let mut skills = skills_of(app, owner, session.enabled_skill_ids()).await?;
    if skills.iter().all(|enabled| enabled.id() != skill) {
        skills.push(loaded.value);
    }
    let template = template_of(app, session).await?;
    let tools = &session.settings().allowed_tools;
    Ok(ensure_fits(part_of(template.as_ref(), tools), &skills, tools)?)
}

fn ensure_fits(
    template: Option<TemplatePart<'_>>,
    skills: &[AgentSkill],
    session_tools: &[String],
) -> Result<(), SkillError> {
    // The policy with the larger prompt, so that the skills fit under either policy.
    let policy = ContextPolicy::Handoff;
    let (_, left_out) = compose_within_limit(template, &parts(skills), session_tools, policy);
    if left_out.is_empty() {
        return Ok(());
    }
    Err(SkillError::TooLargeTogether { max_kib: Composition::MAX_BYTES / 1024 })
}

fn handoff(session: &AgentSession) -> Option<Handoff> {
    let continues = session.continues()?;
    let document = continues.document.as_ref()?.document.clone();
    Some(Handoff { from_session_id: continues.session_id, position: continues.position, document })
}
