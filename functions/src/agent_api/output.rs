//! `POST /api/agent/sessions/{id}/output`: submits the output of the session (S0 8.9).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::agent::SubmittedOutput;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::output::{CommitSha, SessionOutput};
use pilothouse_domain::{Events, SessionEvent};
use schemars::JsonSchema;
use serde_json::Value;

use super::{AgentActivity, CallerContext};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-output", Verb::Post, "/api/agent/sessions/{id}/output", |verb| {
        verb.route(submit_output)
    })
    .agent()
    .summary("Submit the output of the session")
    .input::<SubmitOutput>()
    .output::<SubmittedOutput>(&[202]);

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
    /// The result of an agent whose brief has an `outputSchema`: at most 32 KiB.
    #[deserr(default)]
    pub result: Option<Value>,
}

/// Responds with 202. The output takes effect at the end of the turn (decision 18). With `accepted: false`, it has no effect: the result
/// violates the schema of the brief, or a guardrail blocks it, and the agent has to correct it (decisions 79, 83).
async fn submit_output(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<SubmitOutput>,
) -> Result<CommandResponse, Problem> {
    let SubmitOutput { output_line_count, files_changed, tests_added, all_tests_passing, commit_sha, result } =
        body.input;
    let output = SessionOutput {
        output_line_count,
        files_changed,
        tests_added,
        all_tests_passing,
        commit_sha,
        result,
        ..SessionOutput::default()
    };
    let activity = AgentActivity {
        function: "agent-output",
        request_hash: body.hash,
        summary: format!("Output announced: {} files changed", output.files_changed),
        body: serde_json::to_value(&output).map_err(Problem::internal)?,
        view: None,
    };
    let briefs = app.clone();
    let load =
        async |context: CallerContext| briefs.output_rules(&context.owner, context.project.as_ref()).await;
    super::change_with(
        State(app),
        &caller,
        id,
        activity,
        load,
        |it, rules, ctx| {
            let mut output = output.clone();
            output.check_result(&rules);
            Ok(it.session.submit_output(output, ctx)?)
        },
        |it, events| CommandResponse::new(StatusCode::ACCEPTED, None, &submitted(it, events)),
    )
    .await
}

fn submitted(it: &Conversation, events: &Events) -> SubmittedOutput {
    let returned = events.iter().find_map(|event| match event {
        SessionEvent::OutputReturned { violations, corrections_left } => {
            Some((violations.clone(), *corrections_left))
        }
        _ => None,
    });
    let (violations, corrections_left) = returned.unzip();
    SubmittedOutput {
        status: it.session.status(),
        accepted: violations.is_none(),
        violations: violations.unwrap_or_default(),
        corrections_left,
    }
}
