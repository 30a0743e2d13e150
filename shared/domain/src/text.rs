//! Bounded strings: each type names its limits once, in characters, and refuses what is outside them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A string that a value object does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidText {
    /// Shorter or longer than allowed, in characters.
    #[error("must have {min} to {max} characters, but has {actual}")]
    Length {
        /// The fewest characters.
        min: usize,
        /// The most characters.
        max: usize,
        /// What was given.
        actual: usize,
    },
    /// A path that is not absolute.
    #[error("must be an absolute path, like /home/me/project")]
    NotAbsolute,
    /// A path with a `..` in it.
    #[error("must not contain `..`")]
    NotNormal,
    /// A control character where none belongs.
    #[error("must not contain control characters")]
    ControlCharacter,
    /// A character outside the set that the field allows.
    #[error("must consist of letters, digits, `-`, `_` and `.`")]
    NotASlug,
}

fn bounded(s: &str, min: usize, max: usize) -> Result<(), InvalidText> {
    let actual = s.chars().count();
    if (min..=max).contains(&actual) { Ok(()) } else { Err(InvalidText::Length { min, max, actual }) }
}

/// What may be empty is not looked at any closer by a document.
const ANYTHING: &str = r"^[^\u0000]*$";

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $min:literal ..= $max:literal, $rule:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The fewest characters.
            pub const MIN: usize = $min;
            /// The most characters.
            pub const MAX: usize = $max;

            /// Takes a string that keeps the limits, after the normalisation that the type names.
            pub fn parse(s: impl Into<String>) -> Result<Self, InvalidText> {
                let s = $rule(s.into())?;
                bounded(&s, Self::MIN, Self::MAX)?;
                Ok(Self(s))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidText;
            fn try_from(s: String) -> Result<Self, InvalidText> {
                Self::parse(s)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "minLength": $min,
                    "maxLength": $max,
                    "pattern": if $min == 0 { ANYTHING } else { texts!(@pattern $rule) },
                })
            }
        }
    )*};
    // What a rule takes, as a document can say it.
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
    // NUL never belongs in text and breaks what stores or prints it; blank text says nothing.
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
    /// The name of a session, trimmed (S0 8.5).
    SessionName: 1..=200, trimmed;
    /// What the agent is to do (S0 8.4).
    Objective: 1..=2000, verbatim;
    /// The absolute path where the agent runs (S0 8.5).
    WorkingDirectory: 1..=4096, absolute_path;
    /// The model that a session uses.
    ModelId: 1..=200, trimmed;
    /// The adapter that drives the agent: `script`, `claude`, …
    AdapterName: 1..=50, slug;
    /// The text of a message of the queue (S0 8.4).
    MessageContent: 1..=4000, verbatim;
    /// An answer to a question of the agent.
    AnswerText: 1..=4000, verbatim;
    /// A person's reason or feedback: why output or a plan was rejected, what a retry should do.
    Feedback: 1..=2000, verbatim;
    /// A decision that the agent logs (S0 8.7, `AgentLogDecisionCommand`).
    DecisionText: 1..=2000, verbatim;
    /// A task of an agent in a line (S0 8.7, `AgentCreateTaskCommand`), trimmed.
    TaskTitle: 1..=200, trimmed;
    /// A task of an agent in full.
    TaskDescription: 1..=4000, verbatim;
    /// A word to find things by, trimmed.
    Tag: 1..=50, trimmed;
    /// Whom or what a learning is about (AG-014), trimmed.
    LearningSubject: 1..=200, trimmed;
    /// What an agent learned; as long as a memory pill (S0 8.4).
    LearningContent: 1..=2000, verbatim;
    /// What a person calls a webhook, trimmed.
    WebhookDescription: 1..=200, trimmed;
    /// A part of a handoff document (S0 8.4).
    HandoffText: 1..=4000, verbatim;
    /// The document of a plan (S0 8.5).
    PlanContent: 1..=10000, verbatim;
    /// The name of a template, trimmed (S0 8.5).
    TemplateName: 1..=100, trimmed;
    /// What a template is for (S0 8.4).
    TemplateDescription: 1..=500, verbatim;
    /// Base instructions that come before those of skills (S0 8.4).
    SystemPrompt: 1..=50000, verbatim;
    /// The name of a field of an event from outside, trimmed (S0 8.5 `ClassificationRule.MatchField`).
    EventField: 1..=63, trimmed;
    /// What an event from outside is found to be, trimmed (S0 8.5 `ClassificationRule.ClassifyAs`).
    Classification: 1..=63, trimmed;
    /// The name of a skill, trimmed (S0 8.5).
    SkillName: 1..=100, trimmed;
    /// What a skill is for (S0 8.4).
    SkillDescription: 1..=500, verbatim;
    /// What a skill tells the agent, or one of its subagents; may be empty (S0 8.4).
    SkillInstructions: 0..=20000, verbatim;
    /// What an agent learned (S0 8.4 `MemoryPill`).
    MemoryPillContent: 1..=2000, verbatim;
    /// The name of a tool, trimmed (S0 8.5).
    ToolName: 1..=100, trimmed;
    /// What a tool or a subagent does (S0 8.5).
    ToolDescription: 1..=500, verbatim;
    /// What an agent calls a subagent by, trimmed (S0 8.5).
    SubAgentName: 1..=100, trimmed;
}

impl Default for SkillInstructions {
    /// None yet.
    fn default() -> Self {
        Self(String::new())
    }
}

impl AdapterName {
    /// The adapter that plays scripts and recordings.
    pub fn script() -> Self {
        Self("script".to_owned())
    }
}

impl ModelId {
    /// Whichever model the adapter takes by itself.
    pub fn of_the_adapter() -> Self {
        Self("default".to_owned())
    }
}

impl HandoffText {
    /// A sentence of the program's own, which keeps the limits.
    pub(crate) fn standing(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl SessionName {
    /// A name from the first line of an objective, cut to 80 characters at a word.
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

/// Cuts `s` to at most `max` characters; an ellipsis stands for what is gone.
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

    #[test]
    fn a_working_directory_is_absolute_and_normal() {
        assert!(WorkingDirectory::parse("/home/me").is_ok());
        assert_eq!(WorkingDirectory::parse("me/project"), Err(InvalidText::NotAbsolute));
        assert_eq!(WorkingDirectory::parse("/home/../etc"), Err(InvalidText::NotNormal));
    }

    #[test]
    fn documents_say_what_is_taken() {
        let schema = schemars::schema_for!(AdapterName);
        assert_eq!(schema.get("maxLength"), Some(&serde_json::json!(50)));
        assert_eq!(schema.get("pattern"), Some(&serde_json::json!("^[A-Za-z0-9._-]+$")));
    }

    #[test]
    fn names_are_trimmed_and_made_from_objectives() {
        assert_eq!(SessionName::parse("  fix it ").unwrap().as_str(), "fix it");
        let long = Objective::parse(format!("{} end", "word ".repeat(50))).unwrap();
        let name = SessionName::from_objective(&long);
        assert!(name.as_str().chars().count() <= 80 && name.as_str().ends_with('…'));
    }
}
