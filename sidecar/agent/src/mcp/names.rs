//! Names of tools, as models take them.

use std::collections::HashSet;

use crate::tool::MAX_TOOL_NAME;

/// Names that are given.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// `mcp__server__tool` in letters that models take, cut to a length that they take; none when that name is given already.
    pub(super) fn give(&mut self, server: &str, tool: &str) -> Option<String> {
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
    fn names_are_what_models_take_and_given_once() {
        let mut names = Names::default();
        assert_eq!(names.give("git hub", "issues.list").as_deref(), Some("mcp__git_hub__issues_list"));
        assert_eq!(names.give("git_hub", "issues/list"), None);
        let long = names.give("s", &"ü".repeat(100)).unwrap();
        assert!(is_tool_name(&long) && long.len() == 64, "{long}");
    }
}
