//! Whether there are deliverables and each is passed or blocked (S4, ruling 39): read from the status file of the working
//! directory, as it is now.

use std::path::Path;

use pilothouse_domain::text::cut;

use crate::deliverables::file::StatusFile;
use crate::deliverables::repository::DeliverableStatusReader as _;

/// The most deliverables that a reason names.
const MOST_NAMED: usize = 10;

/// Why the deliverables of `folder` are not complete; none: they are.
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
    let named = open.iter().take(MOST_NAMED).map(|id| cut(id, 100)).collect::<Vec<_>>().join(", ");
    let more = open.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let total = status.deliverables().len();
    Some(format!("{} of {total} deliverables are pending: {named}{more}", open.len()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// A folder whose deliverables have these statuses, and what is found.
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
    fn passed_and_blocked_is_complete() {
        assert_eq!(with(&["passed", "blocked"]), None);
    }

    #[test]
    fn what_is_pending_is_named() {
        assert_eq!(with(&["passed", "pending"]).unwrap(), "1 of 2 deliverables are pending: DL-1");
        assert!(with(&["pending"; 12]).unwrap().ends_with("and 2 more"));
    }

    #[test]
    fn nothing_and_nonsense_are_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no deliverables yet"));
        assert!(with(&[]).unwrap().contains("no deliverables yet"));
        assert!(written("{").unwrap().contains("is broken"));
    }

    #[test]
    fn what_stands_behind_a_link_does_not_count() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".pilothouse")).unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no link"));
    }
}
