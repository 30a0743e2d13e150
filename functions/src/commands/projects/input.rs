//! Inputs that the creation and the update of a project share.

use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::patch::Patch;
use pilothouse_app::http::Problem;
use pilothouse_classification::known_tools;
use pilothouse_domain::Usd;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::{DecisionTimeoutPolicy, OrphanedDecisionPolicy};
use pilothouse_domain::effect::pattern::{PatternViolation, ToolClassification, ToolClassifications};
use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Severity, ToolGlob};
use pilothouse_domain::escalation::EscalationProtocol;
use pilothouse_domain::project::{ModePolicies, ProjectDefinition, SpendingCap, Workstream};
use pilothouse_domain::text::{Goal, WorkstreamId, WorkstreamName};
use schemars::JsonSchema;

use crate::fields::{cap, percent};

/// A part of the work.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkstreamInput {
    /// The id of the workstream, unique in its project: letters, digits, `-`, `_` and `.`.
    pub id: WorkstreamId,
    /// The name of the workstream.
    pub name: WorkstreamName,
    /// What the workstream is to achieve: at most 20 goals. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub goals: Vec<Goal>,
}

/// The most that the agents of a project may spend together.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpendingCapInput {
    /// The cap, in US dollars.
    #[deserr(try_from(String) = cap -> FieldError)]
    pub usd: Usd,
    /// The percentage of the cap at which the owner is warned: 1 to 99. Default: 80.
    #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
    #[schemars(range(min = 1, max = 99))]
    pub warn_at_percent: Option<u8>,
}

impl SpendingCapInput {
    /// # Errors
    /// [`Problem::Invalid`] when the cap is not positive.
    pub fn checked(self) -> Result<SpendingCap, Problem> {
        SpendingCap::new(self.usd, self.warn_at_percent)
            .map_err(|error| Problem::invalid("spendingCap", error))
    }
}

/// Declares the input of a policy by control mode.
macro_rules! by_mode {
    ($(#[doc = $doc:literal])+ $name:ident, $policy:ty, $field:ident) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default, Deserr, JsonSchema)]
        #[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
        #[schemars(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// That of the mode `orchestrator`.
            #[deserr(default)]
            pub orchestrator: Patch<$policy>,
            /// That of the mode `adaptive`.
            #[deserr(default)]
            pub adaptive: Patch<$policy>,
            /// That of the mode `ecosystem`.
            #[deserr(default)]
            pub ecosystem: Patch<$policy>,
        }

        impl $name {
            /// The policies after the changes.
            pub fn over(&self, before: ModePolicies) -> ModePolicies {
                let mut policies = before;
                for (mode, change) in [
                    (ControlMode::Orchestrator, &self.orchestrator),
                    (ControlMode::Adaptive, &self.adaptive),
                    (ControlMode::Ecosystem, &self.ecosystem),
                ] {
                    if !change.is_keep() {
                        let policy = policies.entry(mode).or_default();
                        policy.$field = change.apply_to(&policy.$field);
                    }
                }
                policies
            }
        }
    };
}

by_mode!(
    /// Which tool calls need a person, by control mode. Omitted modes keep their protocols; `null` restores the default of a mode.
    EscalationInput, EscalationProtocol, escalation
);
by_mode!(
    /// What happens to decisions that are not made in time, by control mode. Omitted modes keep their policies; `null` restores the
    /// default of a mode.
    DecisionTimeoutInput, DecisionTimeoutPolicy, decision_timeout
);
by_mode!(
    /// What happens to open decisions of agents whose sessions end, by control mode. Omitted modes keep their policies; `null` restores
    /// the default of a mode.
    OrphanedDecisionsInput, OrphanedDecisionPolicy, orphaned_decisions
);

/// The effect of the tools whose names match a pattern.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolPatternInput {
    /// The name of the pattern, for entries `pattern:NAME` of protocols: 1 to 100 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The pattern of the names: `*` matches any characters, `?` one.
    pub tool_pattern: ToolGlob,
    /// What the tools do.
    pub action_kind: ActionKind,
    /// How bad the worst usual outcome is.
    pub default_severity: Severity,
    /// How much a call can affect.
    pub default_blast_radius: BlastRadius,
    /// How sure this is, from 0 to 1.
    pub default_confidence: Confidence,
    /// Whether a person who allows a call must give a reason. Default: false.
    #[deserr(default)]
    #[schemars(default)]
    pub requires_rationale: bool,
}

/// The patterns of a project.
///
/// # Errors
/// [`Problem::Invalid`] names every violation.
pub fn tool_patterns(patterns: &[ToolPatternInput]) -> Result<ToolClassifications, Problem> {
    let pattern = |input: &ToolPatternInput| ToolClassification {
        name: input.name.clone(),
        tool_pattern: input.tool_pattern.clone(),
        action_kind: input.action_kind,
        default_severity: input.default_severity,
        default_blast_radius: input.default_blast_radius,
        default_confidence: input.default_confidence,
        requires_rationale: input.requires_rationale,
    };
    ToolClassifications::new(patterns.iter().map(pattern).collect()).map_err(|wrong| {
        let violation = |violation: PatternViolation| Violation {
            field: "toolPatterns".to_owned(),
            message: violation.to_string(),
        };
        Problem::Invalid(wrong.0.into_iter().map(violation).collect())
    })
}

/// Refuses protocols of `definition` with entries that match no tool and no pattern.
///
/// # Errors
/// [`Problem::Invalid`] names every such entry.
pub fn check_protocols(definition: &ProjectDefinition) -> Result<(), Problem> {
    let tools = known_tools();
    let mut found = Vec::new();
    for (mode, policy) in &definition.policies {
        let Some(protocol) = &policy.escalation else { continue };
        let wrong = protocol.check_names(&tools, &definition.tool_patterns).err();
        found.extend(wrong.into_iter().flat_map(|wrong| wrong.0).map(|(path, violation)| Violation {
            field: format!("escalation.{mode}.{path}"),
            message: violation.to_string(),
        }));
    }
    if found.is_empty() { Ok(()) } else { Err(Problem::Invalid(found)) }
}

impl From<WorkstreamInput> for Workstream {
    fn from(WorkstreamInput { id, name, goals }: WorkstreamInput) -> Self {
        Self { id, name, goals }
    }
}
