//! Command line of Claude Code.

use pilothouse_wire::command::AgentSessionConfig;
use serde_json::Value;

use super::conversation::Conversation;
use super::options::{AdapterOptions, PermissionMode};
use super::{prompt, servers};
use crate::kit::delegation::SUBAGENT_TOOLS;

#[derive(Debug)]
pub(super) struct Start<'a> {
    /// MCP configuration of the sidecar's own tools.
    pub own_tools: Value,
    pub config: &'a AgentSessionConfig,
    pub options: &'a AdapterOptions,
    /// The current model, which outlives a process.
    pub model: &'a str,
    pub conversation: &'a Conversation,
}

pub(super) fn of(start: &Start<'_>) -> Vec<String> {
    let Start { own_tools, config, options, model, conversation } = start;
    let mut arguments: Vec<String> = [
        "--print",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-prompt-tool",
        "stdio",
    ]
    .map(str::to_owned)
    .into();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("--model", (*model).to_owned());
    add("--permission-mode", beginning_mode(config, options).name().to_owned());
    add("--append-system-prompt", prompt::system(config, conversation.earlier.as_ref()));
    if conversation.begun {
        add("--resume", conversation.id.clone());
    } else {
        add("--session-id", conversation.id.clone());
    }
    let allowed = allowed_tools(config);
    if !allowed.is_empty() {
        add("--allowedTools", allowed.join(","));
    }
    let mut disallowed: Vec<&str> = options.disallowed_tools.iter().map(String::as_str).collect();
    let policies = &config.policies;
    if policies.delegation_policy.as_ref().is_some_and(|policy| !policy.can_spawn_subagents) {
        // The hooks deny the calls. Without the tools, the agent does not try.
        disallowed.extend(SUBAGENT_TOOLS);
    }
    if !disallowed.is_empty() {
        add("--disallowedTools", disallowed.join(","));
    }
    add("--mcp-config", servers::mcp_config(config, own_tools.clone()).to_string());
    if let Some(agents) = servers::agents(config) {
        add("--agents", agents.to_string());
    }
    let of_brief = policies.session_policy.and_then(|policy| policy.max_turns);
    if let Some(turns) = options.max_turns.into_iter().chain(of_brief).min() {
        add("--max-turns", turns.to_string());
    }
    if let Some(model) = &options.fallback_model {
        add("--fallback-model", model.clone());
    }
    arguments.extend(options.extra_arguments.iter().cloned());
    arguments
}

/// Tools that need no permission: the allowed tools of the configuration, and the tools that the configuration adds.
pub(super) fn allowed_tools(config: &AgentSessionConfig) -> Vec<String> {
    let mut allowed = config.allowed_tools.clone();
    allowed.extend(servers::custom_tool_names(config));
    allowed
}

/// The initial permission mode of a process.
fn beginning_mode(config: &AgentSessionConfig, options: &AdapterOptions) -> PermissionMode {
    if config.options.plan_approval_required && options.start_in_plan_mode {
        PermissionMode::Plan
    } else {
        options.permission_mode
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::project_agent::SessionPolicy;
    use serde_json::json;

    use super::super::tests::config;
    use super::*;
    use crate::kit::claude_stream::Totals;
    use crate::kit::conversation_summary::ConversationSummary;

    #[allow(clippy::needless_pass_by_value)] // reads better at the call
    fn made(begun: bool, options: serde_json::Value) -> Vec<String> {
        made_within(None, begun, &options)
    }

    /// The arguments with the limits of a brief.
    fn made_within(limits: Option<SessionPolicy>, begun: bool, options: &serde_json::Value) -> Vec<String> {
        let mut config = config(json!({}));
        config.allowed_tools = vec!["Read".into(), "Bash(git *)".into()];
        config.policies.session_policy = limits;
        let options = AdapterOptions::read(options).unwrap();
        let conversation = Conversation {
            id: "c".into(),
            begun,
            totals: Totals::new(),
            summary: ConversationSummary::default(),
            earlier: None,
        };
        let own_tools = json!({ "command": "tools" });
        of(&Start { own_tools, config: &config, options: &options, model: "m", conversation: &conversation })
    }

    fn value_of<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    }

    #[test]
    fn new_conversation_gets_an_id_and_an_existing_one_is_resumed() {
        let new = made(false, json!({}));
        assert_eq!((value_of(&new, "--session-id"), value_of(&new, "--resume")), (Some("c"), None));
        let resumed = made(true, json!({}));
        assert_eq!((value_of(&resumed, "--session-id"), value_of(&resumed, "--resume")), (None, Some("c")));
    }

    #[test]
    fn the_configuration_becomes_arguments() {
        let options = json!({ "maxTurns": 7, "fallbackModel": "f", "startInPlanMode": true, "disallowedTools": ["WebFetch"] });
        let arguments = made(false, options);
        for (name, value) in [
            ("--model", "m"),
            ("--permission-prompt-tool", "stdio"),
            ("--permission-mode", "plan"),
            ("--allowedTools", "Read,Bash(git *)"),
            ("--disallowedTools", "WebFetch"),
            ("--max-turns", "7"),
            ("--fallback-model", "f"),
            ("--mcp-config", r#"{"mcpServers":{"pilothouse":{"command":"tools"}}}"#),
        ] {
            assert_eq!(value_of(&arguments, name), Some(value), "{name}");
        }
    }

    #[test]
    fn lower_turn_limit_of_the_options_and_the_brief_applies() {
        let seven = json!({ "maxTurns": 7 });
        for (options, of_brief, expected) in [(&json!({}), 3, "3"), (&seven, 3, "3"), (&seven, 9, "7")] {
            let limits = json!({ "historyPolicy": "full", "maxTurns": of_brief });
            let limits = serde_json::from_value(limits).unwrap();
            let arguments = made_within(Some(limits), false, options);
            assert_eq!(value_of(&arguments, "--max-turns"), Some(expected), "{options}, {of_brief}");
        }
    }
}
