//! Effects of tool calls (S2, "Supporting Types"; decision 69): what an action does, how bad it can be, and how far it reaches.
//!
//! A tool call has a non-empty set of effects: `sh -c 'rm -rf build && curl …'` executes, deletes and uses the network. A
//! decision about a call takes the strictest verdict over its [`Effects`].

mod confidence;
mod effects;
pub mod pattern;
mod tool_glob;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use confidence::{Confidence, InvalidConfidence};
pub use effects::{EffectLevels, Effects, InvalidEffects};
pub(crate) use tool_glob::glob_matches;
pub use tool_glob::{InvalidToolGlob, ToolGlob};

use crate::names::named;

/// What an action does (S2, `ActionKind`). S2 has `create`, `update`, `delete`, `review` and `deploy`; the others describe calls of
/// tools that change nothing or whose change is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActionKind {
    /// Reads the content of a file or a resource.
    Read,
    /// Lists names, finds files, or reads metadata.
    Search,
    /// Computes a result from known data, such as a static check.
    Analyze,
    /// Creates a file or a resource.
    Create,
    /// Changes a file, a resource or a setting.
    Update,
    /// Removes a file or a resource.
    Delete,
    /// Runs a program whose effect is not known from its arguments.
    Execute,
    /// Exchanges data with another machine.
    Network,
    /// Publishes to others: a package, a release, a service, a shared branch.
    Deploy,
    /// Assesses the work of somebody.
    Review,
}

named!(ActionKind {
    Read => "read",
    Search => "search",
    Analyze => "analyze",
    Create => "create",
    Update => "update",
    Delete => "delete",
    Execute => "execute",
    Network => "network",
    Deploy => "deploy",
    Review => "review",
});

impl ActionKind {
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Search,
        Self::Analyze,
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Execute,
        Self::Network,
        Self::Deploy,
        Self::Review,
    ];
}

/// How bad the worst usual outcome is (S2, `Severity`), in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    Warning,
    Low,
    Medium,
    High,
    Critical,
}

named!(Severity {
    Warning => "warning",
    Low => "low",
    Medium => "medium",
    High => "high",
    Critical => "critical",
});

impl Severity {
    /// In ascending order.
    pub const ALL: [Self; 5] = [Self::Warning, Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The next higher severity; `None` above `critical`.
    pub const fn raised(self) -> Option<Self> {
        match self {
            Self::Warning => Some(Self::Low),
            Self::Low => Some(Self::Medium),
            Self::Medium => Some(Self::High),
            Self::High => Some(Self::Critical),
            Self::Critical => None,
        }
    }
}

/// How much an action can affect (S2, `BlastRadius`), in ascending order. [`BlastRadius::Unknown`] counts as the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BlastRadius {
    /// Changes nothing, and reveals nothing beyond the workspace.
    Trivial,
    /// Single files of the workspace.
    Small,
    /// Much of the workspace, or files of the person outside it.
    Medium,
    /// The machine, or other machines.
    Large,
    /// Cannot be told from the call.
    Unknown,
}

named!(BlastRadius {
    Trivial => "trivial",
    Small => "small",
    Medium => "medium",
    Large => "large",
    Unknown => "unknown",
});

impl BlastRadius {
    /// In ascending order.
    pub const ALL: [Self; 5] = [Self::Trivial, Self::Small, Self::Medium, Self::Large, Self::Unknown];
}

/// One effect of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Effect {
    pub action_kind: ActionKind,
    pub severity: Severity,
    pub blast_radius: BlastRadius,
    /// How sure the classification is.
    pub confidence: Confidence,
}

impl Effect {
    /// The effect of a call that nothing is known about (S2, "Tool risk classification").
    pub const UNCLASSIFIED: Self = Self {
        action_kind: ActionKind::Execute,
        severity: Severity::High,
        blast_radius: BlastRadius::Unknown,
        confidence: Confidence::NONE,
    };

    /// An effect that the classification is sure of.
    pub const fn new(action_kind: ActionKind, severity: Severity, blast_radius: BlastRadius) -> Self {
        Self { action_kind, severity, blast_radius, confidence: Confidence::FULL }
    }

    #[must_use]
    pub const fn with_confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }
}
