//! Names of tools that the control plane recognises (S0 8.3).

/// The tool that asks the owner questions. Its call is the question.
pub(crate) const ASK_USER_QUESTION: &str = "AskUserQuestion";
/// The tool that proposes options to the owner.
pub(crate) const REQUEST_DECISION: &str = "request_decision";
pub(crate) const ENTER_PLAN_MODE: &str = "EnterPlanMode";
pub(crate) const EXIT_PLAN_MODE: &str = "ExitPlanMode";
/// Prefix of the sidecar's own tools, which need no permission, in agents that include the server in a tool's name.
pub(crate) const OWN_TOOLS: &str = "mcp__pilothouse__";

/// Whether calls need no verdict of the control plane: the tool is the sidecar's own, a question or a plan.
pub(crate) fn is_exempt(tool: &str) -> bool {
    tool.starts_with(OWN_TOOLS) || [ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE].contains(&tool)
}
