//! Whether there are deliverables and each is passed or blocked (S4, ruling 39): read from the status file of the working
//! directory, as it is now.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::DeliverableState;
use serde::Deserialize;

/// Where the deliverables stand, below the working directory.
const STATUS_FILE: &str = ".pilothouse/status.json";
/// The largest status file that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The most deliverables that a reason names.
const MOST_NAMED: usize = 10;

#[derive(Deserialize)]
struct StatusFile {
    deliverables: Vec<Deliverable>,
}

#[derive(Deserialize)]
struct Deliverable {
    id: String,
    status: DeliverableState,
}

/// Why the deliverables of `folder` are not complete; none: they are.
pub(super) fn incomplete(folder: &Path) -> Option<String> {
    let text = match read(&folder.join(STATUS_FILE)) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Some("there are no deliverables yet; create them".to_owned());
        }
        Err(e) => return Some(format!("{STATUS_FILE} cannot be read: {e}")),
    };
    let file: StatusFile = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(e) => return Some(format!("{STATUS_FILE} is not valid: {e}")),
    };
    if file.deliverables.is_empty() {
        return Some("there are no deliverables yet; create them".to_owned());
    }
    let pending: Vec<_> = file
        .deliverables
        .iter()
        .filter(|it| it.status == DeliverableState::Pending)
        .map(|it| it.id.as_str())
        .collect();
    if pending.is_empty() {
        return None;
    }
    let named = pending.iter().take(MOST_NAMED).map(|id| cut(id, 100)).collect::<Vec<_>>().join(", ");
    let more = pending.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let total = file.deliverables.len();
    Some(format!("{} of {total} deliverables are pending: {named}{more}", pending.len()))
}

/// The agent may put anything in this place: links are not followed, and a pipe does not hold the sidecar up.
fn read(path: &Path) -> std::io::Result<String> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(std::io::Error::other(format!("it is larger than {MOST_BYTES} bytes")));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(status: &str) -> (tempfile::TempDir, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".pilothouse")).unwrap();
        std::fs::write(folder.path().join(STATUS_FILE), status).unwrap();
        let found = incomplete(folder.path());
        (folder, found)
    }

    #[test]
    fn passed_and_blocked_is_complete() {
        let status = r#"{"createdAt":"2026-01-01","updatedAt":"2026-01-02","deliverables":[
            {"id":"DL-001","description":"a","acceptanceCriteria":["b"],"status":"passed"},
            {"id":"DL-002","description":"a","acceptanceCriteria":[],"status":"blocked"}]}"#;
        assert_eq!(with(status).1, None);
    }

    #[test]
    fn what_is_pending_is_named() {
        let one = r#"{"id":"DL-003","status":"pending"}"#;
        let found =
            with(&format!(r#"{{"deliverables":[{{"id":"DL-001","status":"passed"}},{one}]}}"#)).1.unwrap();
        assert_eq!(found, "1 of 2 deliverables are pending: DL-003");
        let many = vec![one; 12].join(",");
        assert!(with(&format!(r#"{{"deliverables":[{many}]}}"#)).1.unwrap().ends_with("and 2 more"));
    }

    #[test]
    fn nothing_and_nonsense_are_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("no deliverables yet"));
        assert!(with(r#"{"deliverables":[]}"#).1.unwrap().contains("no deliverables yet"));
        assert!(with("{").1.unwrap().contains("is not valid"));
    }

    #[test]
    fn neither_a_link_nor_a_pipe_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(STATUS_FILE);
        std::fs::create_dir(folder.path().join(".pilothouse")).unwrap();
        let elsewhere = folder.path().join("elsewhere.json");
        std::fs::write(&elsewhere, r#"{"deliverables":[{"id":"a","status":"passed"}]}"#).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("cannot be read"));
        std::fs::remove_file(&place).unwrap();
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(incomplete(folder.path()).unwrap().contains("cannot be read"));
    }
}
