//! The format of scenarios.

use std::collections::BTreeMap;

use pilothouse_client::inputs::ResolveDecision;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::routing::{AgentEventType, LifecycleAction};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A project with its plays.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// A sentence about the person and the project.
    pub about: String,
    /// The project, with the fields of the API.
    pub project: Value,
    /// Files of the working directory, with their texts.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The first play is the scenario of S2. Each further play shows a failure.
    pub plays: Vec<Play>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Play {
    pub name: String,
    /// The capability profiles of agents that can perform it.
    pub profiles: Vec<String>,
    pub agents: Vec<Actor>,
    pub steps: Vec<Step>,
    /// The expected events and records at the end.
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actor {
    pub name: String,
    pub objective: String,
    /// The brief without its adapter.
    pub brief: Map<String, Value>,
    /// See `docs/script-format.md`.
    pub script: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// A sentence for people.
    pub title: String,
    /// Empty: all profiles.
    #[serde(default)]
    pub profiles: Vec<String>,
    #[serde(rename = "do")]
    pub act: Act,
}

/// An act of the person, or a wait for a state of the agents. Agents have the names of the play.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    Spawn(String),
    /// Sends an immediate message.
    #[serde(rename_all = "camelCase")]
    Send {
        agent: String,
        text: String,
    },
    /// Waits for the decision about a request (or of a kind, if there is no request), and resolves it.
    #[serde(rename_all = "camelCase")]
    Decide {
        agent: String,
        #[serde(default)]
        request: Option<String>,
        #[serde(default)]
        kind: Option<String>,
        resolution: Box<ResolveDecision>,
    },
    Pause(String),
    Resume(String),
    /// Asks the agent to end.
    Kill(String),
    /// Pulls a brake on the project, and waits until each agent has confirmed.
    Brake {
        reason: String,
    },
    Release {},
    #[serde(rename_all = "camelCase")]
    Mode {
        mode: ControlMode,
        #[serde(default)]
        restart_agents: bool,
    },
    /// Changes fields of the project.
    Project(Value),
    /// Changes fields of a brief.
    Brief {
        agent: String,
        changes: Value,
    },
    /// Approves the newest version of the artifact at a path.
    Approve {
        path: String,
    },
    /// Compares the texts of all artifacts.
    Audit {},
    /// Waits for a coherence issue with these values, by JSON pointer, and confirms it.
    Confirm {
        issue: Map<String, Value>,
    },
    /// Advances the ticks of the project.
    Advance(u64),
    /// Waits until the agent and its session have these values, by JSON pointer.
    Until {
        agent: String,
        #[serde(default)]
        view: Map<String, Value>,
        #[serde(default)]
        session: Map<String, Value>,
    },
    /// Waits until a message of the session contains a text.
    #[serde(rename_all = "camelCase")]
    UntilMessage {
        agent: String,
        contains: String,
        /// The smallest number of such messages.
        #[serde(default = "one")]
        times: usize,
    },
}

const fn one() -> usize {
    1
}

impl Act {
    /// The agent that it concerns.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Self::Spawn(agent)
            | Self::Pause(agent)
            | Self::Resume(agent)
            | Self::Kill(agent)
            | Self::Send { agent, .. }
            | Self::Decide { agent, .. }
            | Self::Brief { agent, .. }
            | Self::Until { agent, .. }
            | Self::UntilMessage { agent, .. } => Some(agent),
            Self::Brake { .. }
            | Self::Release {}
            | Self::Mode { .. }
            | Self::Project(_)
            | Self::Approve { .. }
            | Self::Audit {}
            | Self::Confirm { .. }
            | Self::Advance(_) => None,
        }
    }
}

/// The expected events and records of an agent at the end.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    pub agent: String,
    /// Empty: all profiles.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Types of events in the stream of the project.
    #[serde(default)]
    pub events: Vec<AgentEventType>,
    /// Lifecycle events of the agent, oldest first.
    #[serde(default)]
    pub lifecycle: Vec<LifecycleAction>,
    /// Outcomes that changed the trust, oldest first.
    #[serde(default)]
    pub trust: Vec<String>,
    /// The ended decisions of the agent, as requests or kinds with their resolution or state, oldest first.
    #[serde(default)]
    pub decisions: Vec<(String, String)>,
}
