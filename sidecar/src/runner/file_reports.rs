//! Stores files that the agent writes as artifacts, if its brief asks for it (S2 "Artifact extraction and sandbox teardown"; decision 84).
//!
//! A file is stored when the call that wrote it has succeeded, and before its result is published. So a pause, a stop or a crash after the
//! result loses no content. While the control plane does not respond, files are stored at the end of the turn instead.

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
/// The agent waits this long in total, over all calls, until a file is stored again, so that a stop that waits for it keeps its limit
/// (decision 12). The other files are stored at the end of the turn.
const LIMIT: Duration = Duration::from_secs(20);
/// The end of a turn waits this long for the files that were not stored before. The rest is listed as unreported at the end of the run.
const LIMIT_AT_TURN_END: Duration = Duration::from_secs(10);
/// Calls whose results are awaited. Those of later calls are not stored.
const MAX_CALLS: usize = 1000;
/// Files that are stored at the end of a turn.
const MAX_POSTPONED: usize = 100;

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
    /// The files that are stored at the end of the turn, each once.
    postponed: Vec<WrittenFile>,
    /// How long files were not stored, since the last one that was.
    waited: Duration,
}

/// A file of the brief that a call has written.
struct WrittenFile {
    call: ToolCallId,
    path: ArtifactPath,
    kind: ArtifactKind,
}

enum StoreOutcome {
    Stored,
    /// The call moved it away.
    Missing,
    NotStored {
        why: String,
        may_succeed_later: bool,
    },
}

impl Calls {
    fn stored(&mut self, path: &ArtifactPath) {
        self.waited = Duration::ZERO;
        self.postponed.retain(|file| file.path != *path);
    }

    /// Returns the file if too many are postponed.
    fn postpone(&mut self, file: WrittenFile) -> Result<(), WrittenFile> {
        self.postponed.retain(|known| known.path != file.path);
        if self.postponed.len() >= MAX_POSTPONED {
            return Err(file);
        }
        self.postponed.push(file);
        Ok(())
    }
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
        let Calls { files, open, .. } = &mut *state;
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

    /// Stores the files that a call has written. Returns the notices about those that cannot be stored.
    pub(super) async fn ended(&self, id: &ToolCallId, is_error: bool) -> Vec<RawEvent> {
        let written = self.state().open.remove(id).filter(|_| !is_error).unwrap_or_default();
        let mut notices = Vec::new();
        for (path, kind) in written {
            let file = WrittenFile { call: id.clone(), path, kind };
            let begun = Instant::now();
            let deadline = begun + LIMIT.saturating_sub(self.state().waited);
            match self.store(&file, deadline).await {
                StoreOutcome::Stored => self.state().stored(&file.path),
                StoreOutcome::Missing => {}
                StoreOutcome::NotStored { why, may_succeed_later: true } => {
                    let mut state = self.state();
                    state.waited += begun.elapsed();
                    if let Err(file) = state.postpone(file) {
                        notices.push(not_stored(&file.path, &why));
                    }
                }
                StoreOutcome::NotStored { why, may_succeed_later: false } => {
                    notices.push(not_stored(&file.path, &why));
                }
            }
        }
        notices
    }

    /// Stores the files of the turn that were not stored after their calls. Returns the notices about those that are not stored now.
    pub(super) async fn turn_ended(&self) -> Vec<RawEvent> {
        let postponed = std::mem::take(&mut self.state().postponed);
        let deadline = Instant::now() + LIMIT_AT_TURN_END;
        let mut notices = Vec::new();
        for file in postponed {
            match self.store(&file, deadline).await {
                StoreOutcome::Stored => self.state().stored(&file.path),
                StoreOutcome::Missing => {}
                StoreOutcome::NotStored { why, .. } => notices.push(not_stored(&file.path, &why)),
            }
        }
        notices
    }

    /// Stores the content that a file has now, unless the deadline is over.
    async fn store(&self, WrittenFile { call, path, kind }: &WrittenFile, deadline: Instant) -> StoreOutcome {
        let Some(report) = &self.report else { return StoreOutcome::Missing };
        let found = self.roots.first().map(|root| root.join(path.as_str()).symlink_metadata());
        if let Some(Err(error)) = found
            && error.kind() == ErrorKind::NotFound
        {
            return StoreOutcome::Missing;
        }
        let (progress, _) = mpsc::unbounded_channel();
        let context =
            ToolContext { tool_call_id: call.to_string(), cancelled: CancellationToken::new(), progress };
        let reported = async {
            // A request is not sent only to be cancelled.
            if Instant::now() >= deadline {
                std::future::pending::<()>().await;
            }
            report.run(json!({ "path": path, "kind": kind }), context).await
        };
        match timeout_at(deadline, reported).await {
            Ok(output) if output.is_error => StoreOutcome::NotStored {
                why: sentence(&output),
                may_succeed_later: output.may_succeed_later,
            },
            Ok(_) => StoreOutcome::Stored,
            Err(_) => StoreOutcome::NotStored {
                why: "The control plane did not respond in time.".to_owned(),
                may_succeed_later: true,
            },
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

fn not_stored(path: &ArtifactPath, why: &str) -> RawEvent {
    notice(NOT_STORED, format!("{path} was not stored as an artifact. {why}"))
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use pilothouse_agent::model::ToolSpec;
    use pilothouse_agent::tool::Tool;
    use serde_json::Value;

    use super::super::event_filter::RunnerEventFilter;
    use super::*;
    use crate::adapter::{EventFilter as _, EventSink};
    use crate::deliverables::Deliverables;
    use crate::process::Processes;
    use crate::spool::tests::open;

    /// A fake of the tool that calls the control plane. It refuses `bad.md`, and refuses `busy.md` temporarily.
    struct Reports {
        spec: ToolSpec,
        is_hanging: AtomicBool,
        calls: Mutex<Vec<(String, String)>>,
    }

    #[async_trait]
    impl Tool for Reports {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
            let path = arguments["path"].as_str().unwrap().to_owned();
            let kind = &arguments["kind"];
            self.calls.lock().unwrap().push((context.tool_call_id, format!("{path} {kind}")));
            if self.is_hanging.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            match path.as_str() {
                "bad.md" => ToolOutput::error("It is refused."),
                "busy.md" => ToolOutput::temporary_error("It is busy."),
                _ => ToolOutput::text("{}"),
            }
        }
    }

    struct Fixture {
        folder: tempfile::TempDir,
        tool: Arc<Reports>,
        reports: FileReports,
    }

    fn fixture(adapter: &str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.md", "b.md", "bad.md", "busy.md", "c.rs"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let spec =
            ToolSpec { name: "report_artifact".into(), description: String::new(), input_schema: json!({}) };
        let tool = Arc::new(Reports { spec, is_hanging: AtomicBool::new(false), calls: Mutex::default() });
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

        fn set_hanging(&self, is_hanging: bool) {
            self.tool.is_hanging.store(is_hanging, Ordering::Relaxed);
        }

        /// The calls of the tool since the last time.
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
    async fn result_of_a_call_waits_until_its_files_are_stored() {
        let Fixture { folder, tool, reports } = fixture("claude");
        let events = EventSink::new(open(folder.path()));
        let deliverables = Deliverables::new(folder.path(), events.clone(), &Processes::unguarded()).unwrap();
        let ((forward, _commands), (lost, _)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let filter = RunnerEventFilter::new(true, events, (deliverables, reports), forward.downgrade(), lost);
        let stored = || tool.calls.lock().unwrap().len();
        let ends = async |id: &str, path: &str| {
            let tool_call_id = ToolCallId::parse(id).unwrap();
            let content = AssistantContent::ToolUse {
                tool_call_id: tool_call_id.clone(),
                tool_name: "Write".into(),
                input: json!({ "file_path": path }),
            };
            filter.filter(RawEvent::AssistantMessage { content, turn_id: None }).await.unwrap();
            let content = "ok".to_owned().into();
            let result = RawEvent::ToolResult { tool_call_id, content, is_error: false, subagent_id: None };
            let passed = filter.filter(result).await.unwrap();
            passed.iter().map(RawEvent::name).collect::<Vec<_>>()
        };
        assert_eq!((ends("c1", "a.md").await, stored()), (vec!["tool_result"], 1));
        assert_eq!((ends("c2", "bad.md").await, stored()), (vec!["notice", "tool_result"], 2));
        tool.is_hanging.store(true, Ordering::Relaxed);
        let begun = async {
            while stored() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            passed = ends("c3", "b.md") => panic!("the control plane has not stored it: {passed:?}"),
            () = begun => {}
        }
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
        at.set_hanging(true);
        let id = ToolCallId::parse("c1").unwrap();
        at.reports.writes(&id, ["a.md", "b.md"]);
        let begun = Instant::now();
        assert_eq!(at.reports.ended(&id, false).await, []);
        assert!(begun.elapsed() < 2 * LIMIT, "{:?}", begun.elapsed());
        assert_eq!(at.reports.turn_ended().await.len(), 2);
        assert!(begun.elapsed() < 2 * LIMIT, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_control_plane_is_awaited_once_until_it_stores_a_file() {
        let at = fixture("claude");
        at.set_hanging(true);
        let begun = Instant::now();
        for (id, path) in [("c1", "a.md"), ("c2", "b.md"), ("c3", "a.md")] {
            assert_eq!(at.call(id, "Write", json!({ "file_path": path }), false).await, [], "{id}");
        }
        assert!(begun.elapsed() < 2 * LIMIT, "{:?}", begun.elapsed());
        assert_eq!(at.stored(), ["c1 a.md \"document\""]);

        at.set_hanging(false);
        assert_eq!(at.reports.turn_ended().await, []);
        assert_eq!(at.stored(), ["c2 b.md \"document\"", "c3 a.md \"document\""]);
        assert_eq!(at.reports.turn_ended().await, []);
        at.call("c4", "Write", json!({ "file_path": "a.md" }), false).await;
        assert_eq!(at.stored(), ["c4 a.md \"document\""], "it is stored after its call again");
    }

    #[tokio::test]
    async fn temporary_failure_is_retried_once_at_the_end_of_the_turn() {
        let at = fixture("claude");
        assert_eq!(at.call("c1", "Write", json!({ "file_path": "busy.md" }), false).await, []);
        at.call("c2", "Write", json!({ "file_path": "a.md" }), false).await;
        let expected = notice(NOT_STORED, "busy.md was not stored as an artifact. It is busy.".to_owned());
        assert_eq!(at.reports.turn_ended().await, [expected]);
        assert_eq!(at.reports.turn_ended().await, []);
        let (busy, other) = ("c1 busy.md \"document\"", "c2 a.md \"document\"");
        assert_eq!(at.stored(), [busy, other, busy]);
    }

    #[tokio::test]
    async fn nothing_is_stored_unless_the_brief_names_files() {
        let at = fixture("claude");
        at.reports.configure(&[]);
        at.call("c1", "Write", json!({ "file_path": "a.md" }), false).await;
        assert_eq!(at.stored(), [""; 0]);
    }
}
