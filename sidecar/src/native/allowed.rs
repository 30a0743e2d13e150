//! Reads `allowedTools` for the native agent, which enforces it with its own list of tools.

use pilothouse_domain::escalation::ToolAllowList;

use crate::adapter::AdapterError;

/// Rejects a pattern for a tool other than `bash`, because it would have no effect.
pub(super) fn allow_list(listed: &[String]) -> Result<ToolAllowList, AdapterError> {
    let allowed = ToolAllowList::new(listed);
    match allowed.other_pattern() {
        Some(entry) => Err(AdapterError::Configuration(format!(
            "allowedTools has `{entry}`, and the native agent enforces patterns of `Bash(…)` only; allow the tool as a whole, or \
             leave it out"
        ))),
        None => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unenforceable_pattern_is_refused_with_a_hint() {
        for entry in ["Read(src/**)", "Bash(git", "WebFetch(domain:x)"] {
            let why = allow_list(&[entry.to_owned()]).unwrap_err().to_string();
            assert!(why.contains(entry) && why.contains("Bash("), "{why}");
        }
    }
}
