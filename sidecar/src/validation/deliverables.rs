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
    let total = status.deliverables().len();
    if total == 0 {
        return Some("there are no deliverables yet; create them".to_owned());
    }
    let open: Vec<_> = status.open().map(|one| one.id.as_str()).collect();
    if open.is_empty() {
        return None;
    }
    let named = open.iter().take(MOST_NAMED).map(|id| cut(id, 100)).collect::<Vec<_>>().join(", ");
    let more = open.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{} of {total} deliverables are pending: {named}{more}", open.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliverables::file::{FILE, FOLDER};

    fn one(n: usize, status: &str) -> String {
        format!(r#"{{"id":"DL-{n:03}","description":"a","acceptanceCriteria":["b"],"status":"{status}"}}"#)
    }

    fn found(deliverables: &[String]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let list = deliverables.join(",");
        let file =
            format!(r#"{{"createdAt":"2026-01-01","updatedAt":"2026-01-02","deliverables":[{list}]}}"#);
        std::fs::write(folder.path().join(FOLDER).join(FILE), file).unwrap();
        incomplete(folder.path())
    }

    #[test]
    fn passed_and_blocked_is_complete() {
        assert_eq!(found(&[one(1, "passed"), one(2, "blocked")]), None);
    }

    #[test]
    fn what_is_pending_is_named() {
        let reason = found(&[one(1, "passed"), one(3, "pending")]).unwrap();
        assert_eq!(reason, "1 of 2 deliverables are pending: DL-003");
        let many: Vec<_> = (1..=12).map(|n| one(n, "pending")).collect();
        assert!(found(&many).unwrap().ends_with("DL-010 and 2 more"));
    }

    #[test]
    fn nothing_and_nonsense_are_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no deliverables yet"));
        assert!(found(&[]).unwrap().contains("no deliverables yet"));
        assert!(found(&["{".to_owned()]).unwrap().contains("broken"));
    }
}
