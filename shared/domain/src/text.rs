//! Bounded strings. Each type declares its limits, in characters, and rejects other strings.

mod tags;

use serde::{Deserialize, Serialize};

pub use tags::{InvalidTags, Tags};

use crate::string_value::string_value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidText {
    #[error("must have {min} to {max} characters, but has {actual}")]
    Length { min: usize, max: usize, actual: usize },
    #[error("must be an absolute path, like /home/me/project")]
    NotAbsolute,
    #[error("must not contain `..`")]
    NotNormal,
    #[error("must not contain control characters")]
    ControlCharacter,
    /// A character that the field does not allow.
    #[error("must consist of letters, digits, `-`, `_` and `.`")]
    NotASlug,
}

fn bounded(s: &str, min: usize, max: usize) -> Result<(), InvalidText> {
    let actual = s.chars().count();
    if (min..=max).contains(&actual) { Ok(()) } else { Err(InvalidText::Length { min, max, actual }) }
}

/// Pattern for a string that may be empty.
const ANYTHING: &str = r"^[^\u0000]*$";

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $min:literal ..= $max:literal, $rule:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub const MIN: usize = $min;
            pub const MAX: usize = $max;

            /// Applies the normalisation that the type names and checks the limits.
            pub fn parse(s: impl Into<String>) -> Result<Self, InvalidText> {
                let s = $rule(s.into())?;
                bounded(&s, Self::MIN, Self::MAX)?;
                Ok(Self(s))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        string_value!($name.0, InvalidText, Self::parse, {
            "type": "string",
            "minLength": $min,
            "maxLength": $max,
            "pattern": if $min == 0 { ANYTHING } else { texts!(@pattern $rule) },
        });
    )*};
    // The rules as JSON Schema patterns.
    (@pattern trimmed) => { r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$" };
    (@pattern verbatim) => { r"^[^\u0000]*[^\s\u0000][^\u0000]*$" };
    (@pattern slug) => { r"^[A-Za-z0-9._-]+$" };
    (@pattern absolute_path) => { r"^/[^\u0000-\u001f\u007f-\u009f]*$" };
}

fn trimmed(s: String) -> Result<String, InvalidText> {
    let s = if s.trim().len() == s.len() { s } else { s.trim().to_owned() };
    if s.chars().any(char::is_control) { Err(InvalidText::ControlCharacter) } else { Ok(s) }
}

fn verbatim(s: String) -> Result<String, InvalidText> {
    // NUL breaks programs that store or print text. Blank text counts as empty.
    if s.contains('\0') {
        return Err(InvalidText::ControlCharacter);
    }
    if s.trim().is_empty() { Ok(String::new()) } else { Ok(s) }
}

fn slug(s: String) -> Result<String, InvalidText> {
    if s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        Ok(s)
    } else {
        Err(InvalidText::NotASlug)
    }
}

fn absolute_path(s: String) -> Result<String, InvalidText> {
    if s.is_empty() {
        return Ok(s);
    }
    if !s.starts_with('/') {
        return Err(InvalidText::NotAbsolute);
    }
    if s.chars().any(char::is_control) {
        return Err(InvalidText::ControlCharacter);
    }
    if s.split('/').any(|part| part == "..") {
        return Err(InvalidText::NotNormal);
    }
    Ok(s)
}

texts! {
    /// Name of a session, trimmed (S0 8.5).
    SessionName: 1..=200, trimmed;
    /// Objective of a session's agent (S0 8.4).
    Objective: 1..=2000, verbatim;
    /// Absolute path of the directory where the agent runs (S0 8.5).
    WorkingDirectory: 1..=4096, absolute_path;
    /// Name of a model.
    ModelId: 1..=200, trimmed;
    /// Name of the adapter that drives the agent, like `script` or `claude`.
    AdapterName: 1..=50, slug;
    /// Text of a message to the agent (S0 8.4).
    MessageContent: 1..=4000, verbatim;
    /// Label of a turn, trimmed (S1 9).
    LabelText: 1..=100, trimmed;
    /// Answer to a question of the agent.
    AnswerText: 1..=4000, verbatim;
    /// Reason or feedback of a person: why an output or plan was rejected, or what a retry should do.
    Feedback: 1..=2000, verbatim;
    /// Why an emergency brake was pulled, trimmed (S2).
    BrakeReason: 1..=500, trimmed;
    /// A decision that the agent logs (S0 8.7 `AgentLogDecisionCommand`).
    DecisionText: 1..=2000, verbatim;
    /// Title of a task that an agent creates, trimmed (S0 8.7 `AgentCreateTaskCommand`).
    TaskTitle: 1..=200, trimmed;
    /// Description of a task that an agent creates.
    TaskDescription: 1..=4000, verbatim;
    /// Tag for searching, trimmed.
    Tag: 1..=50, trimmed;
    /// Subject of a learning, trimmed (AG-014).
    LearningSubject: 1..=200, trimmed;
    /// Text of a learning; as long as a memory pill (S0 8.4).
    LearningContent: 1..=2000, verbatim;
    /// Description of a webhook, trimmed.
    WebhookDescription: 1..=200, trimmed;
    /// What an owner calls a device or browser, trimmed.
    DeviceName: 1..=100, trimmed;
    /// One part of a handoff document (S0 8.4).
    HandoffText: 1..=4000, verbatim;
    /// Text of a plan (S0 8.5).
    PlanContent: 1..=10000, verbatim;
    /// Name of a template, trimmed (S0 8.5).
    TemplateName: 1..=100, trimmed;
    /// Purpose of a template (S0 8.4).
    TemplateDescription: 1..=500, verbatim;
    /// Base instructions, placed before those of skills (S0 8.4).
    SystemPrompt: 1..=50000, verbatim;
    /// Name of a field of an external event, trimmed (S0 8.5 `ClassificationRule.MatchField`).
    EventField: 1..=63, trimmed;
    /// Class that a rule gives to an external event, trimmed (S0 8.5 `ClassificationRule.ClassifyAs`).
    Classification: 1..=63, trimmed;
    /// Name of a skill, trimmed (S0 8.5).
    SkillName: 1..=100, trimmed;
    /// Purpose of a skill (S0 8.4).
    SkillDescription: 1..=500, verbatim;
    /// Instructions of a skill or of one of its subagents; may be empty (S0 8.4).
    #[derive(Default)]
    SkillInstructions: 0..=20000, verbatim;
    /// Text of a memory pill (S0 8.4 `MemoryPill`).
    MemoryPillContent: 1..=2000, verbatim;
    /// Name of a tool, trimmed (S0 8.5).
    ToolName: 1..=100, trimmed;
    /// Description of a tool or subagent (S0 8.5).
    ToolDescription: 1..=500, verbatim;
    /// Name by which an agent calls a subagent, trimmed (S0 8.5).
    SubAgentName: 1..=100, trimmed;
    /// Name of a project, trimmed (S2 `ProjectBrief`).
    ProjectName: 1..=200, trimmed;
    /// Purpose and background of a project, for its agents (S2 `ProjectBrief`).
    ProjectDescription: 1..=4000, verbatim;
    /// Goal of a project or a workstream (S2 `ProjectBrief`).
    Goal: 1..=500, verbatim;
    /// State of the work at which a project's people want to look at it (S2 `ProjectBrief`).
    Checkpoint: 1..=500, verbatim;
    /// Rule that agents must follow (S2 `AgentBrief.constraints`).
    BriefConstraint: 1..=500, verbatim;
    /// Id of a workstream, unique in its project: `backend`, `docs` (S2 `AgentBrief.workstream`).
    WorkstreamId: 1..=63, slug;
    /// Name of a workstream, trimmed.
    WorkstreamName: 1..=200, trimmed;
    /// Role of an agent, such as `Code Review Agent`, trimmed (S2 `AgentBrief.role`).
    AgentRole: 1..=200, trimmed;
    /// Task of an agent in its project (S2 `AgentBrief.description`).
    AgentDescription: 1..=2000, verbatim;
    /// Name of a guardrail of a brief, trimmed (S2 `GuardrailSpec.name`).
    GuardrailName: 1..=100, trimmed;
    /// Why a guardrail exists (S2 `GuardrailSpec.description`).
    GuardrailDescription: 1..=500, verbatim;
    /// Name of an artifact, trimmed (S2 `ArtifactEvent.name`).
    ArtifactName: 1..=200, trimmed;
    /// A coherence issue in a line, trimmed (S2 `CoherenceEvent.title`).
    IssueTitle: 1..=200, trimmed;
    /// A coherence issue in sentences (S2 `CoherenceEvent.description`).
    IssueDescription: 1..=4000, verbatim;
    /// Pattern of an argument of a tool call, with `*` and `?`.
    ArgumentPattern: 1..=200, verbatim;
}

impl AdapterName {
    /// The adapter that plays scripts and recordings.
    pub fn script() -> Self {
        Self("script".to_owned())
    }

    /// The adapter that drives Claude Code.
    pub fn claude() -> Self {
        Self("claude".to_owned())
    }

    /// The built-in agent.
    pub fn native() -> Self {
        Self("native".to_owned())
    }
}

impl ModelId {
    /// Selects the adapter's default model.
    pub fn adapter_default() -> Self {
        Self("default".to_owned())
    }
}

impl Feedback {
    /// A fixed text of this program, known to be within the limits.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl HandoffText {
    /// A fixed text of this program, known to be within the limits.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl SessionName {
    /// Name made from the first line of an objective, shortened to 80 characters at a word boundary.
    pub fn from_objective(objective: &Objective) -> Self {
        let line = objective.as_str().lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("session");
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        if line.chars().count() <= 80 {
            return Self(line);
        }
        let cut: String = line.chars().take(79).collect();
        let end = cut.rfind(' ').filter(|at| *at > 40).unwrap_or(cut.len());
        Self(format!("{}…", cut[..end].trim_end()))
    }
}

/// Whether a text is a name of 1 to `max` characters, none of them a control character.
pub(crate) fn is_name(text: &str, max: usize) -> bool {
    !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control)
}

/// Cuts `s` to at most `max` characters, ending in an ellipsis if it was longer.
pub fn cut(s: &str, max: usize) -> String {
    if s.chars().count() <= max {
        return s.to_owned();
    }
    let mut out: String = s.chars().take(max.saturating_sub(1)).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_in_characters() {
        assert!(Objective::parse("ä".repeat(2000)).is_ok());
        assert_eq!(
            Objective::parse("a".repeat(2001)),
            Err(InvalidText::Length { min: 1, max: 2000, actual: 2001 })
        );
        assert!(Objective::parse("").is_err());
        assert!(Objective::parse("  \n").is_err());
    }

    /// From one to `max` characters, which are not all blank.
    fn has_limits<T: TryFrom<String>>(max: usize) {
        let accepts = |text: &str| T::try_from(text.to_owned()).is_ok();
        let name = std::any::type_name::<T>();
        assert!(accepts("ä") && accepts(&"ä".repeat(max)), "{name}");
        assert!(!accepts("") && !accepts("  ") && !accepts(&"ä".repeat(max + 1)), "{name}");
    }

    #[test]
    fn texts_have_the_limits_of_the_specification() {
        has_limits::<SessionName>(200);
        has_limits::<SkillName>(100);
        has_limits::<TemplateName>(100);
        has_limits::<Objective>(2000);
        has_limits::<MessageContent>(4000);
        has_limits::<MemoryPillContent>(2000);
        has_limits::<HandoffText>(4000);
        has_limits::<PlanContent>(10_000);
        has_limits::<SkillDescription>(500);
        has_limits::<ToolName>(100);
        has_limits::<ToolDescription>(500);
        has_limits::<SubAgentName>(100);
    }

    #[test]
    fn working_directory_is_absolute_and_normalised() {
        assert!(WorkingDirectory::parse("/home/me").is_ok());
        assert_eq!(WorkingDirectory::parse("me/project"), Err(InvalidText::NotAbsolute));
        assert_eq!(WorkingDirectory::parse("/home/../etc"), Err(InvalidText::NotNormal));
    }

    #[test]
    fn text_schema_states_length_and_pattern() {
        let schema = schemars::schema_for!(AdapterName);
        assert_eq!(schema.get("maxLength"), Some(&serde_json::json!(50)));
        assert_eq!(schema.get("pattern"), Some(&serde_json::json!("^[A-Za-z0-9._-]+$")));
    }

    #[test]
    fn names_are_trimmed_and_derived_from_objectives() {
        assert_eq!(SessionName::parse("  fix it ").unwrap().as_str(), "fix it");
        assert_eq!(SkillName::parse("  testing ").unwrap().as_str(), "testing");
        assert_eq!(TemplateName::parse("  triage ").unwrap().as_str(), "triage");
        let long = Objective::parse(format!("{} end", "word ".repeat(50))).unwrap();
        let name = SessionName::from_objective(&long);
        assert!(name.as_str().chars().count() <= 80 && name.as_str().ends_with('…'));
    }
}
