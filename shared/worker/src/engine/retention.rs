//! Removes the directories of finished runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pilothouse_domain::RunId;

use super::config::Retention;
use super::inner::Inner;
use super::run_dir::{NEW_PREFIX, OLD_PREFIX, RunDir};

pub(crate) fn prune_in_background(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = prune(&inner.runs, inner.config.retention) {
            tracing::warn!(%error, "failed to remove old runs");
        }
    });
}

/// Removes finished runs beyond the age and count limits.
pub(crate) fn prune(runs: &Path, retention: Retention) -> io::Result<()> {
    let mut finished: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let Some(run) = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()) else {
            continue;
        };
        let dir = RunDir::of(runs, run);
        if dir.is_finished()
            && let Ok(marker) = dir.finished().metadata()
        {
            finished.push((marker.modified()?, entry.path()));
        }
    }
    finished.sort_unstable_by(|a, b| b.cmp(a)); // the newest first
    let now = SystemTime::now();
    for (index, (at, path)) in finished.into_iter().enumerate() {
        // A clock that was set back expires nothing.
        let age = now.duration_since(at).unwrap_or_default();
        if index >= retention.count || age > retention.age {
            remove(&path);
        }
    }
    Ok(())
}

/// Removes a directory. It is renamed first: without its marker, a partly removed directory would look like a run
/// whose exit was never reported.
fn remove(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let renamed = path.with_file_name(format!("{OLD_PREFIX}{name}"));
    match fs::rename(path, &renamed) {
        Ok(()) => remove_all(&renamed),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {} // another removed it
        Err(error) => tracing::warn!(%error, path = %path.display(), "failed to remove an old run"),
    }
}

/// Removes an obsolete directory. A failure is harmless.
fn remove_all(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(%error, path = %path.display(), "failed to remove the remains of a run");
    }
}

/// Removes directories that a killed worker was creating or removing. Requires the lock of the data folder.
pub(crate) fn remove_temporary_directories(runs: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(NEW_PREFIX) || name.starts_with(OLD_PREFIX) {
            remove_all(&entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    fn run(runs: &Path, finished_ago: Option<Duration>) -> PathBuf {
        let dir = runs.join(Uuid::now_v7().to_string());
        fs::create_dir(&dir).unwrap();
        if let Some(ago) = finished_ago {
            let marker = fs::File::create(dir.join("finished")).unwrap();
            marker.set_modified(SystemTime::now() - ago).unwrap();
        }
        dir
    }

    #[test]
    fn directory_of_a_container_is_kept_until_its_exit_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (runs, engines) = (folder.path().join("runs"), folder.path().join("engines"));
        fs::create_dir(&runs).unwrap();
        fs::create_dir(&engines).unwrap();
        // The agent has made the mark.
        let marked = run(&runs, Some(Duration::from_hours(30)));
        let engine = engines.join(marked.file_name().unwrap());
        fs::write(&engine, "docker").unwrap();
        let none = Retention { age: Duration::ZERO, count: 0 };
        prune(&runs, none).unwrap();
        assert!(marked.exists());
        fs::remove_file(engine).unwrap();
        prune(&runs, none).unwrap();
        assert!(!marked.exists());
    }

    #[test]
    fn only_finished_runs_are_removed_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let hours = |n| Duration::from_hours(n);
        let unfinished = run(folder.path(), None);
        let (new, newer) = (run(folder.path(), Some(hours(2))), run(folder.path(), Some(hours(1))));
        let (surplus, old) = (run(folder.path(), Some(hours(3))), run(folder.path(), Some(hours(30))));
        prune(folder.path(), Retention { age: hours(24), count: 2 }).unwrap();
        assert!(unfinished.exists() && new.exists() && newer.exists());
        assert!(!surplus.exists(), "one more than the count");
        assert!(!old.exists(), "older than the age");
        prune(folder.path(), Retention { age: hours(24), count: 0 }).unwrap();
        assert!(unfinished.exists() && !new.exists() && !newer.exists());
    }

    #[test]
    fn temporary_directories_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".new-x")).unwrap();
        fs::create_dir(folder.path().join(".old-x")).unwrap();
        let kept = run(folder.path(), None);
        remove_temporary_directories(folder.path()).unwrap();
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>(),
            [kept]
        );
    }
}
