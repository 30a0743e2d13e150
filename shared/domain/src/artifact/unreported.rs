//! Files that an agent left in its workspace and did not report as artifacts (decision 96).

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A file of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// Relative to the working directory.
    pub path: String,
    pub size_bytes: u64,
    pub changed_at: Timestamp,
    pub reported: ReportState,
}

/// Whether the agent reported the content of a file as an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportState {
    Never,
    /// It reported another content of the file.
    Earlier,
    Current,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreportedReason {
    NeverReported,
    ChangedSinceReport,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreportedFile {
    pub path: String,
    pub size_bytes: u64,
    pub changed_at: Timestamp,
    pub reason: UnreportedReason,
}

/// The unreported files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreportedFiles {
    /// At most [`Self::MAX_LISTED`], those that changed last first.
    pub files: Vec<UnreportedFile>,
    /// The number of files, including those that are not listed.
    pub total: usize,
    pub total_bytes: u64,
    /// Whether the whole workspace was read. If not, there may be more files.
    pub complete: bool,
}

impl UnreportedFiles {
    pub const MAX_LISTED: usize = 100;
    /// Paths in a summary.
    const MAX_NAMED: usize = 5;

    /// Finds the unreported files among those that changed after the agent began. Files from before that are not the agent's.
    pub fn find(files: impl IntoIterator<Item = WorkspaceFile>, since: Timestamp, complete: bool) -> Self {
        let unreported = files.into_iter().filter(|file| file.changed_at >= since).filter_map(|file| {
            let reason = match file.reported {
                ReportState::Never => UnreportedReason::NeverReported,
                ReportState::Earlier => UnreportedReason::ChangedSinceReport,
                ReportState::Current => return None,
            };
            let WorkspaceFile { path, size_bytes, changed_at, .. } = file;
            Some(UnreportedFile { path, size_bytes, changed_at, reason })
        });
        let mut files: Vec<_> = unreported.collect();
        let total_bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size_bytes));
        let total = files.len();
        files.sort_by(|a, b| (Reverse(a.changed_at), &a.path).cmp(&(Reverse(b.changed_at), &b.path)));
        files.truncate(Self::MAX_LISTED);
        Self { files, total, total_bytes, complete }
    }

    /// The sentence for the owner that withdraws the list before, if this one has no file.
    pub fn withdrawal(&self) -> Option<&'static str> {
        let is_empty = self.complete && self.total == 0;
        is_empty.then_some("All files that the agent changed are saved as artifacts now, or are gone")
    }

    /// A sentence for the owner. `None` if there is no such file.
    pub fn summary(&self) -> Option<String> {
        let named: Vec<_> = self.files.iter().take(Self::MAX_NAMED).map(|file| file.path.as_str()).collect();
        if named.is_empty() {
            return None;
        }
        let least = if self.complete { "" } else { "At least " };
        let (files, are) = if self.total == 1 { ("file", "is") } else { ("files", "are") };
        let more = match self.total.saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let named = named.join(", ");
        Some(format!(
            "{least}{} {files} of the workspace {are} not saved as artifacts: {named}{more}",
            self.total
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, changed_at: i64, reported: ReportState) -> WorkspaceFile {
        let changed_at = Timestamp::from_millis(changed_at);
        WorkspaceFile { path: path.to_owned(), size_bytes: 10, changed_at, reported }
    }

    fn find(files: Vec<WorkspaceFile>) -> UnreportedFiles {
        UnreportedFiles::find(files, Timestamp::from_millis(100), true)
    }

    #[test]
    fn files_that_are_no_artifacts_are_unreported() {
        let given = vec![
            file("new.md", 150, ReportState::Never),
            file("edited.md", 200, ReportState::Earlier),
            file("saved.md", 200, ReportState::Current),
            file("of-the-owner.md", 99, ReportState::Never),
        ];
        let found = find(given);
        let paths: Vec<_> = found.files.iter().map(|it| (it.path.as_str(), it.reason)).collect();
        let expected = [
            ("edited.md", UnreportedReason::ChangedSinceReport),
            ("new.md", UnreportedReason::NeverReported),
        ];
        assert_eq!(paths, expected, "those that changed last first");
        assert_eq!((found.total, found.total_bytes), (2, 20));
        assert_eq!(
            found.summary().as_deref(),
            Some("2 files of the workspace are not saved as artifacts: edited.md, new.md")
        );
    }

    #[test]
    fn workspace_without_unreported_files_has_no_summary() {
        let mut found = find(vec![file("saved.md", 200, ReportState::Current)]);
        assert_eq!((found.summary(), found.withdrawal().is_some()), (None, true));
        found.complete = false;
        assert_eq!(found.withdrawal(), None, "there may be files that were not read");
        assert_eq!(find(vec![file("new.md", 200, ReportState::Never)]).withdrawal(), None);
    }

    #[test]
    fn long_list_is_cut_and_counted() {
        let given = (0..250).map(|n| file(&format!("{n}.md"), 100 + n, ReportState::Never)).collect();
        let mut found = find(given);
        assert_eq!((found.files.len(), found.total, found.total_bytes), (100, 250, 2500));
        assert_eq!(found.files[0].path, "249.md");
        found.complete = false;
        let summary = found.summary().unwrap_or_default();
        assert!(
            summary.starts_with("At least 250 files") && summary.ends_with(", and 245 more"),
            "{summary}"
        );
    }
}
