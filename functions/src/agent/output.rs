//! `POST /api/agent/sessions/{id}/output`: the agent says what it has produced (S0 8.9).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::value::{CommitSha, SessionOutput};
use schemars::JsonSchema;
use serde_json::json;

use super::Said;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::{AgentCaller, Problem, Session};

/// What it produced.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitOutput {
    /// Lines of output.
    pub output_line_count: u32,
    /// Files that it changed.
    pub files_changed: u32,
    /// Tests that it added.
    pub tests_added: u32,
    /// Whether all tests pass.
    pub all_tests_passing: bool,
    /// The commit that holds the work.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::value::InvalidCommitSha)]
    pub commit_sha: Option<CommitSha>,
}

/// 202: it takes effect at the turn's end (ruling 18).
pub async fn handle(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<SubmitOutput>,
) -> Result<Answer, Problem> {
    let input = body.input;
    let output = SessionOutput {
        output_line_count: input.output_line_count,
        files_changed: input.files_changed,
        tests_added: input.tests_added,
        all_tests_passing: input.all_tests_passing,
        commit_sha: input.commit_sha,
    };
    let said = Said {
        function: "agent-output",
        request_hash: body.hash,
        summary: format!("Output announced: {} files changed", output.files_changed),
        body: serde_json::to_value(&output).map_err(Problem::internal)?,
        view: None,
    };
    super::change(
        state,
        &caller,
        id,
        said,
        |it, cx| Ok(it.session.submit_output(output.clone(), cx)?),
        |it| Answer::new(StatusCode::ACCEPTED, None, &json!({ "status": it.session.status() })),
    )
    .await
}
