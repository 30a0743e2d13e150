//! Tools by adapter.

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Severity};

use super::Rule;
use crate::findings::INERT;
use crate::path::Access;

const fn effect(kind: ActionKind, severity: Severity, radius: BlastRadius, percent: u8) -> Effect {
    Effect { action_kind: kind, severity, blast_radius: radius, confidence: Confidence::percent(percent) }
}

const SEARCHES_WEB: Effect = effect(ActionKind::Network, Severity::Low, BlastRadius::Trivial, 80);
/// Changes the record of the session, and nothing else.
const RECORDS: Effect = effect(ActionKind::Update, Severity::Warning, BlastRadius::Trivial, 95);
/// Adds a version to the artifacts of the agent's workstream.
const REPORTS: Effect = effect(ActionKind::Create, Severity::Low, BlastRadius::Trivial, 95);
/// Reads what the brief of the agent allows.
const READS_KNOWLEDGE: Effect = effect(ActionKind::Read, Severity::Warning, BlastRadius::Trivial, 95);
/// A subagent: its calls are classified one by one.
const DELEGATES: Effect = effect(ActionKind::Execute, Severity::Low, BlastRadius::Trivial, 80);
/// Work for other sessions. Their calls are classified, too.
const CREATES_TASK: Effect = effect(ActionKind::Create, Severity::Low, BlastRadius::Trivial, 85);

/// Tools of Claude Code.
pub(super) const CLAUDE: &[(&str, Rule)] = &[
    ("Bash", Rule::Command),
    ("Read", Rule::Path(Access::Read)),
    ("NotebookRead", Rule::Path(Access::Read)),
    ("Write", Rule::Path(Access::Update)),
    ("Edit", Rule::Path(Access::Update)),
    ("MultiEdit", Rule::Path(Access::Update)),
    ("NotebookEdit", Rule::Path(Access::Update)),
    ("Glob", Rule::List),
    ("LS", Rule::List),
    ("Grep", Rule::Search),
    ("WebSearch", Rule::Fixed(SEARCHES_WEB)),
    ("WebFetch", Rule::Fetch),
    ("TodoWrite", Rule::Fixed(RECORDS)),
    ("TodoRead", Rule::Fixed(INERT)),
    ("Task", Rule::Fixed(DELEGATES)),
    ("Agent", Rule::Fixed(DELEGATES)),
    ("TaskCreate", Rule::Fixed(RECORDS)),
    ("TaskUpdate", Rule::Fixed(RECORDS)),
    ("TaskList", Rule::Fixed(INERT)),
    ("TaskGet", Rule::Fixed(INERT)),
    ("TaskOutput", Rule::Fixed(INERT)),
    ("BashOutput", Rule::Fixed(INERT)),
    ("KillShell", Rule::Fixed(RECORDS)),
    ("KillBash", Rule::Fixed(RECORDS)),
    ("TaskStop", Rule::Fixed(RECORDS)),
    ("AskUserQuestion", Rule::Fixed(INERT)),
    ("EnterPlanMode", Rule::Fixed(INERT)),
    ("ExitPlanMode", Rule::Fixed(INERT)),
];

/// Tools of the native agent, which other agents use under the same names.
pub(super) const NATIVE: &[(&str, Rule)] = &[
    ("bash", Rule::Command),
    ("bash_output", Rule::Fixed(INERT)),
    ("bash_stop", Rule::Fixed(RECORDS)),
    ("read", Rule::Path(Access::Read)),
    ("write", Rule::Path(Access::Update)),
    ("edit", Rule::Path(Access::Update)),
    ("list", Rule::List),
    ("ls", Rule::List),
    ("find", Rule::List),
    ("grep", Rule::Search),
];

/// Tools of Pilothouse for the native agent only.
pub(super) const PLANNING: &[(&str, Rule)] = &[
    ("AskUserQuestion", Rule::Fixed(INERT)),
    ("EnterPlanMode", Rule::Fixed(INERT)),
    ("ExitPlanMode", Rule::Fixed(INERT)),
    ("TodoWrite", Rule::Fixed(RECORDS)),
];

/// Kinds of ACP, for tools that no table names. The kind `other` and unknown kinds stay unclassified.
pub(super) const ACP_KINDS: &[(&str, Rule)] = &[
    ("read", Rule::Locations(Access::Read)),
    ("edit", Rule::Locations(Access::Update)),
    ("move", Rule::Locations(Access::Update)),
    ("delete", Rule::Locations(Access::Delete)),
    ("search", Rule::Search),
    ("execute", Rule::Command),
    ("think", Rule::Fixed(INERT)),
    ("fetch", Rule::Fetch),
    ("switch_mode", Rule::Fixed(INERT)),
];

/// What agents that include the server in the names of tools put before those of Pilothouse.
pub(super) const OWN_PREFIX: &str = "mcp__pilothouse__";

/// Tools that Pilothouse offers to all agents. They act on the session and its records.
pub(super) const OWN_TOOLS: &[(&str, Rule)] = &[
    ("deliverable", Rule::Fixed(RECORDS)),
    ("handoff", Rule::Fixed(RECORDS)),
    ("memory_pill", Rule::Fixed(RECORDS)),
    ("create_task", Rule::Fixed(CREATES_TASK)),
    ("record_learning", Rule::Fixed(RECORDS)),
    ("log_decision", Rule::Fixed(RECORDS)),
    ("propose_consolidation", Rule::Fixed(RECORDS)),
    ("request_decision", Rule::Fixed(INERT)),
    ("submit_output", Rule::Fixed(RECORDS)),
    ("report_artifact", Rule::Fixed(REPORTS)),
    ("read_artifact", Rule::Fixed(READS_KNOWLEDGE)),
    ("search_knowledge", Rule::Fixed(READS_KNOWLEDGE)),
    ("decision_detail", Rule::Fixed(READS_KNOWLEDGE)),
    ("flag_coherence", Rule::Fixed(RECORDS)),
];
