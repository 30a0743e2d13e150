//! Checks whether there are deliverables and each is passed or blocked (S4, decision 39), from the status file.

use std::path::Path;

use pilothouse_domain::text::cut;

use crate::deliverables::file::StatusFile;
use crate::deliverables::repository::DeliverableStatusReader as _;

const MAX_LISTED: usize = 10;

/// `None` if the deliverables of `folder` are complete.
pub(super) fn incomplete(folder: &Path) -> Option<String> {
    let status = match StatusFile::of(folder).load() {
        Ok(status) => status,
        Err(e) => return Some(e.to_string()),
    };
    if status.deliverables().is_empty() {
        return Some("there are no deliverables yet; create them".to_owned());
    }
    let open: Vec<_> = status.open().map(|one| one.id.as_str()).collect();
    if open.is_empty() {
        return None;
    }
    let named = open.iter().take(MAX_LISTED).map(|id| cut(id, 100)).collect::<Vec<_>>().join(", ");
    let more = open.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let total = status.deliverables().len();
    Some(format!("{} of {total} deliverables are pending: {named}{more}", open.len()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// The result for a folder whose deliverables have these statuses.
    fn with(statuses: &[&str]) -> Option<String> {
        let one = |(n, status): (usize, &&str)| json!({ "id": format!("DL-{n}"), "description": "d", "acceptanceCriteria": ["c"], "status": status });
        let all: Vec<Value> = statuses.iter().enumerate().map(one).collect();
        let file = json!({ "createdAt": "2026-01-01", "updatedAt": "2026-01-02", "deliverables": all });
        written(&file.to_string())
    }

    fn written(text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".pilothouse")).unwrap();
        fs::write(folder.path().join(".pilothouse/status.json"), text).unwrap();
        incomplete(folder.path())
    }

    #[test]
    fn passed_and_blocked_deliverables_are_complete() {
        assert_eq!(with(&["passed", "blocked"]), None);
    }

    #[test]
    fn pending_deliverables_are_named() {
        assert_eq!(with(&["passed", "pending"]).unwrap(), "1 of 2 deliverables are pending: DL-1");
        assert!(with(&["pending"; 12]).unwrap().ends_with("and 2 more"));
    }

    #[test]
    fn empty_and_invalid_lists_are_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no deliverables yet"));
        assert!(with(&[]).unwrap().contains("no deliverables yet"));
        assert!(written("{").unwrap().contains("is broken"));
    }

    #[test]
    fn file_behind_a_link_does_not_count() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".pilothouse")).unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no link"));
    }
}
