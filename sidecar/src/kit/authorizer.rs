//! Asks the control plane whether a tool call may run (decision 75). A run in a project does this before each
//! call of its agent. Without an answer the call waits: a sidecar that is cut off allows nothing.
//!
//! | module | purpose |
//! |---|---|
//! | here | sends the request until there is an answer |
//! | [`answer`] | what an HTTP response means |
//! | [`build_files`] | build files that earlier calls of the run changed |

mod answer;
mod build_files;

use std::time::Duration;

use pilothouse_domain::escalation::ReportedRisk;
use pilothouse_domain::{ToolCallId, VerdictId};
use pilothouse_wire::gateway::MAX_JUDGED_ARGUMENTS;
use serde::Serialize;
use serde_json::{Value, json};
use tracing::{debug, warn};

use self::answer::{Answer, Response};
use self::build_files::ChangedBuildFiles;
use crate::adapter::{AdapterError, AgentContext};
use crate::agent_api::AgentApi;
use crate::retry::Backoff;

/// Bounds of the pause before the next attempt. The backoff waits at least half of its first interval.
const FIRST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The sentence for the agent if the control plane gives none.
const DENIED: &str = "The rules of the project do not allow this call.";

/// A tool call that has not run yet.
#[derive(Debug, Clone)]
pub(crate) struct ProposedCall {
    pub id: ToolCallId,
    pub tool: String,
    /// The kind that an ACP agent reports.
    pub kind: Option<String>,
    pub arguments: Value,
}

/// The control plane's decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Authorization {
    Allow,
    /// The owner decides.
    Ask(AskVerdict),
    /// With a sentence for the agent.
    Deny(String),
}

/// A verdict that leaves the decision to the owner.
#[derive(Debug, Clone)]
pub(crate) struct AskVerdict {
    id: VerdictId,
    changed_build_files: Vec<String>,
    run: ChangedBuildFiles,
}

impl PartialEq for AskVerdict {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for AskVerdict {}

impl AskVerdict {
    pub(crate) const fn id(&self) -> VerdictId {
        self.id
    }

    /// Records that the owner allowed the call.
    pub(crate) fn allowed(&self) {
        self.run.record(&self.changed_build_files);
    }

    /// A verdict of no control plane.
    #[cfg(test)]
    pub(crate) fn test(id: VerdictId) -> Self {
        Self { id, changed_build_files: Vec::new(), run: ChangedBuildFiles::default() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    tool_call_id: &'a ToolCallId,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    arguments: &'a Value,
    home: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported: Option<ReportedRisk>,
    changed_build_files: Vec<String>,
}

/// Asks for verdicts on the calls of one run. Clones share what the run changed.
#[derive(Clone)]
pub(crate) struct Authorizer {
    api: AgentApi,
    /// Home directory of the agent's user.
    home: String,
    changed: ChangedBuildFiles,
}

impl Authorizer {
    /// `None` if the session belongs to no project. `home` replaces the home directory of the agent's user.
    pub(crate) fn of(context: &AgentContext, home: Option<&str>) -> Result<Option<Self>, AdapterError> {
        if !context.launch.request.authorize_tools {
            return Ok(None);
        }
        let api =
            AgentApi::for_run(&context.launch).map_err(|e| AdapterError::Configuration(e.to_string()))?;
        let of_user = || {
            let environment = context.processes.environment();
            let home = environment.into_iter().find(|(name, _)| name == "HOME");
            home.map_or_else(|| "/".to_owned(), |(_, home)| home.to_string_lossy().into_owned())
        };
        let home = home.map_or_else(of_user, str::to_owned);
        Ok(Some(Self::new(api, home)))
    }

    fn new(api: AgentApi, home: String) -> Self {
        Self { api, home, changed: ChangedBuildFiles::default() }
    }

    /// Asks until the control plane answers. Dropping the future ends that.
    pub(crate) async fn authorize(&self, call: &ProposedCall) -> Authorization {
        self.authorize_with(call, ReportedRisk::default()).await
    }

    /// The same, with the risk that the agent reports.
    pub(crate) async fn authorize_with(&self, call: &ProposedCall, risk: ReportedRisk) -> Authorization {
        let path = format!("sessions/{}/authorize", self.api.session());
        let too_large = json!({ "tooLarge": true });
        let arguments =
            if bytes(&call.arguments) > MAX_JUDGED_ARGUMENTS { &too_large } else { &call.arguments };
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut warned = false;
        loop {
            let request = Request {
                tool_call_id: &call.id,
                tool: &call.tool,
                kind: call.kind.as_deref(),
                arguments,
                home: &self.home,
                reported: Some(risk).filter(|risk| *risk != ReportedRisk::default()),
                changed_build_files: self.changed.list(),
            };
            match self.attempt(&path, &request).await {
                Response::Final(answer) => return self.authorization(answer),
                Response::Refused(sentence) => {
                    warn!(call = %call.id, sentence, "the control plane refused to authorize a tool call");
                    return Authorization::Deny(sentence);
                }
                Response::Retry(reason) if warned => debug!(call = %call.id, reason, "asking again"),
                Response::Retry(reason) => {
                    warned = true;
                    warn!(call = %call.id, reason, "a tool call waits for its authorization");
                }
            }
            tokio::time::sleep(backoff.failed()).await;
        }
    }

    async fn attempt(&self, path: &str, request: &Request<'_>) -> Response {
        let exchanged = async {
            let response = self.api.request(path, request).send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.bytes().await?))
        };
        match exchanged.await {
            Ok((status, body)) => answer::read(status, &body),
            Err(error) => Response::Retry(error.without_url().to_string()),
        }
    }

    fn authorization(&self, answer: Answer) -> Authorization {
        match answer {
            Answer::Allow { changed_build_files } => {
                self.changed.record(&changed_build_files);
                Authorization::Allow
            }
            Answer::Ask { verdict_id: id, changed_build_files } => {
                Authorization::Ask(AskVerdict { id, changed_build_files, run: self.changed.clone() })
            }
            Answer::Deny { message } => Authorization::Deny(message.unwrap_or_else(|| DENIED.to_owned())),
        }
    }
}

fn bytes(arguments: &Value) -> usize {
    // JSON values always serialize.
    serde_json::to_vec(arguments).map_or(usize::MAX, |json| json.len())
}

#[cfg(test)]
mod tests;
