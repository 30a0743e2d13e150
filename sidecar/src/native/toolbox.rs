//! Selects and wraps the native agent's tools.

use std::sync::Arc;

use pilothouse_agent::tool::SharedTool;
use pilothouse_domain::escalation::{BASH, ToolAllowList};

use super::governor::{DriverGovernor, GovernedTool};
use crate::own_tools::PlanMode;
use crate::process::in_process::AgentThread;
use crate::tool_names::{ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE, REQUEST_DECISION};

/// The tools for background commands of `bash`, which are allowed with it.
const BACKGROUND: [&str; 2] = ["bash_output", "bash_stop"];

/// Tools without effects, and the agent's notes. They may run in plan mode.
const HARMLESS: [&str; 11] = [
    "bash_output",
    "read",
    "list",
    "ls",
    "find",
    "grep",
    ASK_USER_QUESTION,
    REQUEST_DECISION,
    ENTER_PLAN_MODE,
    EXIT_PLAN_MODE,
    "TodoWrite",
];

pub(super) struct Toolbox<'a> {
    pub governor: &'a DriverGovernor,
    pub plan_mode: &'a PlanMode,
    /// The thread for tools that access files for the agent.
    pub thread: Option<&'a AgentThread>,
    pub allowed: &'a ToolAllowList,
}

impl Toolbox<'_> {
    /// Wraps the allowed tools of the working directory. They access files on the thread; for commands, their guard
    /// confines.
    pub(super) fn working(&self, tools: Vec<SharedTool>) -> Vec<SharedTool> {
        let runs_commands = |tool: &SharedTool| {
            let name = tool.spec().name.as_str();
            name == BASH || BACKGROUND.contains(&name)
        };
        let allowed = tools
            .into_iter()
            .filter(|tool| self.allowed.has(if runs_commands(tool) { BASH } else { &tool.spec().name }));
        let thread = |tool: &SharedTool| {
            self.thread.filter(|thread| thread.starts_programs() || !runs_commands(tool)).cloned()
        };
        allowed.map(|tool| (thread(&tool), tool)).map(|(thread, tool)| self.govern(tool, thread)).collect()
    }

    /// Wraps Pilothouse's own tools, which are always allowed.
    pub(super) fn own(&self, tools: Vec<SharedTool>) -> Vec<SharedTool> {
        tools.into_iter().map(|tool| self.govern(tool, None)).collect()
    }

    fn govern(&self, tool: SharedTool, thread: Option<AgentThread>) -> SharedTool {
        let name = tool.spec().name.as_str();
        let harmless = HARMLESS.contains(&name);
        let commands = (name == BASH).then(|| self.allowed.commands()).flatten();
        let (governor, plan_mode) = (self.governor.clone(), self.plan_mode.clone());
        Arc::new(GovernedTool { tool, governor, plan_mode, harmless, commands, thread })
    }
}
