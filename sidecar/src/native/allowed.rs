//! The tools that `allowedTools` permits, and the commands that it permits for `bash`.
//!
//! `Bash(git *)` allows the commands that match its pattern. Only a simple command can match, because a shell runs more
//! than the pattern shows if the command joins, nests or redirects commands. What an allowed program starts (`git` has
//! aliases and hooks) is limited by the confinement only.

use crate::adapter::AdapterError;

pub(super) const BASH: &str = "bash";

/// Characters with which a shell runs more than one simple command or writes to files. Refused anywhere in a command,
/// even within quotes.
const NOT_SIMPLE: [char; 12] = [';', '&', '|', '<', '>', '(', ')', '$', '`', '\\', '\n', '\r'];

/// The tools that an agent may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AllowedTools {
    /// Tool names. If both lists are empty, all tools are allowed.
    names: Vec<String>,
    /// Patterns of `bash` commands.
    commands: Vec<String>,
}

impl AllowedTools {
    /// Parses the list of a configuration. Rejects a pattern for a tool other than `bash`, because it would have no
    /// effect.
    pub(super) fn read(listed: &[String]) -> Result<Self, AdapterError> {
        let mut allowed = Self::default();
        for entry in listed {
            let entry = entry.trim();
            match entry.split_once('(') {
                None => allowed.names.push(entry.to_owned()),
                Some((name, pattern)) if name.trim().eq_ignore_ascii_case(BASH) && pattern.ends_with(')') => {
                    allowed.commands.push(pattern[..pattern.len() - 1].trim().to_owned());
                }
                Some((name, _)) => {
                    return Err(AdapterError::Configuration(format!(
                        "allowedTools has `{entry}`, and the native agent enforces patterns of `Bash(…)` only; allow `{}` as a \
                         whole, or leave it out",
                        name.trim()
                    )));
                }
            }
        }
        Ok(allowed)
    }

    /// Ignores case, and accepts the names that other agents use for the tool.
    pub(super) fn has(&self, tool: &str) -> bool {
        let same = |name: &String| {
            name.eq_ignore_ascii_case(tool)
                || synonyms(tool).iter().any(|other| name.eq_ignore_ascii_case(other))
        };
        let everything = self.names.is_empty() && self.commands.is_empty();
        everything || self.names.iter().any(same) || (tool == BASH && !self.commands.is_empty())
    }

    /// The patterns that restrict `bash`. `None`: no restriction.
    pub(super) fn commands(&self) -> Option<AllowedCommands> {
        let any = self.commands.is_empty() || self.names.iter().any(|name| name.eq_ignore_ascii_case(BASH));
        (!any).then(|| AllowedCommands(self.commands.clone()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllowedCommands(Vec<String>);

impl AllowedCommands {
    /// The error is a sentence for the model.
    pub(super) fn check(&self, command: &str) -> Result<(), String> {
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

/// Names of the tool in other agents.
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

    fn read(listed: &[&str]) -> Result<AllowedTools, AdapterError> {
        AllowedTools::read(&listed.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn tool_names_of_other_agents_are_accepted() {
        let allowed = read(&["Read", "Bash", "Glob"]).unwrap();
        assert!(allowed.has("read") && allowed.has("bash") && allowed.has("find"));
        assert!(!allowed.has("write") && !allowed.has("edit") && !allowed.has("ls"));
        assert!(read(&[]).unwrap().has("anything"));
    }

    #[test]
    fn a_pattern_allows_its_commands_and_no_other_tool() {
        let allowed = read(&["Bash(git *)", "Bash(npm run test:*)", "Bash(make)"]).unwrap();
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
        let commands = read(&["Bash(git *)"]).unwrap().commands().unwrap();
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
        assert_eq!(read(&["Bash", "Bash(git *)"]).unwrap().commands(), None);
        assert_eq!(read(&["Read"]).unwrap().commands(), None);
    }

    #[test]
    fn unenforceable_pattern_is_refused_with_a_hint() {
        for entry in ["Read(src/**)", "Bash(git", "WebFetch(domain:x)"] {
            let why = read(&[entry]).unwrap_err().to_string();
            assert!(why.contains(entry) && why.contains("Bash("), "{why}");
        }
    }
}
