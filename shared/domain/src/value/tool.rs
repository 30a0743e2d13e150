//! Tools and subagents that templates and skills provide to a session (S0 8.5).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_value::string_value;
use crate::text::{ModelId, SkillInstructions, SubAgentName, ToolDescription, ToolName};

/// Input schema of a tool: a JSON Schema as text (S0 8.5).
///
/// The domain accepts a JSON object or boolean of at most [`InputSchema::MAX`] bytes. The functions validate it against the
/// meta-schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InputSchema(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInputSchema {
    #[error("must be a JSON Schema as text: {0}")]
    NotJson(String),
    /// The JSON is neither an object nor a boolean.
    #[error("must be a JSON Schema as text: a JSON object, or `true` or `false`")]
    NotASchema,
    #[error("must have at most {max} bytes, but has {actual}")]
    TooLarge { max: usize, actual: usize },
}

impl InputSchema {
    pub const MAX: usize = 16 * 1024;

    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidInputSchema> {
        let text = text.into();
        if text.len() > Self::MAX {
            return Err(InvalidInputSchema::TooLarge { max: Self::MAX, actual: text.len() });
        }
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(serde_json::Value::Object(_) | serde_json::Value::Bool(_)) => Ok(Self(text)),
            Ok(_) => Err(InvalidInputSchema::NotASchema),
            Err(e) => Err(InvalidInputSchema::NotJson(e.to_string())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Address of a tool's MCP server: an absolute URI (S0 8.5). The scheme selects the transport: `http`, `https`, `sse`, `stdio` and
/// others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerUri(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServerUri {
    #[error("must have at most {max} characters")]
    TooLong { max: usize },
    /// The scheme, or everything after it, is missing.
    #[error("must be an absolute URI, like https://tools.example.com/mcp")]
    NotAbsolute,
    /// A web address without a host.
    #[error("must name a server, like https://tools.example.com/mcp")]
    NoHost,
    /// A character that must be percent-encoded.
    #[error("must not contain `{0}`; escape it with %")]
    Character(char),
}

impl ServerUri {
    pub const MAX: usize = 2000;

    /// Accepts an absolute URI (RFC 3986).
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidServerUri> {
        let text = text.into();
        if text.chars().count() > Self::MAX {
            return Err(InvalidServerUri::TooLong { max: Self::MAX });
        }
        let (scheme, rest) = text.split_once(':').ok_or(InvalidServerUri::NotAbsolute)?;
        if !is_scheme(scheme) || rest.is_empty() {
            return Err(InvalidServerUri::NotAbsolute);
        }
        if let Some(c) = rest.chars().find(|c| !is_uri_character(*c)) {
            return Err(InvalidServerUri::Character(c));
        }
        if let Some(at) = misplaced_percent(rest) {
            return Err(InvalidServerUri::Character(at));
        }
        let needs_host = ["http", "https", "ws", "wss", "sse"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
        if needs_host && host(rest).is_none() {
            return Err(InvalidServerUri::NoHost);
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }
}

fn is_scheme(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphabetic())
        && s.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn is_uri_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c)
}

/// Finds a `%` that is not followed by two hexadecimal digits.
fn misplaced_percent(rest: &str) -> Option<char> {
    let hex = |s: &str| s.len() >= 2 && s.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    rest.split('%').skip(1).any(|after| !hex(after)).then_some('%')
}

/// The host in `//user@host:port/path`.
fn host(rest: &str) -> Option<&str> {
    let authority = rest.strip_prefix("//")?.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = if host.starts_with('[') { host } else { host.split(':').next()? };
    (!host.is_empty()).then_some(host)
}

string_value!(InputSchema.0, InvalidInputSchema, Self::parse, {
    "type": "string", "maxLength": 16384, "contentMediaType": "application/schema+json"
});
string_value!(ServerUri.0, InvalidServerUri, Self::parse, { "type": "string", "format": "uri", "maxLength": 2000 });

/// A tool of an MCP server (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpToolDefinition {
    /// Name of the tool, unique within its template, skill or subagent.
    pub name: ToolName,
    /// Description for the agent.
    pub description: ToolDescription,
    /// Input schema: a JSON Schema as text.
    pub input_schema: InputSchema,
    /// Address of the MCP server.
    pub server_uri: ServerUri,
}

impl McpToolDefinition {
    pub const MAX_TOOLS: usize = 50;
}

/// A subagent that a skill provides (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillSubAgentDefinition {
    /// Name by which the agent calls the subagent, like `test-runner`. Unique within its skill.
    pub name: SubAgentName,
    /// Purpose of the subagent.
    pub description: ToolDescription,
    pub model_id: ModelId,
    /// Addition to the subagent's system prompt.
    pub instructions: SkillInstructions,
    /// Tools of the subagent; at most [`SkillSubAgentDefinition::MAX_TOOLS`], with unique names.
    #[serde(default)]
    pub tool_definitions: Vec<McpToolDefinition>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDefinitions {
    /// Names that occur more than once.
    #[error("{what} names must be unique; these occur more than once: {}", .names.join(", "))]
    Duplicates {
        /// `tool` or `subagent`.
        what: &'static str,
        names: Vec<String>,
    },
    #[error("there can be at most {max} {what}s, but there are {actual}")]
    TooMany {
        /// `tool` or `subagent`.
        what: &'static str,
        max: usize,
        actual: usize,
    },
}

/// Checks the length of a list and that its names are unique. `what` names the kind of entry in errors.
pub fn check_names<'a>(
    what: &'static str,
    max: usize,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), InvalidDefinitions> {
    let names: Vec<_> = names.collect();
    if names.len() > max {
        return Err(InvalidDefinitions::TooMany { what, max, actual: names.len() });
    }
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> = names.into_iter().filter(|name| !seen.insert(*name)).collect();
    if twice.is_empty() {
        return Ok(());
    }
    Err(InvalidDefinitions::Duplicates { what, names: twice.into_iter().map(str::to_owned).collect() })
}

/// Checks the tools of a template or skill (S0 8.4).
pub fn check_tools(tools: &[McpToolDefinition]) -> Result<(), InvalidDefinitions> {
    check_names("tool", McpToolDefinition::MAX_TOOLS, tools.iter().map(|t| t.name.as_str()))
}

impl SkillSubAgentDefinition {
    /// Most subagents of a skill.
    pub const MAX_SUB_AGENTS: usize = 20;
    pub const MAX_TOOLS: usize = 20;

    /// Checks the subagent's tools.
    pub fn check(&self) -> Result<(), InvalidDefinitions> {
        let names = self.tool_definitions.iter().map(|t| t.name.as_str());
        check_names("tool", Self::MAX_TOOLS, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_schema_must_be_a_valid_json_schema() {
        assert!(InputSchema::parse(r#"{"type":"object"}"#).is_ok());
        assert!(InputSchema::parse("true").is_ok());
        assert_eq!(InputSchema::parse("[]"), Err(InvalidInputSchema::NotASchema));
        assert!(matches!(InputSchema::parse(""), Err(InvalidInputSchema::NotJson(_))));
        assert!(matches!(InputSchema::parse("{"), Err(InvalidInputSchema::NotJson(_))));
        let large = format!(r#"{{"title":"{}"}}"#, "x".repeat(InputSchema::MAX));
        assert!(matches!(InputSchema::parse(large), Err(InvalidInputSchema::TooLarge { .. })));
    }

    #[test]
    fn server_needs_an_absolute_uri() {
        for good in [
            "https://tools.example.com/mcp",
            "http://[::1]:8080/",
            "HTTP://user@localhost:1/?a=b#c",
            "stdio:///usr/bin/server?arg=x%20y",
            "urn:mcp:tools",
        ] {
            assert_eq!(ServerUri::parse(good).map(String::from), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("tools.example.com/mcp", InvalidServerUri::NotAbsolute),
            ("/mcp", InvalidServerUri::NotAbsolute),
            ("", InvalidServerUri::NotAbsolute),
            ("https:", InvalidServerUri::NotAbsolute),
            ("1x:y", InvalidServerUri::NotAbsolute),
            ("https:///mcp", InvalidServerUri::NoHost),
            ("https:tools", InvalidServerUri::NoHost),
            ("https://:80/", InvalidServerUri::NoHost),
            ("https://tools.example.com/a b", InvalidServerUri::Character(' ')),
            ("https://tools.example.com/%4", InvalidServerUri::Character('%')),
            ("https://tools.example.com/<>", InvalidServerUri::Character('<')),
        ] {
            assert_eq!(ServerUri::parse(bad), Err(why), "{bad}");
        }
        assert!(ServerUri::parse(format!("x:{}", "y".repeat(2000))).is_err());
    }

    #[test]
    fn each_duplicate_name_is_reported_once() {
        let names = ["a", "b", "a", "c", "b", "a"];
        assert_eq!(
            check_names("tool", 9, names.into_iter()),
            Err(InvalidDefinitions::Duplicates { what: "tool", names: vec!["a".into(), "b".into()] })
        );
        assert!(check_names("tool", 9, ["a", "A"].into_iter()).is_ok());
        assert!(matches!(
            check_names("tool", 2, ["a", "b", "c"].into_iter()),
            Err(InvalidDefinitions::TooMany { max: 2, actual: 3, .. })
        ));
    }
}
