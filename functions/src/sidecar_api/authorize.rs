//! `POST /api/agent/sessions/{id}/authorize`: judges a tool call of a project's agent (S2, "Tool risk classification"; decision 75).

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use deserr::Deserr;
use futures_util::future::{try_join_all, try_join3};
use pilothouse_api::Violation;
use pilothouse_api::agent::ToolVerdict;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::braking::ensure_not_braked;
use pilothouse_app::function::requirements::JUDGE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_app::session_config::tool_listing;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_classification::{
    Adapter, Classification, Context, classify, is_own_tool, normalised, shell_command,
};
use pilothouse_domain::artifact::ArtifactPath;
use pilothouse_domain::decision::{DecisionLogEntry, LoggedDecision};
use pilothouse_domain::effect::ActionKind;
use pilothouse_domain::escalation::{
    AgentTrust, DecidingRule, EscalationProtocol, ListedCall, Listing, Policy, ReportedRisk, ToolApproval,
    ToolCall, Verdict, VerdictKind, evaluate,
};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::text::cut;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::value::{ProjectMembership, input_hash};
use pilothouse_domain::{
    AgentSessionId, DecisionId, DomainContext, Project, ProjectAgent, RunId, ToolCallId, VerdictId,
};
use pilothouse_store::{Commit, LoadedConversation};
use schemars::JsonSchema;
use serde_json::Value;
use uuid::Uuid;

use super::Caller;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sidecar-authorize", Verb::Post, "/api/agent/sessions/{id}/authorize", |verb| {
        verb.route(authorize_call)
    })
    .sidecar()
    .summary("Judge a tool call of a project's agent")
    .input::<AuthorizeCall>()
    .output::<ToolVerdict>(&[200])
    .requires(JUDGE);

/// Most artifacts that are read for a changed file.
const MAX_TRACES: usize = 20;
/// Why a rule denies a call, for the agent. It does not name the rule, which is part of the project's protocol.
const DENIED: &str = "The rules of the project do not allow this call.";

/// A tool call that an agent is about to make.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizeCall {
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool: String,
    /// The kind that an ACP agent reports for the call, such as `edit`.
    #[deserr(default)]
    pub kind: Option<String>,
    /// The arguments of the call.
    pub arguments: Value,
    /// The home directory of the user that the agent runs as.
    pub home: String,
    /// Risk that the agent reports. It can only make the verdict stricter.
    #[deserr(default)]
    pub reported: Option<ReportedRisk>,
    /// Build files that earlier calls of the run changed, from their verdicts: at most 200. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub changed_build_files: Vec<String>,
}

impl AuthorizeCall {
    const MAX_BUILD_FILES: usize = 200;
    /// The names under which a sidecar asks about the requests of an ACP agent for a file or a command.
    const REQUESTS: [&str; 2] = ["fs/write_text_file", "terminal/create"];
    /// The name under which a sidecar asks about a call of an ACP agent that named neither the tool nor its kind.
    const UNNAMED: &str = "tool";

    /// The call as the agent's list of tools sees it. An ACP agent may name the kind of a call and not its tool.
    fn listed(&self, adapter: Adapter) -> ListedCall<'_> {
        let (tool, kind) = (self.tool.as_str(), self.kind.as_deref());
        let is_unnamed = match kind {
            Some(kind) => tool == kind || Self::REQUESTS.contains(&tool),
            None => tool == Self::UNNAMED,
        };
        ListedCall {
            tool: Some(tool).filter(|_| adapter != Adapter::Acp || !is_unnamed),
            kind,
            command: shell_command(&self.arguments),
        }
    }
}

/// What a verdict depends on. All of it is read for each call, so that a stricter mode holds for the next one.
struct Rules {
    project: Project,
    agent: ProjectAgent,
    tick: Tick,
    /// Whether the call changes files of other workstreams. Only read if a rule depends on it.
    affects_others: bool,
}

/// Responds with 200 and the verdict, and writes it to the decision log. The arguments are not stored. Responds with 404 if the session
/// belongs to no project, and with 409 `braked` while a brake stops it. Only the token of the current run is accepted: agents do not
/// have it, so they cannot probe the rules.
async fn authorize_call(
    State(app): State<App>,
    caller: Caller,
    Session(id): Session,
    body: Body<AuthorizeCall>,
) -> Result<Json<ToolVerdict>, Problem> {
    let call = body.input;
    if id != caller.session {
        return Err(Problem::no_session());
    }
    let session = app.store.session(id).await?.ok_or_else(Problem::no_session)?;
    if session.run().is_none_or(|run| run.id != caller.run) {
        return Err(Problem::Unauthenticated("the run of this token is over"));
    }
    let membership = session.project().cloned().ok_or_else(Problem::no_project)?;
    let mut rules = Rules::load(&app, &session, &membership).await?;
    let classification = classified(&call, &session, &rules.project)?;
    let adapter = Adapter::named(session.settings().adapter.as_str());
    let listing = if is_own_tool(adapter, &call.tool) {
        Listing::Allowed
    } else {
        tool_listing(&app, &session, rules.agent.brief(), call.listed(adapter)).await?
    };
    if rules.depend_on_workstreams() {
        rules.affects_others = rules.affects_others(&app, &session, &classification).await?;
    }
    let mut verdict = rules.judge(&call, &listing, &session, &classification);
    let verdict_id = verdict_id(id, caller.run, &call.tool_call_id);
    let granted = GrantedCall {
        tool: cut(&call.tool, ToolApproval::MAX_TOOL),
        input_hash: input_hash(&call.arguments),
        id: call.tool_call_id,
    };
    if verdict.verdict == VerdictKind::Ask
        && session.grant_for(&granted.tool, &granted.input_hash).is_some()
        && let Some(decision_id) = granted.use_up(&app, &caller).await?
    {
        verdict.verdict = VerdictKind::Allow;
        verdict.rule = DecidingRule::Grant { decision_id };
    }
    let mode = rules.project.control_mode();
    let response = ToolVerdict {
        verdict: verdict.verdict,
        verdict_id,
        changed_build_files: classification.changed_build_files,
        message: (verdict.verdict == VerdictKind::Deny).then(|| match listing {
            Listing::NotAllowed(why) => why,
            Listing::Allowed | Listing::Unknown => DENIED.to_owned(),
        }),
    };
    let entry = DecisionLogEntry {
        owner_id: session.owner_id().clone(),
        project_id: membership.project_id,
        agent_id: Some(membership.agent_id),
        session_id: Some(id),
        at: app.now(),
        logged: LoggedDecision::verdict(
            verdict_id,
            (granted.id, granted.tool),
            (classification.effects, classification.requires_rationale),
            granted.input_hash,
            verdict,
            (mode.mode(), mode.revision()),
        ),
    };
    let mut commit = Commit::new();
    commit.log_decision(&entry)?;
    app.store.commit(commit).await?;
    Ok(Json(response))
}

/// A call for which a person may have given a grant.
struct GrantedCall {
    id: ToolCallId,
    tool: String,
    input_hash: String,
}

impl GrantedCall {
    /// Uses up the grant in a commit of the session, so that no second call has it. Returns its decision; `None` if another call was
    /// first. If the response is lost, the grant is used up too, and a person is asked again.
    async fn use_up(&self, app: &App, caller: &Caller) -> Result<Option<DecisionId>, Problem> {
        let load = async || Ok(app.store.conversation(caller.session).await?);
        let decide = |loaded: Option<LoadedConversation>, ctx: &mut DomainContext<'_>| {
            let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(None)) };
            let session = &mut loaded.conversation.session;
            if session.run().is_none_or(|run| run.id != caller.run) {
                return Ok(Decision::Unchanged(None));
            }
            let Some((decision_id, events)) = session.use_grant(&self.tool, &self.input_hash, &self.id)
            else {
                return Ok(Decision::Unchanged(None));
            };
            let events = app.with_consequences(&mut loaded.conversation, events, ctx);
            let mut commit = Commit::new();
            let cause = Cause::Reaction { function: "sidecar-authorize".to_owned() };
            app.record(&mut commit, &mut loaded, cause, events)?;
            Ok(Decision::Commit(commit, Some(decision_id)))
        };
        app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
    }
}

impl Rules {
    /// Reads everything at the same time, because the agent waits.
    ///
    /// # Errors
    /// [`pilothouse_domain::session::SessionError::Braked`] while a brake stops the session.
    async fn load(
        app: &App,
        session: &AgentSession,
        membership: &ProjectMembership,
    ) -> Result<Self, Problem> {
        let owner = session.owner_id();
        let (brakes, time, agent) = try_join3(
            async { Ok::<_, Problem>(app.store.brakes(owner).await?) },
            app.project_time(membership.project_id),
            async { Ok(app.store.aggregate::<ProjectAgent>(owner, membership.agent_id).await?) },
        )
        .await?;
        ensure_not_braked(&brakes, session)?;
        let time = time.ok_or_else(Problem::no_project)?;
        Ok(Self {
            tick: time.tick(app.now())?,
            project: time.project.value,
            agent: agent.ok_or_else(Problem::no_agent)?.value,
            affects_others: false,
        })
    }

    fn depend_on_workstreams(&self) -> bool {
        let of_agent = self.agent.brief().escalation_protocol.as_ref();
        self.project.escalation().depends_on_workstreams()
            || of_agent.is_some_and(EscalationProtocol::depends_on_workstreams)
    }

    /// Whether the call changes the source file of an artifact of another workstream.
    async fn affects_others(
        &self,
        app: &App,
        session: &AgentSession,
        classification: &Classification,
    ) -> Result<bool, Problem> {
        let folder = normalised(session.working_directory().as_str()).unwrap_or_default();
        let changed = classification.findings.iter().filter(|finding| {
            !matches!(finding.effect.action_kind, ActionKind::Read | ActionKind::Search | ActionKind::Analyze)
        });
        let paths: BTreeSet<_> = changed.filter_map(|it| path_in(&folder, &it.subject)).collect();
        let own = &self.agent.brief().workstream;
        let of_others = paths.iter().map(async |path| {
            let traces = app.store.artifacts_at_path(self.project.id(), path, MAX_TRACES).await?;
            Ok::<_, Problem>(traces.iter().any(|trace| trace.workstream != *own))
        });
        Ok(try_join_all(of_others).await?.contains(&true))
    }

    fn judge(
        &self,
        call: &AuthorizeCall,
        listing: &Listing,
        session: &AgentSession,
        classification: &Classification,
    ) -> Verdict {
        let Self { project, agent, tick, affects_others } = self;
        let calibration = &project.definition().trust;
        let policy = Policy {
            mode: project.control_mode(),
            mode_protocol: &project.escalation(),
            agent_protocol: &agent.brief().escalation_protocol.clone().unwrap_or_default(),
            patterns: &project.definition().tool_patterns,
            guardrails: agent.brief().tool_guardrails(),
            approvals: agent.approvals(),
        };
        let call = ToolCall {
            tool: &call.tool,
            listing,
            session_id: session.id(),
            effects: &classification.effects,
            patterns: classification.pattern.as_slice(),
            reported: call.reported.unwrap_or_default(),
            affects_multiple_workstreams: *affects_others,
            arguments: &call.arguments,
        };
        let profile = agent.trust_under(calibration, *tick);
        let trust = AgentTrust {
            score: profile.score(*tick, calibration),
            profile: &profile,
            minimum_approval_rate: calibration.config.escalate_below_approval_rate,
        };
        evaluate(&policy, &call, &trust)
    }
}

/// The path of a file relative to the folder. `None` if it is outside, or no path.
fn path_in(folder: &str, subject: &str) -> Option<ArtifactPath> {
    let absolute = if subject.starts_with('/') { subject.to_owned() } else { format!("{folder}/{subject}") };
    let path = normalised(&absolute)?;
    ArtifactPath::try_from(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned()).ok()
}

/// The id of a verdict. A repeated request has the same one, and replaces the entry of the first.
fn verdict_id(session: AgentSessionId, run: RunId, call: &ToolCallId) -> VerdictId {
    VerdictId::new(Uuid::new_v5(&session.uuid(), format!("verdict\n{run}\n{call}").as_bytes()))
}

/// The effects of a call. A call of an adapter without a table is known by the project's patterns only.
fn classified(
    call: &AuthorizeCall,
    session: &AgentSession,
    project: &Project,
) -> Result<Classification, Problem> {
    let mut violations = Vec::new();
    let mut violated =
        |field: &str, message: String| violations.push(Violation { field: field.to_owned(), message });
    if call.changed_build_files.len() > AuthorizeCall::MAX_BUILD_FILES {
        let most = format!("must have at most {} entries", AuthorizeCall::MAX_BUILD_FILES);
        violated("changedBuildFiles", most);
    }
    let home = normalised(&call.home).unwrap_or_else(|| {
        violated("home", "must be an absolute path".to_owned());
        String::new()
    });
    if !violations.is_empty() {
        return Err(Problem::Invalid(violations));
    }
    let workspace = normalised(session.working_directory().as_str())
        .ok_or_else(|| Problem::internal("the working directory is not absolute"))?;
    let patterns = &project.definition().tool_patterns;
    let context = Context::new(&workspace, &workspace, &home, patterns)
        .map_err(Problem::internal)?
        .after_changes(&call.changed_build_files);
    let tool_call = pilothouse_classification::ToolCall {
        adapter: Adapter::named(session.settings().adapter.as_str()),
        tool: &call.tool,
        kind: call.kind.as_deref(),
        arguments: &call.arguments,
    };
    Ok(classify(&tool_call, &context))
}
