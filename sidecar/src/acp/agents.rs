//! What is known of each agent, in one table. The protocol leaves it open what a second prompt means, where a system prompt
//! goes, and which variables an agent needs; what it does not leave open is read from what the agent advertises.

use serde_json::Value;

use super::json::{advertised, text_at};

/// What an agent does with a prompt that comes while another one runs. None of it is ever used to steer: it is told, so that
/// nobody has to find it out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecondPrompt {
    /// Takes it into the turn that runs. Which prompt is answered when, and whether both are, is different with each.
    Joins,
    /// Breaks the first off for it.
    Replaces,
    /// Refuses it.
    Refuses,
    /// Not tried.
    Unknown,
}

impl SecondPrompt {
    /// Its name in the notice `agent_connected`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Joins => "joins",
            Self::Refuses => "refuses",
            Self::Replaces => "replaces",
            Self::Unknown => "unknown",
        }
    }
}

/// Where the instructions of template and skills go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    /// Before the words of the conversation's first prompt: what every agent reads.
    FirstPrompt,
    /// `_meta.systemPrompt.append` of `session/new`, `session/load` and `session/resume`.
    AppendedByMeta,
}

/// An agent of the table.
#[derive(Debug)]
pub(super) struct Profile {
    /// The name in `adapterOptions.agent`.
    pub(super) name: &'static str,
    /// Parts of the names by which it calls itself in `initialize`, or of its program's file.
    pub(super) known_by: &'static [&'static str],
    /// Its program and arguments.
    pub(super) command: &'static [&'static str],
    /// Beginnings of the names of variables that it is given from the sidecar's environment.
    pub(super) environment: &'static [&'static str],
    /// Variables that make it ask before it acts, where it would act at once by itself. What is given for it goes above them.
    pub(super) asking: &'static [(&'static str, &'static str)],
    /// What a second prompt does.
    pub(super) second_prompt: SecondPrompt,
    /// Where its instructions go.
    pub(super) instructions: Instructions,
}

/// Every agent that is known by name. `docs/adapters.md` says in which version each was tried.
pub(super) const AGENTS: &[Profile] = &[
    Profile {
        name: "claude-code-acp",
        known_by: &["claude-agent-acp", "claude-code-acp"],
        command: &["claude-agent-acp"],
        environment: &["ANTHROPIC_", "CLAUDE_", "AWS_", "CLOUD_ML_REGION", "GOOGLE_", "DISABLE_"],
        asking: &[],
        // Within a tool; within a call of the model it follows.
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::AppendedByMeta,
    },
    Profile {
        name: "gemini",
        known_by: &["gemini"],
        command: &["gemini", "--acp"],
        environment: &["GEMINI_", "GOOGLE_"],
        asking: &[],
        second_prompt: SecondPrompt::Replaces,
        instructions: Instructions::FirstPrompt,
    },
    Profile {
        name: "codex",
        known_by: &["codex"],
        command: &["codex-acp"],
        environment: &["OPENAI_", "CODEX_"],
        asking: &[],
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::FirstPrompt,
    },
    Profile {
        name: "opencode",
        known_by: &["opencode"],
        command: &["opencode", "acp"],
        environment: &["OPENCODE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENROUTER_"],
        asking: &[("OPENCODE_PERMISSION", r#"{"bash":"ask","edit":"ask","webfetch":"ask"}"#)],
        second_prompt: SecondPrompt::Joins,
        instructions: Instructions::FirstPrompt,
    },
    Profile {
        name: "goose",
        known_by: &["goose"],
        command: &["goose", "acp"],
        environment: &["GOOSE_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "OPENROUTER_"],
        asking: &[("GOOSE_MODE", "approve")],
        second_prompt: SecondPrompt::Refuses,
        instructions: Instructions::FirstPrompt,
    },
];

/// For an agent that is in no table.
pub(super) const UNKNOWN: &Profile = &Profile {
    name: "unknown",
    known_by: &[],
    command: &[],
    environment: &[],
    asking: &[],
    second_prompt: SecondPrompt::Unknown,
    instructions: Instructions::FirstPrompt,
};

/// The agent that `adapterOptions.agent` names.
pub(super) fn named(name: &str) -> Option<&'static Profile> {
    AGENTS.iter().find(|profile| profile.name == name)
}

/// The agent that a program, or what it calls itself, belongs to.
pub(super) fn recognised(name: &str) -> Option<&'static Profile> {
    let name = name.to_ascii_lowercase();
    AGENTS.iter().find(|profile| profile.known_by.iter().any(|known| name.contains(known)))
}

/// How a message gets into the turn that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steering {
    /// `_session/steering`, which several agents share: it answers whether the words were injected, or that no turn runs.
    Extension,
    /// Not at all: it waits for the turn's end.
    AtTurnEnd,
}

/// How a conversation is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakingUp {
    /// `session/resume`: nothing is told again.
    Resume,
    /// `session/load`: everything is told again, and none of it is news.
    Load,
    /// Not at all.
    Never,
}

/// What the agent said of itself in `initialize`.
#[derive(Debug, Clone)]
pub(super) struct Advertised {
    /// Its name, with its version.
    pub(super) agent: String,
    /// What the table says of it.
    pub(super) profile: &'static Profile,
    /// How it is steered.
    pub(super) steering: Steering,
    /// How a conversation of it is taken up.
    pub(super) taking_up: TakingUp,
    /// Whether it speaks to MCP servers over HTTP.
    pub(super) mcp_http: bool,
    /// Whether it speaks to them by server-sent events.
    pub(super) mcp_sse: bool,
    /// Ids of the ways to authenticate.
    pub(super) auth_methods: Vec<String>,
}

impl Advertised {
    /// Reads the answer to `initialize`. `configured` is what the command says of the agent.
    pub(super) fn read(answer: &Value, configured: &'static Profile) -> Self {
        let name = text_at(answer, &["agentInfo", "name"]).unwrap_or(configured.name);
        let version = text_at(answer, &["agentInfo", "version"]).unwrap_or("without version");
        let can = |path: &[&str]| advertised(answer.get("agentCapabilities").unwrap_or(&Value::Null), path);
        let steering = if advertised(answer, &["_meta", "steering", "supported"]) {
            Steering::Extension
        } else {
            Steering::AtTurnEnd
        };
        let taking_up = match (can(&["sessionCapabilities", "resume"]), can(&["loadSession"])) {
            (true, _) => TakingUp::Resume,
            (false, true) => TakingUp::Load,
            (false, false) => TakingUp::Never,
        };
        let methods = super::json::list(answer, "authMethods");
        Self {
            agent: format!("{name} {version}"),
            profile: recognised(name).unwrap_or(configured),
            steering,
            taking_up,
            mcp_http: can(&["mcpCapabilities", "http"]),
            mcp_sse: can(&["mcpCapabilities", "sse"]),
            auth_methods: methods
                .iter()
                .filter_map(|m| super::json::text(m, "id"))
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
    fn an_agent_is_recognised_by_what_it_calls_itself() {
        assert_eq!(recognised("@agentclientprotocol/claude-agent-acp").unwrap().name, "claude-code-acp");
        assert_eq!(recognised("/usr/bin/goose").unwrap().name, "goose");
        assert!(recognised("somebody-else").is_none());
        assert!(named("nobody").is_none());
    }

    #[test]
    fn steering_and_taking_up_are_what_the_agent_advertises_and_nothing_else() {
        let nothing = Advertised::read(&json!({}), UNKNOWN);
        assert_eq!((nothing.steering, nothing.taking_up), (Steering::AtTurnEnd, TakingUp::Never));
        assert!(!nothing.mcp_http);
        let answer = json!({
            "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}}, "mcpCapabilities": {"http": true}},
            "_meta": {"steering": {"supported": true}}, "agentInfo": {"name": "gemini-cli", "version": "1"}});
        let all = Advertised::read(&answer, UNKNOWN);
        assert_eq!((all.steering, all.taking_up), (Steering::Extension, TakingUp::Resume));
        assert_eq!((all.agent.as_str(), all.profile.name), ("gemini-cli 1", "gemini"));
        let loads = Advertised::read(&json!({"agentCapabilities": {"loadSession": true}}), UNKNOWN);
        assert_eq!(loads.taking_up, TakingUp::Load);
    }
}
