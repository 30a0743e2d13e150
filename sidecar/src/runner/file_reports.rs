//! Stores files that the agent writes as artifacts, if its brief asks for it (S2 "Artifact extraction and sandbox teardown"; decision 84).
//!
//! A file is stored when the call that wrote it has succeeded, and before its result is published. So a pause, a stop or a crash after the
//! result loses no content.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_agent::message::UserContent;
use pilothouse_agent::tool::{SharedTool, ToolContext, ToolOutput};
use pilothouse_classification::{Adapter, ToolCall, written_files};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactPath};
use pilothouse_domain::project_agent::ArtifactFiles;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::kit::notices::notice;

/// Name of the notice about a file that was not stored.
const NOT_STORED: &str = "artifact_not_stored";
/// The agent waits this long for the files of a call, so that a stop that waits for it keeps its limit (decision 12). A file without a
/// response by then is listed as unreported at the end of the run.
const LIMIT: Duration = Duration::from_secs(20);
/// Calls whose results are awaited. Those of later calls are not stored.
const MAX_CALLS: usize = 1000;

/// The files of the brief, and the calls that write them.
pub(super) struct FileReports {
    adapter: Adapter,
    /// As the agent names it, and without links.
    roots: Vec<PathBuf>,
    /// `None` outside of a project.
    report: Option<SharedTool>,
    state: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    files: Vec<ArtifactFiles>,
    open: HashMap<ToolCallId, Vec<(ArtifactPath, ArtifactKind)>>,
}

impl FileReports {
    /// `report` is the tool `report_artifact`.
    pub(super) fn new(adapter: &str, root: &Path, report: Option<SharedTool>) -> Self {
        let roots = [Some(root.to_owned()), root.canonicalize().ok()].into_iter().flatten().collect();
        Self { adapter: Adapter::named(adapter), roots, report, state: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self::new("script", Path::new("/"), None)
    }

    fn state(&self) -> MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn configure(&self, files: &[ArtifactFiles]) {
        if self.report.is_some() {
            files.clone_into(&mut self.state().files);
        }
    }

    /// Notes which files of the brief a call writes.
    pub(super) fn called(&self, content: &AssistantContent) {
        let AssistantContent::ToolUse { tool_call_id, tool_name, input } = content else { return };
        // The adapter of ACP agents names the files when the call has ended, because many are not in its input.
        if self.adapter != Adapter::Acp {
            let call = ToolCall { adapter: self.adapter, tool: tool_name, kind: None, arguments: input };
            self.writes(tool_call_id, written_files(&call));
        }
    }

    /// Notes which files of the brief are among those that a call writes.
    pub(super) fn writes<'a>(&self, id: &ToolCallId, paths: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state();
        let Calls { files, open } = &mut *state;
        if files.is_empty() || open.len() >= MAX_CALLS {
            return;
        }
        let mut written = Vec::new();
        for path in paths.into_iter().filter_map(|path| self.relative(path)) {
            let kind = ArtifactFiles::kind_of(files, &path);
            if let Some(kind) = kind.filter(|_| written.iter().all(|(known, _)| *known != path)) {
                written.push((path, kind));
            }
        }
        if !written.is_empty() {
            open.insert(id.clone(), written);
        }
    }

    /// Stores the files that a call has written. Returns the notices about those that were not stored.
    pub(super) async fn ended(&self, id: &ToolCallId, is_error: bool) -> Vec<RawEvent> {
        let written = self.state().open.remove(id).filter(|_| !is_error).unwrap_or_default();
        let mut notices = Vec::new();
        let deadline = Instant::now() + LIMIT;
        for (path, kind) in written {
            if let Err(why) = self.store(id, &path, kind, deadline).await {
                notices.push(notice(NOT_STORED, format!("{path} was not stored as an artifact. {why}")));
            }
        }
        notices
    }

    async fn store(
        &self,
        id: &ToolCallId,
        path: &ArtifactPath,
        kind: ArtifactKind,
        deadline: Instant,
    ) -> Result<(), String> {
        let Some(report) = &self.report else { return Ok(()) };
        let found = self.roots.first().map(|root| root.join(path.as_str()).symlink_metadata());
        if let Some(Err(error)) = found
            && error.kind() == ErrorKind::NotFound
        {
            // The call moved it away.
            return Ok(());
        }
        let (progress, _) = mpsc::unbounded_channel();
        let context =
            ToolContext { tool_call_id: id.to_string(), cancelled: CancellationToken::new(), progress };
        let reported = report.run(json!({ "path": path, "kind": kind }), context);
        match timeout_at(deadline, reported).await {
            Ok(output) if output.is_error => Err(sentence(&output)),
            Ok(_) => Ok(()),
            Err(_) => Err(format!("The control plane did not respond within {} s.", LIMIT.as_secs())),
        }
    }

    /// A path below the working directory. `None` for others.
    fn relative(&self, path: &str) -> Option<ArtifactPath> {
        let below = if path.starts_with('/') {
            self.roots.iter().find_map(|root| Path::new(path).strip_prefix(root).ok())?.to_str()?
        } else {
            path
        };
        ArtifactPath::parse(below).ok()
    }
}

fn sentence(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|content| match content {
        UserContent::Text { text } => Some(text.as_str()),
        UserContent::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use pilothouse_agent::model::ToolSpec;
    use pilothouse_agent::tool::Tool;
    use serde_json::Value;

    use super::*;

    /// Stands for the tool, which calls the control plane. Refuses what is called `bad.md`, and does not respond to `slow*`.
    struct Reports {
        spec: ToolSpec,
        calls: Mutex<Vec<(String, String)>>,
    }

    #[async_trait]
    impl Tool for Reports {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
            let path = arguments["path"].as_str().unwrap().to_owned();
            let is_bad = path == "bad.md";
            self.calls.lock().unwrap().push((context.tool_call_id, format!("{path} {}", arguments["kind"])));
            if path.starts_with("slow") {
                std::future::pending::<()>().await;
            }
            if is_bad { ToolOutput::error("It is refused.") } else { ToolOutput::text("{}") }
        }
    }

    struct Fixture {
        folder: tempfile::TempDir,
        tool: Arc<Reports>,
        reports: FileReports,
    }

    fn fixture(adapter: &str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.md", "b.md", "bad.md", "c.rs", "slow1.md", "slow2.md"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let spec =
            ToolSpec { name: "report_artifact".into(), description: String::new(), input_schema: json!({}) };
        let tool = Arc::new(Reports { spec, calls: Mutex::default() });
        let reports = FileReports::new(adapter, folder.path(), Some(Arc::clone(&tool) as _));
        let pattern = ArtifactPath::parse("*.md").unwrap();
        reports.configure(&[ArtifactFiles { pattern, kind: ArtifactKind::Document }]);
        Fixture { folder, tool, reports }
    }

    impl Fixture {
        async fn call(&self, id: &str, tool: &str, input: Value, is_error: bool) -> Vec<RawEvent> {
            let id = ToolCallId::parse(id).unwrap();
            let tool_use =
                AssistantContent::ToolUse { tool_call_id: id.clone(), tool_name: tool.into(), input };
            self.reports.called(&tool_use);
            self.reports.ended(&id, is_error).await
        }

        fn stored(&self) -> Vec<String> {
            self.tool.calls.lock().unwrap().drain(..).map(|(call, what)| format!("{call} {what}")).collect()
        }
    }

    #[tokio::test]
    async fn written_files_of_the_brief_are_stored_after_their_call() {
        let at = fixture("claude");
        let absolute = at.folder.path().join("a.md");
        assert_eq!(at.call("c1", "Write", json!({ "file_path": absolute }), false).await, []);
        assert_eq!(at.call("c2", "Edit", json!({ "file_path": "./b.md" }), false).await, []);
        assert_eq!(at.stored(), ["c1 a.md \"document\"", "c2 b.md \"document\""]);
        for (id, tool, path, is_error) in [
            ("c3", "Write", "a.md", true),
            ("c4", "Read", "a.md", false),
            ("c5", "Write", "c.rs", false),
            ("c6", "Write", "../a.md", false),
            ("c7", "Write", "/etc/a.md", false),
            ("c8", "Write", "gone.md", false),
        ] {
            assert_eq!(at.call(id, tool, json!({ "file_path": path }), is_error).await, [], "{id}");
        }
        assert_eq!(at.stored(), [""; 0]);
    }

    #[tokio::test]
    async fn files_of_other_adapters_are_known_by_their_tools() {
        let native = fixture("native");
        native.call("c1", "write", json!({ "path": "a.md" }), false).await;
        assert_eq!(native.stored(), ["c1 a.md \"document\""]);
        let acp = fixture("acp");
        let id = ToolCallId::parse("c1").unwrap();
        acp.reports.writes(&id, ["a.md", "c.rs", "./b.md", "a.md"]);
        acp.call("c1", "edit", json!({ "title": "Edit files" }), false).await;
        assert_eq!(acp.stored(), ["c1 a.md \"document\"", "c1 b.md \"document\""]);
        let shim = fixture("shim");
        shim.call("c1", "Write", json!({ "file_path": "a.md" }), false).await;
        assert_eq!(shim.stored(), [""; 0], "a shim reports its artifacts itself");
    }

    #[tokio::test]
    async fn owner_is_told_which_file_was_not_stored() {
        let at = fixture("script");
        let found = at.call("c1", "Write", json!({ "file_path": "bad.md" }), false).await;
        let expected = notice(NOT_STORED, "bad.md was not stored as an artifact. It is refused.".to_owned());
        assert_eq!(found, [expected]);
    }

    #[tokio::test(start_paused = true)]
    async fn files_of_a_call_share_the_time_limit() {
        let at = fixture("acp");
        let id = ToolCallId::parse("c1").unwrap();
        at.reports.writes(&id, ["slow1.md", "slow2.md"]);
        let begun = Instant::now();
        assert_eq!(at.reports.ended(&id, false).await.len(), 2);
        assert!(begun.elapsed() < 2 * LIMIT, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn nothing_is_stored_unless_the_brief_names_files() {
        let at = fixture("claude");
        at.reports.configure(&[]);
        at.call("c1", "Write", json!({ "file_path": "a.md" }), false).await;
        assert_eq!(at.stored(), [""; 0]);
    }
}
