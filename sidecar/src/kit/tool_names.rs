//! Names of tools that the control plane recognises (S0 8.3).

/// The tool that asks the owner questions. Its call is the question.
pub(crate) const ASK_USER_QUESTION: &str = "AskUserQuestion";
pub(crate) const EXIT_PLAN_MODE: &str = "ExitPlanMode";
/// Prefix of the sidecar's own tools, which need no permission, in agents that include the server in a tool's name.
pub(crate) const OWN_TOOLS: &str = "mcp__pilothouse__";
