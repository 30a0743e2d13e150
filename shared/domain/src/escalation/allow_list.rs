//! The tools that `allowedTools` permits, and the commands that it permits for `bash`.
//!
//! `Bash(git *)` allows the commands that match its pattern. Only a simple command can match, because a shell runs more
//! than the pattern shows if the command joins, nests or redirects commands. What an allowed program starts (`git` has
//! aliases and hooks) is limited by the confinement only.

use crate::value::McpToolDefinition;

/// The tool that runs shell commands.
pub const BASH: &str = "bash";

/// Characters with which a shell runs more than one simple command or writes to files. Refused anywhere in a command,
/// even within quotes.
const NOT_SIMPLE: [char; 12] = [';', '&', '|', '<', '>', '(', ')', '$', '`', '\\', '\n', '\r'];

/// Names of the same tool in several agents.
const SYNONYMS: [&[&str]; 4] =
    [&["list", "ls"], &["find", "glob"], &["edit", "multiedit"], &["task", "agent"]];

/// The names that a tool of a kind has in other agents (ACP).
const OF_KIND: [(&str, &[&str]); 5] = [
    ("read", &["read"]),
    ("edit", &["edit", "write"]),
    ("search", &["grep", "find"]),
    ("execute", &[BASH]),
    ("fetch", &["webfetch"]),
];

/// Tools that an agent may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAllowList {
    /// Tool names. If the other list is empty, too, all tools are allowed.
    names: Vec<String>,
    /// Patterns of `bash` commands.
    commands: Vec<String>,
    /// The first entry with a pattern for another tool, or without a `)`.
    other_pattern: Option<String>,
    /// The names of the MCP tools that the agent is configured with.
    mcp_tools: Vec<String>,
}

/// A call as an allow list sees it.
#[derive(Debug, Clone, Copy)]
pub struct ListedCall<'a> {
    /// `None` if the agent did not say which tool it is.
    pub tool: Option<&'a str>,
    /// The kind that an ACP agent reports. An entry can name it.
    pub kind: Option<&'a str>,
    /// The shell command that it runs.
    pub command: Option<&'a str>,
}

/// What an allow list says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    Allowed,
    /// It cannot be told whether the list allows the call.
    Unknown,
    /// The sentence is for the agent.
    NotAllowed(String),
}

impl ToolAllowList {
    /// Most characters of a sentence about a list.
    const MAX_SENTENCE: usize = 2_000;

    /// Reads the list of a configuration. An entry with a pattern for a tool other than `bash` allows the whole tool.
    pub fn new(listed: &[String]) -> Self {
        let mut allowed = Self::default();
        for entry in listed {
            let entry = entry.trim();
            match entry.split_once('(') {
                None => allowed.names.push(entry.to_owned()),
                Some((name, pattern)) => {
                    let is_bash = name.trim().eq_ignore_ascii_case(BASH);
                    let closed = pattern.strip_suffix(')');
                    if !is_bash || closed.is_none() {
                        allowed.other_pattern.get_or_insert_with(|| entry.to_owned());
                    }
                    if is_bash {
                        allowed.commands.push(closed.unwrap_or(pattern).trim().to_owned());
                    } else {
                        allowed.names.push(name.trim().to_owned());
                    }
                }
            }
        }
        allowed
    }

    /// Adds MCP tools to a list that is not empty. Agents call them by their names, or as `mcp__SERVER__NAME`.
    #[must_use]
    pub fn with_mcp_tools(mut self, tools: &[McpToolDefinition]) -> Self {
        self.mcp_tools.extend(tools.iter().map(|tool| tool.name.to_string()));
        self
    }

    pub const fn allows_all(&self) -> bool {
        self.names.is_empty() && self.commands.is_empty()
    }

    /// The first entry with a pattern that is not enforced.
    pub fn other_pattern(&self) -> Option<&str> {
        self.other_pattern.as_deref()
    }

    /// Ignores case, and accepts the names that other agents use for the tool.
    pub fn has(&self, tool: &str) -> bool {
        let synonyms = SYNONYMS.iter().find(|names| names.iter().any(|name| name.eq_ignore_ascii_case(tool)));
        let synonyms = synonyms.copied().unwrap_or_default();
        let same = |name: &String| {
            name.eq_ignore_ascii_case(tool) || synonyms.iter().any(|other| name.eq_ignore_ascii_case(other))
        };
        let runs_commands = tool.eq_ignore_ascii_case(BASH) && !self.commands.is_empty();
        self.allows_all() || runs_commands || self.names.iter().any(same) || self.is_mcp_tool(tool)
    }

    /// Whether the tool is one of a configured MCP server.
    fn is_mcp_tool(&self, tool: &str) -> bool {
        let of_server = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        let name = of_server.map_or(tool, |(_, name)| name);
        self.mcp_tools.iter().any(|known| known == name)
    }

    /// The patterns that restrict `bash`. `None`: no restriction.
    pub fn commands(&self) -> Option<AllowedCommands> {
        let any = self.commands.is_empty() || self.names.iter().any(|name| name.eq_ignore_ascii_case(BASH));
        (!any).then(|| AllowedCommands(self.commands.clone()))
    }

    /// Whether the list allows a call. A call without the name of its tool is judged by its kind.
    pub fn listing(&self, call: ListedCall<'_>) -> Listing {
        if self.allows_all() {
            return Listing::Allowed;
        }
        let of_kind = call.kind.and_then(|kind| OF_KIND.iter().find(|(name, _)| *name == kind));
        let names_kind =
            call.kind.is_some_and(|kind| self.names.iter().any(|it| it.eq_ignore_ascii_case(kind)));
        let has = match (call.tool, call.kind) {
            (None, None) => return Listing::Unknown,
            (Some(tool), _) => names_kind || self.has(tool),
            (None, Some(_)) => {
                names_kind || of_kind.is_some_and(|(_, names)| names.iter().any(|name| self.has(name)))
            }
        };
        if !has {
            return Listing::NotAllowed(self.sentence(call.tool.or(call.kind).unwrap_or_default()));
        }
        let is_bash = call.tool.is_some_and(|tool| tool.eq_ignore_ascii_case(BASH))
            || (call.tool.is_none() && call.kind == Some("execute"));
        match self.commands().filter(|_| is_bash && !names_kind) {
            Some(commands) => match commands.check(call.command.unwrap_or_default()) {
                Ok(()) => Listing::Allowed,
                Err(sentence) => Listing::NotAllowed(sentence),
            },
            None => Listing::Allowed,
        }
    }

    fn sentence(&self, tool: &str) -> String {
        let commands = self.commands.iter().map(|pattern| format!("Bash({pattern})"));
        let names: Vec<_> = self
            .names
            .iter()
            .chain(&self.mcp_tools)
            .cloned()
            .chain(commands)
            .map(|it| format!("`{it}`"))
            .collect();
        let sentence = format!(
            "You may not use the tool `{}`. You may use {}.",
            crate::text::cut(tool, 200),
            names.join(", ")
        );
        crate::text::cut(&sentence, Self::MAX_SENTENCE)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCommands(Vec<String>);

impl AllowedCommands {
    /// The error is a sentence for the model.
    pub fn check(&self, command: &str) -> Result<(), String> {
        let command = command.trim();
        let fits = |pattern: &String| match pattern.strip_suffix(":*") {
            Some(beginning) => {
                command.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            None => matches(pattern, command),
        };
        if !command.contains(NOT_SIMPLE) && self.0.iter().any(fits) {
            return Ok(());
        }
        let patterns: Vec<_> = self.0.iter().map(|pattern| format!("`{pattern}`")).collect();
        Err(format!(
            "This command is not allowed. Allowed are simple commands (no `;`, `&`, `|`, `$`, redirections, or several lines) that \
             match {}.",
            patterns.join(" or ")
        ))
    }
}

/// Whether the whole of `text` matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(listed: &[&str]) -> ToolAllowList {
        ToolAllowList::new(&listed.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    fn named<'a>(tool: &'a str, command: &'a str) -> ListedCall<'a> {
        ListedCall { tool: Some(tool), kind: None, command: Some(command) }
    }

    fn of_kind<'a>(kind: &'a str, command: &'a str) -> ListedCall<'a> {
        ListedCall { tool: None, kind: Some(kind), command: Some(command) }
    }

    #[test]
    fn tool_names_of_other_agents_are_accepted() {
        let allowed = read(&["Read", "Bash", "Glob"]);
        assert!(allowed.has("read") && allowed.has("bash") && allowed.has("find"));
        assert!(!allowed.has("write") && !allowed.has("edit") && !allowed.has("ls"));
        assert!(read(&[]).has("anything"));
    }

    #[test]
    fn a_pattern_allows_its_commands_and_no_other_tool() {
        let allowed = read(&["Bash(git *)", "Bash(npm run test:*)", "Bash(make)"]);
        assert!(allowed.has("bash") && !allowed.has("write"));
        let commands = allowed.commands().unwrap();
        for command in [
            "git status",
            "  git log HEAD~1 ",
            "git commit -m \"a message\"",
            "npm run test",
            "npm run test -- -q",
            "make",
        ] {
            assert_eq!(commands.check(command), Ok(()), "{command}");
        }
        for command in
            ["rm -rf x", "gitk", "xgit status", "npm run tests", "make all", "", "VAR=x git status"]
        {
            assert!(commands.check(command).unwrap_err().contains("`git *`"), "{command}");
        }
    }

    #[test]
    fn compound_command_matches_no_pattern() {
        let commands = read(&["Bash(git *)"]).commands().unwrap();
        for command in [
            "git status; rm x",
            "git status && rm x",
            "git status & rm x",
            "git status | sh",
            "git log $(rm x)",
            "git log `rm x`",
            "git log \"$(rm x)\"",
            "git log > x",
            "git log < x",
            "git log <(rm x)",
            "git status\nrm x",
            "git status\rrm x",
            "git log ${x}",
            "git status \\\nx",
            "(git status)",
        ] {
            assert!(commands.check(command).is_err(), "{command}");
        }
    }

    #[test]
    fn pattern_beside_the_plain_name_restricts_nothing() {
        assert_eq!(read(&["Bash", "Bash(git *)"]).commands(), None);
        assert_eq!(read(&["Read"]).commands(), None);
    }

    #[test]
    fn a_call_that_is_not_listed_is_refused_with_the_list() {
        let allowed = read(&["Read", "Bash(git *)"]);
        for (call, is_allowed) in [
            (named("read", ""), true),
            (named("Bash", "git status"), true),
            (named("Bash", "ls"), false),
            (named("WebFetch", ""), false),
            (named("mcp__any__Read", ""), false),
            (of_kind("read", ""), true),
            (of_kind("execute", "git status"), true),
            (of_kind("execute", "ls"), false),
            (of_kind("edit", ""), false),
            (of_kind("think", ""), false),
        ] {
            let listing = allowed.listing(call);
            assert_eq!(matches!(listing, Listing::Allowed), is_allowed, "{call:?}: {listing:?}");
        }
        let Listing::NotAllowed(why) = allowed.listing(named("WebFetch", "")) else { panic!() };
        assert!(why.contains("`WebFetch`") && why.contains("`Read`, `Bash(git *)`"), "{why}");
        let Listing::NotAllowed(why) = allowed.listing(named("bash", "ls")) else { panic!() };
        assert!(why.contains("`git *`"), "{why}");
    }

    #[test]
    fn a_call_without_tool_and_kind_is_unknown_to_a_list() {
        let call = ListedCall { tool: None, kind: None, command: None };
        assert_eq!(read(&["Read"]).listing(call), Listing::Unknown);
        assert_eq!(read(&[]).listing(call), Listing::Allowed);
    }

    #[test]
    fn entry_can_name_a_kind() {
        let call = ListedCall { tool: Some("run_shell_command"), kind: Some("execute"), command: Some("ls") };
        assert!(matches!(read(&["Read", "Bash"]).listing(call), Listing::NotAllowed(_)));
        assert_eq!(read(&["Execute"]).listing(call), Listing::Allowed);
    }

    #[test]
    fn configured_mcp_tools_are_listed() {
        let tool: McpToolDefinition = serde_json::from_value(serde_json::json!({
            "name": "search_issues", "description": "Searches", "inputSchema": "{}", "serverUri": "https://x.example/mcp"
        }))
        .unwrap();
        let allowed = read(&["Read"]).with_mcp_tools(&[tool]);
        assert!(allowed.has("search_issues") && allowed.has("mcp__tracker__search_issues"));
        assert!(!allowed.has("mcp__tracker__delete_issue") && !allowed.has("mcp__tracker__Read"));
    }

    #[test]
    fn pattern_of_another_tool_is_found() {
        assert_eq!(read(&["Read(src/**)", "Bash(ls)"]).other_pattern(), Some("Read(src/**)"));
        assert_eq!(read(&["Read", "Bash(ls)"]).other_pattern(), None);
        assert!(read(&["Read(src/**)"]).has("Read"));
    }
}
