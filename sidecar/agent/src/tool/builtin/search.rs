//! Walks the files below a folder, for `find` and `grep`.

use std::path::PathBuf;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::workspace::{DirEntryHandle, Workspace};

/// All entries below a folder that no `.gitignore` excludes, sorted by name. Includes hidden files but not `.git`.
/// Lists links without following them.
pub(super) fn walk(workspace: &Workspace, below: &DirEntryHandle) -> impl Iterator<Item = DirEntry> + use<> {
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

/// Parses a glob with the syntax of `.gitignore` lines: `*.rs` matches in all folders, `src/*.rs` only there, and
/// `**/` matches any folders.
pub(super) fn glob(workspace: &Workspace, pattern: &str) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new(workspace.root());
    // A `.gitignore` would treat these prefixes as a negation or a comment.
    let escaped = if pattern.starts_with(['!', '#']) { format!("\\{pattern}") } else { pattern.to_owned() };
    builder.add_line(None, &escaped).map_err(|error| format!("`{pattern}` is no glob: {error}"))?;
    builder.build().map_err(|error| format!("`{pattern}` is no glob: {error}"))
}

/// Relative to the working directory, or absolute outside of it.
pub(super) fn shown(workspace: &Workspace, entry: &DirEntry) -> PathBuf {
    let path = entry.path();
    path.strip_prefix(workspace.root()).unwrap_or(path).to_owned()
}
