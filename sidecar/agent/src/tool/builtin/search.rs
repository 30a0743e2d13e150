//! Walks the files below a folder, as `find` and `grep` do.

use std::path::PathBuf;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::workspace::{Spot, Workspace};

/// Everything below a folder that no `.gitignore` leaves out, in the order of names, hidden files too, `.git` not.
/// Links are told, not followed.
pub(super) fn walk(workspace: &Workspace, below: &Spot) -> impl Iterator<Item = DirEntry> + use<> {
    let is_repository = workspace.root().ancestors().any(|folder| folder.join(".git").exists());
    let path = below.path();
    let root = path.clone();
    WalkBuilder::new(path)
        .standard_filters(false)
        .git_ignore(true)
        .git_exclude(true)
        .ignore(true)
        .require_git(is_repository)
        .parents(is_repository)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
        .filter_map(Result::ok)
        .filter(move |entry| entry.path() != root)
}

/// What names a glob fits, as a line of a `.gitignore` does: `*.rs` anywhere, `src/*.rs` only there, `**/` for any folders.
pub(super) fn glob(workspace: &Workspace, pattern: &str) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new(workspace.root());
    // What a `.gitignore` would take for a comment or an exception is a name here.
    let escaped = if pattern.starts_with(['!', '#']) { format!("\\{pattern}") } else { pattern.to_owned() };
    builder.add_line(None, &escaped).map_err(|error| format!("`{pattern}` is no glob: {error}"))?;
    builder.build().map_err(|error| format!("`{pattern}` is no glob: {error}"))
}

/// A path as it is shown: from the working directory, or the whole of one that is elsewhere.
pub(super) fn shown(workspace: &Workspace, entry: &DirEntry) -> PathBuf {
    let path = entry.path();
    path.strip_prefix(workspace.root()).unwrap_or(path).to_owned()
}
