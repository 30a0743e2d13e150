//! `POST /api/agents/{id}/kill`: cancels the session of an agent of a project (S2 `KillRequest`).

use std::time::Duration;

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::ProjectAgentId;
use pilothouse_domain::session::Grace;
use schemars::JsonSchema;

use super::kill_current_session;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-kill", Verb::Post, "/api/agents/{id}/kill", |verb| verb.route(kill_agent))
        .owner()
        .summary("Cancel the session of an agent of a project")
        .input::<KillAgent>()
        .output::<AgentView>(&[200, 202]);

/// Options of a kill.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct KillAgent {
    /// Whether the agent is asked to stop first. Without it, the runtime ends its process at once. Default: `true`.
    #[deserr(default)]
    #[schemars(default)]
    pub grace: Option<bool>,
    /// How long the agent may take to stop, in milliseconds: 0 to 50000. Ignored without `grace`. Default: a minute after it received
    /// the request.
    #[deserr(default, try_from(Option<u64>) = grace_timeout -> FieldError)]
    #[schemars(default, range(max = 50_000))]
    pub grace_timeout_ms: Option<u64>,
}

/// Most milliseconds of a grace period. Adapters accept as much for an agent that saves its state.
const LONGEST_GRACE: u64 = 50_000;

fn grace_timeout(value: Option<u64>) -> Result<Option<u64>, FieldError> {
    match value {
        Some(value) if value > LONGEST_GRACE => {
            Err(FieldError(format!("must be 0 to {LONGEST_GRACE} milliseconds")))
        }
        value => Ok(value),
    }
}

impl KillAgent {
    fn grace(self) -> Grace {
        match (self.grace, self.grace_timeout_ms) {
            (Some(false), _) => Grace::None,
            (_, None) => Grace::Unlimited,
            (_, Some(limit)) => Grace::Within(Duration::from_millis(limit)),
        }
    }
}

/// Responds with 202 while the sidecar has not confirmed. `kill` of the agent then says how it ended. The work of an agent whose context
/// is full is not continued.
async fn kill_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    body: Body<KillAgent>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    kill_current_session(&app, &command, id, body.input.grace()).await
}
