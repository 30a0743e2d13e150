//! Composes the configuration of a session's agent from template, skills and session (S0 design note "Skill composition semantics",
//! decision 38).
//!
//! The template comes first, then the skills in the order of `EnabledSkillIds`. Prompts are concatenated. Tools and subagents are
//! merged by name, and the first of two with the same name wins.

use std::collections::BTreeSet;

use crate::AgentSkill;
use crate::skill::MemoryPill;
use crate::value::{ContextPolicy, McpToolDefinition, SkillSubAgentDefinition};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TemplatePart<'a> {
    /// The brief of an agent of a project: see [`crate::project_agent::brief_prompt`]. Placed first.
    pub brief: Option<&'a str>,
    /// Placed before the instructions of all skills.
    pub system_prompt: Option<&'a str>,
    pub allowed_tools: &'a [String],
    pub custom_tools: &'a [McpToolDefinition],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillPart<'a> {
    /// Id that the agent uses to record memory pills.
    pub id: crate::AgentSkillId,
    pub name: &'a str,
    pub instructions: &'a str,
    pub tools: &'a [McpToolDefinition],
    pub sub_agents: &'a [SkillSubAgentDefinition],
}

impl<'a> From<&'a AgentSkill> for SkillPart<'a> {
    fn from(skill: &'a AgentSkill) -> Self {
        Self {
            id: skill.id(),
            name: skill.name().as_str(),
            instructions: skill.instructions().as_str(),
            tools: skill.tool_definitions(),
            sub_agents: skill.sub_agent_definitions(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composition {
    /// System prompt. Under [`ContextPolicy::Handoff`] it ends with [`HANDOFF_INSTRUCTION`].
    pub system_prompt: String,
    /// Names of tools that the agent may use, including those of `custom_tools`. If empty, the adapter's default tools and all of
    /// `custom_tools` are allowed.
    pub allowed_tools: Vec<String>,
    /// Tools of MCP servers, with unique names.
    pub custom_tools: Vec<McpToolDefinition>,
    pub sub_agents: Vec<SkillSubAgentDefinition>,
}

impl Composition {
    /// Most bytes of a composition as JSON; it is sent in one command.
    pub const MAX_BYTES: usize = 144 * 1024;

    pub fn bytes(&self) -> usize {
        let bytes = serde_json::to_vec(&(
            &self.system_prompt,
            &self.allowed_tools,
            &self.custom_tools,
            &self.sub_agents,
        ));
        bytes.map_or(usize::MAX, |json| json.len())
    }
}

/// Instruction for agents that hand over their work, about the end of the context window (S0 design note "Handoff system prompt
/// requirement", decision 35).
///
/// The document has the format of `handoff_document`: `summary`, `remainingWork`, `keyDecisions`.
pub const HANDOFF_INSTRUCTION: &str = "\
# Handing your work over

Your context window is limited. When it is nearly full (you are warned, or you see it yourself), another session with an \
empty context goes on with your work. It has the same objective and the same working directory, and knows nothing else \
but what you leave it. So, as your very last action before the window is full:

1. Bring what you are doing to a state that can be left: save your files; leave no command running.
2. Write the handoff document as your last message, and nothing after it, in exactly this form:

<handoff_document>
{
  \"summary\": \"What was done so far, and how it was checked. 1 to 4000 characters.\",
  \"remainingWork\": \"What is left to do, in order, the next step first. 1 to 4000 characters.\",
  \"keyDecisions\": \"What was decided and why; what was tried and failed; what must not be forgotten.\"
}
</handoff_document>

Be specific: name files, functions, commands and their results instead of describing them. Say what you have not checked. \
Write for a reader who has not seen your conversation. Do not begin new work once you are warned; a document that is cut \
off is lost.";

/// `session_tools` are tool names that the session allows in addition to its template.
pub fn compose(
    template: Option<TemplatePart<'_>>,
    skills: &[SkillPart<'_>],
    session_tools: &[String],
    context_policy: ContextPolicy,
) -> Composition {
    let template = template.unwrap_or_default();
    let custom_tools = unique_by_name(
        template.custom_tools.iter().chain(skills.iter().flat_map(|skill| skill.tools)),
        |tool| tool.name.as_str(),
    );
    let named: Vec<_> = template.allowed_tools.iter().chain(session_tools).map(String::as_str).collect();
    let allowed_tools = if named.is_empty() {
        Vec::new()
    } else {
        let all = named.into_iter().chain(custom_tools.iter().map(|tool| tool.name.as_str()));
        unique_by_name(all.map(str::to_owned).collect::<Vec<_>>().iter(), |name| name.as_str())
    };
    Composition {
        system_prompt: system_prompt(&template, skills, context_policy),
        allowed_tools,
        custom_tools,
        sub_agents: unique_by_name(skills.iter().flat_map(|skill| skill.sub_agents), |agent| {
            agent.name.as_str()
        }),
    }
}

/// Composes as many skills as fit into [`Composition::MAX_BYTES`], in their order, and returns the others. A skill may have grown
/// since it was enabled. The prompt mentions the missing skills.
pub fn compose_within_limit<'a>(
    template: Option<TemplatePart<'_>>,
    skills: &[SkillPart<'a>],
    session_tools: &[String],
    context_policy: ContextPolicy,
) -> (Composition, Vec<SkillPart<'a>>) {
    let all = compose(template, skills, session_tools, context_policy);
    if all.bytes() <= Composition::MAX_BYTES {
        return (all, Vec::new());
    }
    let (mut fitting, mut left_out) = (Vec::new(), Vec::new());
    for skill in skills {
        fitting.push(*skill);
        if compose(template, &fitting, session_tools, context_policy).bytes() > Composition::MAX_BYTES {
            left_out.extend(fitting.pop());
        }
    }
    let mut composition = compose(template, &fitting, session_tools, context_policy);
    for skill in &left_out {
        let note =
            format!("\n\n(The skill {} could not be loaded: the configuration is too large.)", skill.name);
        composition.system_prompt.push_str(&note);
    }
    (composition, left_out)
}

fn system_prompt(
    template: &TemplatePart<'_>,
    skills: &[SkillPart<'_>],
    context_policy: ContextPolicy,
) -> String {
    let texts = [template.brief, template.system_prompt].into_iter().flatten().map(str::trim);
    let mut parts: Vec<String> = texts.filter(|text| !text.is_empty()).map(str::to_owned).collect();
    parts.extend(skills.iter().map(skill_section));
    match context_policy {
        ContextPolicy::Handoff => parts.push(HANDOFF_INSTRUCTION.to_owned()),
        // The agent compacts its context and continues; a handoff instruction would make it stop.
        ContextPolicy::Compact => {}
    }
    parts.join("\n\n")
}

/// A skill's section of the prompt. It contains the skill's id, which the agent needs to record memory pills.
fn skill_section(skill: &SkillPart<'_>) -> String {
    let heading = format!("# Skill: {} (skill id {})", skill.name, skill.id);
    match skill.instructions.trim() {
        "" => heading,
        instructions => format!("{heading}\n\n{instructions}"),
    }
}

fn unique_by_name<'a, T: Clone + 'a>(all: impl Iterator<Item = &'a T>, name: impl Fn(&T) -> &str) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(name(one).to_owned())).cloned().collect()
}

/// Objective of a consolidation session: the "Skill Improvement" prompt with the current instructions and all active pills (S0 8.7
/// `StartSkillConsolidationCommand`).
pub fn consolidation_prompt(skill: &AgentSkill, pills: &[MemoryPill]) -> String {
    let pills: Vec<_> = pills
        .iter()
        .map(|pill| {
            format!(
                "<memory_pill id=\"{}\" category=\"{}\">\n{}\n</memory_pill>",
                pill.id, pill.category, pill.content
            )
        })
        .collect();
    format!(
        "# Skill Improvement\n\n\
         Improve the instructions of the skill \"{name}\" (skill id {id}) by what agents learned while they worked with it. \
         The skill is for: {description}\n\n\
         Its current instructions, version {version}:\n\n<instructions>\n{instructions}\n</instructions>\n\n\
         What agents learned, as memory pills:\n\n{pills}\n\n\
         Write new instructions that hold what the current ones say and what the pills teach. Merge what says the same, \
         resolve what contradicts itself in favour of the newer, leave out what is true only of one task, and keep it as \
         short as it can be understood: at most {max} characters.\n\n\
         Then hand them in with the tool `propose_consolidation`. Without it, use the agent API: POST \
         /api/agent/skills/{id}/consolidation with the JSON body {{\"pillIds\": [the ids of the pills that the new \
         instructions hold or that you found to be covered already], \"updatedInstructions\": \"the whole new \
         instructions\"}}. Leave out pills that you do not trust; their owner \
         decides about them. A later call replaces an earlier one. Nothing is applied before the skill's owner has closed or \
         approved this session, so end by saying in a few sentences what you changed and why.",
        name = skill.name(),
        id = skill.id(),
        description = skill.description(),
        version = skill.version(),
        instructions = skill.instructions(),
        pills = pills.join("\n\n"),
        max = crate::text::SkillInstructions::MAX,
    )
}
