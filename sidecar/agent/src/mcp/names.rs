//! Names of tools that models accept.

use std::collections::HashSet;

use crate::tool::MAX_TOOL_NAME;

#[derive(Debug, Default)]
pub(super) struct ToolNames(HashSet<String>);

impl ToolNames {
    /// Builds `mcp__server__tool` from characters that models accept, truncated to their limit. `None` if it is in use.
    pub(super) fn assign(&mut self, server: &str, tool: &str) -> Option<String> {
        let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let whole: String = format!("mcp__{server}__{tool}").chars().map(letter).collect();
        let name: String = whole.chars().take(MAX_TOOL_NAME).collect();
        self.0.insert(name.clone()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::is_tool_name;

    #[test]
    fn tool_names_are_valid_for_models_and_unique() {
        let mut names = ToolNames::default();
        assert_eq!(names.assign("git hub", "issues.list").as_deref(), Some("mcp__git_hub__issues_list"));
        assert_eq!(names.assign("git_hub", "issues/list"), None);
        let long = names.assign("s", &"ü".repeat(100)).unwrap();
        assert!(is_tool_name(&long) && long.len() == 64, "{long}");
    }
}
