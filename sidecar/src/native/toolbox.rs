//! The tools of the native agent, and which of them it may use.

use std::sync::Arc;

use pilothouse_agent::tool::SharedTool;

use super::gate::{Coat, Gate};
use crate::own_tools::PlanMode;
use crate::process::in_process::AgentThread;

/// Tools that only look at things, or are the agent's own notes: they may run while it plans.
const HARMLESS: [&str; 9] =
    ["read", "list", "ls", "find", "grep", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TodoWrite"];

/// Tools and where they run.
pub(super) struct Toolbox<'a> {
    pub gate: &'a Gate,
    pub plan_mode: &'a PlanMode,
    /// Where those run that touch files for the agent.
    pub thread: Option<&'a AgentThread>,
    /// Names of those that it may use; empty: all.
    pub allowed: &'a [String],
}

impl Toolbox<'_> {
    /// Puts a coat around tools that work in the working directory, as far as they are allowed.
    pub(super) fn working(&self, tools: Vec<SharedTool>) -> Vec<SharedTool> {
        let allowed = tools.into_iter().filter(|tool| is_allowed(self.allowed, &tool.spec().name));
        allowed.map(|tool| self.coat(tool, self.thread.cloned())).collect()
    }

    /// The same for a tool of Pilothouse itself that touches files of the working directory.
    pub(super) fn apart(&self, tool: SharedTool) -> SharedTool {
        self.coat(tool, self.thread.cloned())
    }

    /// The same for tools of Pilothouse itself, which are always allowed.
    pub(super) fn own(&self, tools: Vec<SharedTool>) -> Vec<SharedTool> {
        tools.into_iter().map(|tool| self.coat(tool, None)).collect()
    }

    fn coat(&self, tool: SharedTool, thread: Option<AgentThread>) -> SharedTool {
        let harmless = HARMLESS.contains(&tool.spec().name.as_str());
        Arc::new(Coat { tool, gate: self.gate.clone(), plan_mode: self.plan_mode.clone(), harmless, thread })
    }
}

/// Whether a tool is among those that are named. Names are compared without case, and with what other agents call the
/// same tool; `Bash(git *)` names `bash`.
fn is_allowed(allowed: &[String], tool: &str) -> bool {
    let same = |name: &String| {
        let name = name.split('(').next().unwrap_or(name).trim();
        name.eq_ignore_ascii_case(tool) || synonyms(tool).iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    allowed.is_empty() || allowed.iter().any(same)
}

/// What other agents call the tool.
fn synonyms(tool: &str) -> &'static [&'static str] {
    match tool {
        "list" | "ls" => &["LS", "List"],
        "find" => &["Glob"],
        "edit" => &["MultiEdit"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_other_agents_too() {
        let allowed = ["Read".to_owned(), "Bash(git *)".to_owned(), "Glob".to_owned()];
        let may = |tool| is_allowed(&allowed, tool);
        assert!(may("read") && may("bash") && may("find"));
        assert!(!may("write") && !may("edit") && !may("ls"));
        assert!(is_allowed(&[], "anything"));
    }
}
