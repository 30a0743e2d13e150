//! `submit_output`: the agent reports the result of its turn for its owner to review (S0 8.5). Numbers that git
//! provides are counted instead of taken from the agent.
//!
//! The native agent's output ends its turn. Other agents do not end their turns with an output, so theirs goes to the agent API.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::output::{CommitSha, SessionOutput};
use pilothouse_domain::output_schema::OutputViolation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::agent_api::AgentApi;
use crate::process::Processes;
use crate::process::git::git;
use crate::process::in_process::AgentThread;

pub const NAME: &str = "submit_output";

const DESCRIPTION: &str = "Submits what you produced to your owner for review. Call it once, when the work is done and \
checked, as the last thing before you say what you did. Calling it again replaces what you submitted. Files and lines \
that changed are counted where the working directory is a git repository; say them elsewhere.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// Whether you ran all tests and they passed.
    all_tests_passing: bool,
    /// How many tests you added.
    #[serde(default)]
    tests_added: u32,
    /// The commit that holds the work, with all 40 digits, if you committed it.
    #[serde(default)]
    commit_sha: Option<CommitSha>,
    /// How many files you changed, where that cannot be counted.
    #[serde(default)]
    files_changed: u32,
    /// How many lines you wrote, where that cannot be counted.
    #[serde(default)]
    output_line_count: u32,
    /// Your result, if your brief describes one: at most 32 KiB.
    #[serde(default)]
    result: Option<Value>,
}

/// Where an output goes.
pub enum Destination {
    /// The end of the turn.
    Turn(Submitted),
    AgentApi(AgentApi),
}

/// The output submitted in the current turn. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Submitted(Arc<Mutex<Option<SessionOutput>>>);

impl Submitted {
    /// Removes and returns the submitted output.
    pub fn take(&self) -> Option<SessionOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, output: SessionOutput) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    }
}

pub struct SubmitTool {
    spec: ToolSpec,
    destination: Destination,
    processes: Processes,
    thread: Option<AgentThread>,
    folder: PathBuf,
}

impl SubmitTool {
    /// Creates the tool. `thread` reads files, if the agent's rights are not the sidecar's.
    pub fn new(
        destination: Destination,
        processes: Processes,
        thread: Option<AgentThread>,
        folder: PathBuf,
    ) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), destination, processes, thread, folder }
    }
}

#[async_trait]
impl Tool for SubmitTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let Arguments {
            all_tests_passing,
            tests_added,
            commit_sha,
            files_changed,
            output_line_count,
            result,
        } = arguments;
        let result_bytes = result.as_ref().map_or(0, |result| result.to_string().len());
        if result_bytes > SessionOutput::MAX_RESULT_BYTES {
            return ToolOutput::error(format!(
                "Nothing was submitted, because the result has {} KiB. At most {} KiB are possible. Write the details to a file, \
                 shorten the result, and call the tool again.",
                result_bytes.div_ceil(1024),
                SessionOutput::MAX_RESULT_BYTES / 1024
            ));
        }
        let since = commit_sha.as_ref().map(|sha| format!("{sha}^"));
        let counted = changes(&self.processes, self.thread.as_ref(), &self.folder, since.as_deref()).await;
        let Changes { files, lines } =
            counted.unwrap_or(Changes { files: files_changed, lines: output_line_count });
        let output = SessionOutput {
            output_line_count: lines,
            files_changed: files,
            tests_added,
            all_tests_passing,
            commit_sha,
            result,
            ..SessionOutput::default()
        };
        let counted = format!("{files} files changed, {lines} lines written");
        match &self.destination {
            Destination::Turn(submitted) => {
                submitted.set(output);
                ToolOutput::text(format!(
                    "Submitted: {counted}. Your owner reviews it when your turn is over."
                ))
            }
            Destination::AgentApi(api) => submit(api, output, &counted).await,
        }
    }
}

/// The control plane returns a result that violates the schema of the brief, or that a guardrail blocks (decisions 79, 83).
async fn submit(api: &AgentApi, output: SessionOutput, counted: &str) -> ToolOutput {
    let SessionOutput {
        output_line_count,
        files_changed,
        tests_added,
        all_tests_passing,
        commit_sha,
        result,
        ..
    } = output;
    let body = json!({
        "outputLineCount": output_line_count, "filesChanged": files_changed, "testsAdded": tests_added,
        "allTestsPassing": all_tests_passing, "commitSha": commit_sha, "result": result,
    });
    let path = format!("sessions/{}/output", api.session());
    api.post_checked(&path, &body, |response| match serde_json::from_value::<Response>(response.clone()) {
        Ok(Response { accepted: false, violations, corrections_left }) => {
            let listed: Vec<_> =
                violations.iter().map(|it| format!("- {} {}", it.place(), it.message)).collect();
            ToolOutput::error(format!(
                "Nothing was submitted, because the result does not fit your brief:\n{}\nCorrect it and call \
                 the tool again. {corrections_left} more corrections are possible.",
                listed.join("\n")
            ))
        }
        _ => ToolOutput::text(format!("Submitted: {counted}. Your owner reviews it when your turn is over.")),
    })
    .await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    accepted: bool,
    #[serde(default)]
    violations: Vec<OutputViolation>,
    #[serde(default)]
    corrections_left: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Changes {
    files: u32,
    lines: u32,
}

/// Counts the changes of the working tree since a commit, including new files. `None` if git fails.
async fn changes(
    processes: &Processes,
    thread: Option<&AgentThread>,
    folder: &Path,
    since: Option<&str>,
) -> Option<Changes> {
    let mut changed = Changes::default();
    let diff = git(processes, folder, &["diff", "--numstat", since.unwrap_or("HEAD"), "--", "."]).await?;
    for line in diff.lines() {
        changed.files += 1;
        let added = line.split('\t').next().and_then(|added| added.parse().ok()).unwrap_or(0);
        changed.lines = changed.lines.saturating_add(added);
    }
    let new = git(processes, folder, &["ls-files", "--others", "--exclude-standard"]).await?;
    for file in new.lines().filter(|file| !file.starts_with(".pilothouse/")) {
        changed.files += 1;
        let reading = tokio::fs::read(folder.join(file));
        let text = match thread {
            // Uses the agent's rights, because the file may be a link.
            Some(thread) => thread.run(reading).await.and_then(|text| text),
            None => reading.await,
        };
        let lines = match text {
            Ok(text) => String::from_utf8_lossy(&text).lines().count(),
            Err(_) => 0,
        };
        changed.lines = changed.lines.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;

    async fn run(folder: &Path, arguments: &[&str]) {
        let mut git = tokio::process::Command::new("git");
        let named = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let done = git.args(named).args(arguments).current_dir(folder).output().await.unwrap();
        assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[tokio::test]
    async fn result_beyond_the_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let submitted = Submitted::default();
        let destination = Destination::Turn(submitted.clone());
        let tool = SubmitTool::new(destination, Processes::unguarded(), None, dir.path().to_owned());
        // The limit is that of the JSON, which has two quotation marks.
        let most = SessionOutput::MAX_RESULT_BYTES - 2;
        for (length, refused) in [(most + 1, true), (most, false)] {
            let (progress, _) = mpsc::unbounded_channel();
            let cancelled = CancellationToken::new();
            let context = ToolContext { tool_call_id: "c".into(), cancelled, progress };
            let arguments = json!({ "allTestsPassing": true, "result": "x".repeat(length) });
            let output = tool.run(arguments, context).await;
            assert_eq!((output.is_error, submitted.take().is_none()), (refused, refused), "{output:?}");
        }
    }

    #[tokio::test]
    async fn changes_are_counted_independently_of_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let processes = Processes::unguarded();
        assert_eq!(changes(&processes, None, dir.path(), None).await, None, "no repository");
        run(dir.path(), &["init", "-q"]).await;
        std::fs::write(dir.path().join("a"), "1\n2\n").unwrap();
        run(dir.path(), &["add", "."]).await;
        run(dir.path(), &["commit", "-qm", "first"]).await;
        std::fs::write(dir.path().join("a"), "1\n2\n3\n").unwrap();
        std::fs::write(dir.path().join("b"), "x\ny\n").unwrap();
        let changed = changes(&processes, None, dir.path(), None).await;
        assert_eq!(changed, Some(Changes { files: 2, lines: 3 }));
    }
}
