//! Table of known agents, with the properties that an agent does not advertise over the protocol.

use serde_json::Value;

use crate::kit::json::{advertised, text_at};

/// How an agent treats a prompt that arrives during another one. Recorded only: the adapter never steers with a second
/// prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecondPrompt {
    /// Adds it to the current turn. Agents differ in the order of their responses, and may omit one.
    Joins,
    Replaces,
    Refuses,
    /// Not tested.
    Unknown,
}

impl SecondPrompt {
    /// Name in the notice `agent_connected`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Joins => "joins",
            Self::Refuses => "refuses",
            Self::Replaces => "replaces",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    /// Before the first prompt of the conversation. Works with every agent.
    FirstPrompt,
    /// `_meta.systemPrompt.append` of `session/new`, `session/load` and `session/resume`.
    AppendedByMeta,
}

/// What an agent is known to report about its usage, before its first report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metering {
    /// Whether the agent reports the cost of its conversation. `None`: unknown until its first turn has ended.
    pub(super) reports_cost: Option<bool>,
    /// The model whose price is used for estimates if the agent names its model by an alias.
    pub(super) estimated_as: Option<&'static str>,
    /// Tokens of its instructions and tools, for the calls before its first report. Measured with the versions of
    /// `tests/agents` by the scripted model.
    pub(super) instructions: u64,
}

impl Metering {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { reports_cost: None, estimated_as: None, instructions: 0 };
}

#[derive(Debug)]
pub(super) struct Profile {
    /// The name in `adapterOptions.agent`.
    pub(super) name: &'static str,
    pub(super) known_by: &'static [&'static str],
    pub(super) command: &'static [&'static str],
    /// Prefixes of the environment variables that the sidecar passes to the agent.
    pub(super) environment: &'static [&'static str],
    /// Variables that make the agent ask before actions, if it does not ask by default. Variables of the options take
    /// precedence.
    pub(super) asking: &'static [(&'static str, &'static str)],
    pub(super) second_prompt: SecondPrompt,
    pub(super) instructions: Instructions,
    pub(super) metering: Metering,
    /// Whether a resumed conversation works. Some agents advertise resuming, but fail in the resumed conversation.
    pub(super) takes_up: bool,
    /// Whether the agent announces a call for which it requests a permission. The announcement may arrive after the
    /// request.
    pub(super) announces_calls: bool,
    pub(super) asks: Asks,
}

/// The requests that an agent makes to its owner in addition to permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asks {
    /// Whether the agent is known to ask questions. Otherwise the capability is declared after its first question.
    pub(super) questions: bool,
    /// Whether the agent requests approval of its plan before it leaves the mode `plan`.
    pub(super) plans: bool,
}

/// `docs/adapters.md` lists the tested versions.
pub(super) const AGENTS: &[Profile] = &[
    Profile {
        name: "claude-code-acp",
        known_by: &["claude-agent-acp", "claude-code-acp"],
        command: &["claude-agent-acp"],
        environment: &["ANTHROPIC_", "CLAUDE_", "AWS_", "CLOUD_ML_REGION", "GOOGLE_", "DISABLE_"],
        asking: &[],
        // A prompt during a tool call joins the turn; a prompt during a model call starts the next turn.
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::AppendedByMeta,
        metering: Metering {
            reports_cost: Some(true),
            estimated_as: Some("claude-sonnet-4-5"),
            instructions: 23_000,
        },
        takes_up: true,
        announces_calls: true,
        asks: Asks { questions: true, plans: true },
    },
    Profile {
        name: "gemini",
        known_by: &["gemini"],
        command: &["gemini", "--acp"],
        environment: &["GEMINI_", "GOOGLE_"],
        asking: &[],
        second_prompt: SecondPrompt::Replaces,
        instructions: Instructions::FirstPrompt,
        metering: Metering { reports_cost: Some(false), estimated_as: None, instructions: 14_000 },
        // In a loaded conversation, the tool calls have no results, and the model rejects it.
        takes_up: false,
        announces_calls: false,
        asks: Asks { questions: false, plans: false },
    },
    Profile {
        name: "codex",
        known_by: &["codex"],
        command: &["codex-acp"],
        environment: &["OPENAI_", "CODEX_"],
        asking: &[],
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::FirstPrompt,
        metering: Metering { reports_cost: Some(false), estimated_as: None, instructions: 13_000 },
        takes_up: true,
        announces_calls: false,
        asks: Asks { questions: false, plans: false },
    },
    Profile {
        name: "opencode",
        known_by: &["opencode"],
        command: &["opencode", "acp"],
        environment: &["OPENCODE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENROUTER_"],
        asking: &[("OPENCODE_PERMISSION", r#"{"bash":"ask","edit":"ask","webfetch":"ask"}"#)],
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::FirstPrompt,
        metering: Metering { reports_cost: Some(true), estimated_as: None, instructions: 9_500 },
        takes_up: true,
        announces_calls: true,
        asks: Asks { questions: false, plans: false },
    },
    Profile {
        name: "goose",
        known_by: &["goose"],
        command: &["goose", "acp"],
        environment: &["GOOSE_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "OPENROUTER_"],
        asking: &[("GOOSE_MODE", "approve")],
        second_prompt: SecondPrompt::Refuses,
        instructions: Instructions::FirstPrompt,
        metering: Metering { instructions: 6_500, ..Metering::UNKNOWN },
        takes_up: true,
        announces_calls: true,
        asks: Asks { questions: false, plans: false },
    },
    Profile {
        name: "qwen",
        known_by: &["qwen"],
        command: &["qwen", "--acp", "--approval-mode", "default"],
        environment: &["QWEN_", "DASHSCOPE_", "OPENAI_"],
        asking: &[],
        second_prompt: SecondPrompt::Unknown,
        instructions: Instructions::FirstPrompt,
        metering: Metering { reports_cost: Some(false), estimated_as: None, instructions: 20_000 },
        takes_up: true,
        announces_calls: true,
        asks: Asks { questions: true, plans: true },
    },
];

pub(super) const UNKNOWN: &Profile = &Profile {
    name: "unknown",
    known_by: &[],
    command: &[],
    environment: &[],
    asking: &[],
    second_prompt: SecondPrompt::Unknown,
    instructions: Instructions::FirstPrompt,
    metering: Metering::UNKNOWN,
    takes_up: true,
    announces_calls: true,
    asks: Asks { questions: false, plans: true },
};

/// The agent with this name in `adapterOptions.agent`.
pub(super) fn named(name: &str) -> Option<&'static Profile> {
    AGENTS.iter().find(|profile| profile.name == name)
}

/// The agent of a program, or of the name that it reports.
pub(super) fn recognised(name: &str) -> Option<&'static Profile> {
    let name = name.to_ascii_lowercase();
    AGENTS.iter().find(|profile| profile.known_by.iter().any(|known| name.contains(known)))
}

/// How to send a message into the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steering {
    /// `_session/steering`. The response states whether the message was injected or no turn is running.
    Extension,
    /// Not supported: messages wait for the end of the turn.
    AtTurnEnd,
}

/// How to resume a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resumption {
    /// `session/resume`, without repeated updates.
    Resume,
    /// `session/load`, which repeats all updates.
    Load,
    /// Not supported.
    Never,
}

/// Whether an agent reaches MCP servers over these transports.
#[derive(Debug, Clone, Copy)]
pub(super) struct McpTransports {
    pub(super) http: bool,
    /// Server-sent events.
    pub(super) sse: bool,
}

/// What the agent reports in `initialize`.
#[derive(Debug, Clone)]
pub(super) struct Advertised {
    /// Name and version.
    pub(super) agent: String,
    /// The agent's entry in the table.
    pub(super) profile: &'static Profile,
    pub(super) steering: Steering,
    pub(super) resumption: Resumption,
    pub(super) loads: bool,
    /// Whether it accepts images in prompts.
    pub(super) takes_images: bool,
    /// The remote MCP servers that it supports.
    pub(super) mcp: McpTransports,
    /// Ids of its authentication methods.
    pub(super) auth_methods: Vec<String>,
}

impl Advertised {
    /// Reads the response to `initialize`. `configured` is the profile of the command.
    pub(super) fn read(response: &Value, configured: &'static Profile) -> Self {
        let name = text_at(response, &["agentInfo", "name"]).unwrap_or(configured.name);
        let version = text_at(response, &["agentInfo", "version"]).unwrap_or("without version");
        let can = |path: &[&str]| advertised(response.get("agentCapabilities").unwrap_or(&Value::Null), path);
        let steering = if advertised(response, &["_meta", "steering", "supported"]) {
            Steering::Extension
        } else {
            Steering::AtTurnEnd
        };
        let profile = recognised(name).unwrap_or(configured);
        let resumption = match (can(&["sessionCapabilities", "resume"]), can(&["loadSession"])) {
            _ if !profile.takes_up => Resumption::Never,
            (true, _) => Resumption::Resume,
            (false, true) => Resumption::Load,
            (false, false) => Resumption::Never,
        };
        let methods = crate::kit::json::list(response, "authMethods");
        Self {
            agent: format!("{name} {version}"),
            profile,
            steering,
            resumption,
            loads: can(&["loadSession"]),
            takes_images: can(&["promptCapabilities", "image"]),
            mcp: McpTransports {
                http: can(&["mcpCapabilities", "http"]),
                sse: can(&["mcpCapabilities", "sse"]),
            },
            auth_methods: methods
                .iter()
                .filter_map(|m| crate::kit::json::text(m, "id"))
                .map(str::to_owned)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agent_is_recognised_by_its_reported_name() {
        assert_eq!(recognised("@agentclientprotocol/claude-agent-acp").unwrap().name, "claude-code-acp");
        assert_eq!(recognised("/usr/bin/goose").unwrap().name, "goose");
        assert!(recognised("somebody-else").is_none());
        assert!(named("nobody").is_none());
    }

    #[test]
    fn steering_resume_and_images_require_advertised_capabilities() {
        let nothing = Advertised::read(&json!({}), UNKNOWN);
        assert_eq!((nothing.steering, nothing.resumption), (Steering::AtTurnEnd, Resumption::Never));
        assert!(!nothing.mcp.http && !nothing.takes_images);
        let response = json!({
            "agentCapabilities": {"loadSession": true, "promptCapabilities": {"image": true}, "sessionCapabilities": {"resume": {}}, "mcpCapabilities": {"http": true}},
            "_meta": {"steering": {"supported": true}}, "agentInfo": {"name": "goose", "version": "1"}});
        let all = Advertised::read(&response, UNKNOWN);
        assert_eq!((all.steering, all.resumption), (Steering::Extension, Resumption::Resume));
        assert_eq!((all.agent.as_str(), all.profile.name), ("goose 1", "goose"));
        assert!(all.takes_images);
        let loads = Advertised::read(&json!({"agentCapabilities": {"loadSession": true}}), UNKNOWN);
        assert_eq!(loads.resumption, Resumption::Load);
        let gemini =
            Advertised::read(&json!({"agentCapabilities": {"loadSession": true}}), named("gemini").unwrap());
        assert_eq!(gemini.resumption, Resumption::Never, "it cannot work in what it loads");
    }
}
