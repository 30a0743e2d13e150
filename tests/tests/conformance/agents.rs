//! The agents under test: their programs, their start with a scripted model, and the name of their shell tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use pilothouse_model_server::{ModelServer, Tokens};
use serde_json::{Value, json};

/// The scripted model accepts any key.
const KEY: &str = "sk-scripted-model";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Native,
    Script,
    Claude,
    ClaudeAcp,
    OpenCode,
    CodexZed,
    Codex,
    Gemini,
    Goose,
    Qwen,
}

impl Agent {
    pub(crate) const ALL: [Self; 10] = [
        Self::Native,
        Self::Script,
        Self::Claude,
        Self::ClaudeAcp,
        Self::OpenCode,
        Self::CodexZed,
        Self::Codex,
        Self::Gemini,
        Self::Goose,
        Self::Qwen,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Script => "script",
            Self::Claude => "claude",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::OpenCode => "opencode",
            Self::CodexZed => "codex-acp (Zed)",
            Self::Codex => "codex-acp",
            Self::Gemini => "gemini",
            Self::Goose => "goose",
            Self::Qwen => "qwen",
        }
    }

    pub(crate) const fn adapter(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Script => "script",
            Self::Claude => "claude",
            _ => "acp",
        }
    }

    /// The script adapter plays without a model.
    pub(crate) const fn has_model(self) -> bool {
        !matches!(self, Self::Script)
    }

    /// Model calls that may begin after the one that reached the cap: none if the agent reports the cost of each call, one if the cost
    /// within a turn is estimated.
    pub(crate) const fn calls_after_cap(self) -> usize {
        match self {
            Self::Native | Self::Script | Self::Claude | Self::Qwen => 0,
            Self::ClaudeAcp | Self::OpenCode | Self::CodexZed | Self::Codex | Self::Gemini | Self::Goose => 1,
        }
    }

    /// In input tokens. Cached tokens cost less if the agent is charged less for them.
    pub(crate) fn cost(self, tokens: Tokens) -> f64 {
        let count = |tokens: u64| u32::try_from(tokens).map_or(f64::MAX, f64::from);
        let (read, write) = match self {
            Self::Native | Self::Claude | Self::ClaudeAcp => (0.1, 1.25),
            _ => (1.0, 1.0),
        };
        count(tokens.input)
            + read * count(tokens.cache_read)
            + write * count(tokens.cache_write)
            + 5.0 * count(tokens.output)
    }

    /// Whether the agent runs in its own process.
    pub(crate) const fn has_process(self) -> bool {
        !matches!(self, Self::Native | Self::Script)
    }

    /// Below `target/agents`, where `tests/agents` installs it; `None` for agents inside the sidecar.
    fn path(self) -> Option<&'static str> {
        Some(match self {
            Self::Native | Self::Script => return None,
            Self::Claude => "node_modules/.bin/claude",
            Self::ClaudeAcp => "node_modules/.bin/claude-agent-acp",
            Self::OpenCode => "opencode/opencode",
            Self::CodexZed => "codex-zed/node_modules/.bin/codex-acp",
            Self::Codex => "codex/node_modules/.bin/codex-acp",
            Self::Gemini => "gemini/node_modules/.bin/gemini",
            Self::Goose => "goose/node_modules/.bin/goose",
            Self::Qwen => "qwen/node_modules/.bin/qwen",
        })
    }

    /// `None` if the program is not installed.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents");
        let program = folder.join(self.path()?);
        program.exists().then_some(program)
    }

    pub(crate) fn is_installed(self) -> bool {
        self.path().is_none() || self.program().is_some()
    }

    /// Of the agent's package, or of Pilothouse for agents inside the sidecar.
    pub(crate) fn version(self) -> String {
        let Some(program) = self.program() else { return env!("CARGO_PKG_VERSION").to_owned() };
        let real = program.canonicalize().unwrap_or(program);
        let package = real.ancestors().skip(1).find_map(|folder| {
            let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
            let package: Value = serde_json::from_str(&text).ok()?;
            package["version"].as_str().map(str::to_owned)
        });
        package.unwrap_or_else(|| {
            let said =
                Command::new(&real).arg("--version").output().map(|said| said.stdout).unwrap_or_default();
            String::from_utf8_lossy(&said).trim().to_owned()
        })
    }

    /// The tool that runs a command, and its input.
    pub(crate) fn shell(self, command: &str) -> (&'static str, Value) {
        match self {
            Self::Native | Self::Script => ("bash", json!({ "command": command })),
            Self::OpenCode => ("bash", json!({ "command": command, "description": "Run a command" })),
            Self::Claude | Self::ClaudeAcp => {
                ("Bash", json!({ "command": command, "description": "Run a command" }))
            }
            Self::CodexZed => ("exec_command", json!({ "cmd": command, "yield_time_ms": 30_000 })),
            Self::Codex => (
                "exec_command",
                json!({ "cmd": command, "yield_time_ms": 30_000, "sandbox_permissions": "require_escalated",
                    "justification": "Run a command?" }),
            ),
            Self::Gemini => {
                ("run_shell_command", json!({ "command": command, "description": "Run a command" }))
            }
            Self::Qwen => (
                "run_shell_command",
                json!({ "command": command, "description": "Run a command", "is_background": false }),
            ),
            Self::Goose => ("shell", json!({ "command": command })),
        }
    }

    /// The tool and its input; `None` if the agent has no such tool.
    pub(crate) fn question(self) -> Option<(&'static str, Value)> {
        let option = |label: &str| json!({ "label": label, "description": "A colour" });
        let question = json!({ "question": "Which colour?", "header": "Colour", "id": "colour",
            "options": [option("Indigo"), option("Scarlet")], "multiSelect": false });
        let mut input = json!({ "questions": [question] });
        let mut remove = |field: &str| input["questions"][0].as_object_mut().map(|it| it.remove(field));
        match self {
            Self::CodexZed | Self::Codex => {
                remove("multiSelect");
                Some(("request_user_input", input))
            }
            Self::Native | Self::Claude | Self::ClaudeAcp => {
                remove("id");
                Some(("AskUserQuestion", input))
            }
            Self::Qwen => {
                remove("id");
                Some(("ask_user_question", input))
            }
            Self::Script | Self::OpenCode | Self::Gemini | Self::Goose => None,
        }
    }

    /// The tool and its input; `None` if the agent has no such tool.
    pub(crate) fn plan(self, plan: &str) -> Option<(&'static str, Value)> {
        match self {
            Self::Native | Self::Claude | Self::ClaudeAcp => Some(("ExitPlanMode", json!({ "plan": plan }))),
            Self::Qwen => Some(("exit_plan_mode", json!({ "plan": plan }))),
            _ => None,
        }
    }

    /// `None` if the agent can plan in every session.
    pub(crate) fn planning(self) -> Option<Value> {
        match self {
            Self::ClaudeAcp | Self::Qwen => Some(json!({ "mode": "plan" })),
            Self::Claude => Some(json!({ "startInPlanMode": true })),
            _ => None,
        }
    }

    /// The tool and its input; `None` if the agent has no such tool.
    pub(crate) fn subagent(self, words: &str) -> Option<(&'static str, Value)> {
        let input =
            |kind: &str| json!({ "description": "Look around", "prompt": words, "subagent_type": kind });
        match self {
            Self::Claude | Self::ClaudeAcp => Some(("Agent", input("general-purpose"))),
            Self::OpenCode => Some(("task", input("general"))),
            Self::Qwen => Some(("agent", input("general-purpose"))),
            Self::Gemini => Some(("invoke_agent", json!({ "agent_name": "generalist", "prompt": words }))),
            Self::Goose => Some(("delegate", json!({ "instructions": words }))),
            // Current versions of Codex offer subagents only to models with certain names, unlike the scripted model's.
            Self::CodexZed | Self::Codex | Self::Native | Self::Script => None,
        }
    }

    /// A tool in requests of the conversation, but not in the agent's side requests.
    pub(crate) fn offers(self) -> &'static str {
        match self {
            Self::Qwen => "ask_user_question",
            Self::CodexZed | Self::Codex => "request_user_input",
            _ => self.shell("").0,
        }
    }

    /// The mode in which the agent asks for permissions, if it starts in another.
    const fn mode(self) -> Option<&'static str> {
        match self {
            Self::Codex => Some("workspace-write"),
            Self::Qwen => Some("default"),
            _ => None,
        }
    }

    /// Environment variables of the server for settings of the sidecar.
    pub(crate) fn server_environment(self, model: Option<&ModelServer>) -> Vec<(&'static str, String)> {
        match (self, model) {
            (Self::Native, Some(model)) => {
                vec![("ANTHROPIC_BASE_URL", model.base_url()), ("ANTHROPIC_API_KEY", KEY.to_owned())]
            }
            _ => Vec::new(),
        }
    }

    /// `home` is an empty folder for the state of the agent.
    pub(crate) fn options(self, model: Option<&ModelServer>, home: &Path) -> Value {
        let (Some(model), Some(program)) = (model, self.program()) else { return json!({}) };
        let base = model.base_url();
        let anthropic = json!({
            "HOME": home, "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        });
        // An unreachable proxy prevents the agents' checks for updates.
        let mut environment = json!({
            "HOME": home, "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
        });
        let mut add = |name: &str, value: Value| environment[name] = value;
        let (agent, arguments) = match self {
            Self::Native | Self::Script => return json!({}),
            Self::Claude => return json!({ "binary": program, "environment": anthropic }),
            Self::ClaudeAcp => {
                return json!({ "agent": "claude-code-acp", "command": program, "env": anthropic });
            }
            Self::OpenCode => {
                let of_name = |name: &str| {
                    json!({ "name": name, "tool_call": true,
                    "cost": { "input": 3, "output": 15 }, "limit": { "context": 200_000, "output": 8000 } })
                };
                let models = json!({ "small": of_name("Small"), "other": of_name("Other") });
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
                    "options": { "baseURL": model.openai_base_url(), "apiKey": KEY }, "models": models });
                let config = json!({ "provider": { "scripted": provider }, "model": "scripted/small",
                    "small_model": "scripted/small", "autoupdate": false, "share": "disabled" });
                add("OPENCODE_CONFIG_CONTENT", json!(config.to_string()));
                for name in ["MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD"] {
                    add(&format!("OPENCODE_DISABLE_{name}"), json!("1"));
                }
                add("OPENCODE_PURE", json!("1"));
                ("opencode", json!(["acp"]))
            }
            Self::CodexZed | Self::Codex => {
                // The older version asks before every unknown command, the newer one before a command leaves the sandbox.
                let (approval, sandbox) = match self {
                    Self::CodexZed => ("untrusted", "danger-full-access"),
                    _ => ("on-request", "workspace-write"),
                };
                codex_configuration(home, &model.openai_base_url(), approval, sandbox);
                add("CODEX_HOME", json!(home));
                add("SCRIPTED_KEY", json!(KEY));
                ("codex", json!([]))
            }
            Self::Gemini => {
                add("GEMINI_API_KEY", json!(KEY));
                add("GOOGLE_GEMINI_BASE_URL", json!(base));
                add("GEMINI_CLI_TRUST_WORKSPACE", json!("true"));
                add("GEMINI_MODEL", json!("gemini-2.5-pro"));
                ("gemini", json!(["--acp"]))
            }
            Self::Goose => {
                for (name, value) in [
                    ("GOOSE_PROVIDER", "openai"),
                    ("GOOSE_MODEL", "gpt-4o"),
                    ("OPENAI_HOST", &*base),
                    ("OPENAI_BASE_PATH", "v1/chat/completions"),
                    ("OPENAI_API_KEY", KEY),
                    ("GOOSE_DISABLE_KEYRING", "1"),
                    ("GOOSE_MODE", "approve"),
                ] {
                    add(name, json!(value));
                }
                ("goose", json!(["acp", "--with-builtin", "developer"]))
            }
            Self::Qwen => {
                for (name, value) in [
                    ("OPENAI_API_KEY", KEY),
                    ("OPENAI_BASE_URL", &*model.openai_base_url()),
                    ("OPENAI_MODEL", "scripted"),
                ] {
                    add(name, json!(value));
                }
                ("", json!(["--acp", "--auth-type", "openai"]))
            }
        };
        let mut options = json!({ "command": program, "args": arguments, "env": environment });
        if !agent.is_empty() {
            options["agent"] = json!(agent);
        }
        if let Some(mode) = self.mode() {
            options["mode"] = json!(mode);
        }
        options
    }
}

/// The prices of models without an entry in the price table.
pub(crate) fn prices() -> Value {
    let model = |id: &str| {
        json!({ "id": id, "contextWindow": 200_000, "maxOutputTokens": 8000, "thinking": false,
        "price": { "input": "3", "output": "15", "cacheRead": "0.3", "cacheWrite": "3.75" } })
    };
    let models = ["gemini-2.5-pro", "scripted", "gpt-4o"].map(model);
    json!({ "providers": [{ "name": "scripted", "api": "openai-chat", "baseUrl": "http://127.0.0.1:9/v1/",
        "apiKeyEnv": "NO_SUCH_KEY", "models": models }] })
}

fn codex_configuration(home: &Path, base: &str, approval: &str, sandbox: &str) {
    let config = format!(
        "model = \"gpt-5\"\nmodel_provider = \"scripted\"\napproval_policy = \"{approval}\"\nsandbox_mode = \"{sandbox}\"\n\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{base}\"\nenv_key = \"SCRIPTED_KEY\"\nwire_api = \"responses\"\n"
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
}
