//! `POST /api/agent/sessions/{id}/output`: submits the output of the session (S0 8.9).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::value::{CommitSha, SessionOutput};
use schemars::JsonSchema;
use serde_json::json;

use super::AgentActivity;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-output", Verb::Post, "/api/agent/sessions/{id}/output", |verb| {
        verb.route(submit_output)
    })
    .agent()
    .summary("Submit the output of the session")
    .input::<SubmitOutput>()
    .statuses(&[202]);

/// The output of a session.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitOutput {
    /// The number of lines that the agent produced.
    pub output_line_count: u32,
    /// The number of files that the agent changed.
    pub files_changed: u32,
    /// The number of tests that the agent added.
    pub tests_added: u32,
    /// Whether all tests pass.
    pub all_tests_passing: bool,
    /// The Git commit that contains the work.
    #[deserr(default)]
    pub commit_sha: Option<CommitSha>,
}

/// Responds with 202. The output takes effect at the end of the turn (decision 18).
async fn submit_output(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<SubmitOutput>,
) -> Result<CommandResponse, Problem> {
    let input = body.input;
    let output = SessionOutput {
        output_line_count: input.output_line_count,
        files_changed: input.files_changed,
        tests_added: input.tests_added,
        all_tests_passing: input.all_tests_passing,
        commit_sha: input.commit_sha,
    };
    let activity = AgentActivity {
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
        activity,
        |it, ctx| Ok(it.session.submit_output(output.clone(), ctx)?),
        |it| CommandResponse::new(StatusCode::ACCEPTED, None, &json!({ "status": it.session.status() })),
    )
    .await
}
