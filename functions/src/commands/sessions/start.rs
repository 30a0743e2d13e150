//! `POST /api/agents/sessions`: creates a session and tries to lease a slot in the same transaction (decision 20).

use std::collections::BTreeMap;

use axum::extract::State;
use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_api::Violation;
use pilothouse_api::input::{FieldError, ImageInput, Violations};
use pilothouse_api::sessions::StartedSession;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::START;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::session_config::skills_to_start_with;
use pilothouse_app::session_start::show_key;
use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::template::SessionSpec;
use pilothouse_domain::text::{AdapterName, AnswerText, ModelId, Objective, SessionName, WorkingDirectory};
use pilothouse_domain::value::{AutoContinueConfig, ContextPolicy, ExecutionMode, ThinkingLevel};
use pilothouse_domain::{AgentSkillId, AgentTemplateId, SessionChainId, Usd};
use schemars::JsonSchema;
use serde_json::Value;

use crate::fields::{fitting_options, listed_skills, maybe_cap, percent};
use crate::images::{self, BodyWithImages};
use crate::session_options::input_with_session_options;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-start", Verb::Post, "/api/agents/sessions", |verb| verb.route(start_session))
        .owner()
        .summary("Start a session")
        .input::<StartSession>()
        .output::<StartedSession>(&[201, 202])
        .requires(START);

input_with_session_options! {
    /// The parameters of a new session (S0 8.7 `StartAgentSessionCommand`; decision 20 for the ad-hoc fields).
    #[derive(Debug, Clone, Deserr, JsonSchema)]
    #[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
    #[schemars(rename_all = "camelCase", deny_unknown_fields)]
    pub struct StartSession {
        /// The working directory of the agent: an absolute path.
        pub working_directory: WorkingDirectory,
        /// The task of the agent.
        pub objective: Objective,
        /// The images of the objective: at most 8. An agent that cannot receive images gets only the text. Default: none.
        #[deserr(default)]
        #[schemars(default, length(max = 8))]
        pub images: Vec<ImageInput>,
        /// The template of the session. It supplies the fields that this request omits.
        #[deserr(default)]
        pub template_id: Option<AgentTemplateId>,
        /// Ids of the skills to enable, in order. Default: the skills of the template.
        #[deserr(default, try_from(Option<Vec<String>>) = listed_skills -> FieldError)]
        pub skill_ids: Option<Vec<AgentSkillId>>,
        /// The budget cap in US dollars. Required unless `templateId` is given.
        #[deserr(default, try_from(Option<String>) = maybe_cap -> FieldError)]
        pub budget_cap_usd: Option<Usd>,
        /// The percentage of the cap at which the owner is warned. Default: 80.
        #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
        #[schemars(range(min = 1, max = 99))]
        pub warn_at_percent: Option<u8>,
        /// Whether the session may run although its cost is unknown, so that the cap cannot be enforced. The cost is unknown when the
        /// agent reports neither its cost nor the tokens of a model with a known price. Default: `false`. Such a session then stops
        /// before its first model call, or is refused with 409 `unmetered` when an earlier session was unmetered.
        #[deserr(default)]
        pub allow_unmetered: Option<bool>,
        /// The name of the session. Default: derived from the objective.
        #[deserr(default)]
        pub name: Option<SessionName>,
        /// The model of the agent. Default: `default`, the default model of the adapter.
        #[deserr(default)]
        pub model_id: Option<ModelId>,
        /// The thinking level of the agent: `off`, `minimal`, `low`, `medium`, `high` or `max`. Default: the adapter's default.
        #[deserr(default)]
        pub thinking_level: Option<ThinkingLevel>,
        /// The adapter that drives the agent. Default: that of the template, or else of the server, which the first `pilothouse up`
        /// chooses from the agents that are installed.
        #[deserr(default)]
        pub adapter: Option<AdapterName>,
        /// Options that the adapter defines. At most 64 KiB of JSON.
        #[deserr(default, try_from(Option<Value>) = fitting_options -> FieldError)]
        pub adapter_options: Option<Value>,
        /// Names of the tools that the agent may use. Default: the tools of the template, or else of the adapter.
        #[deserr(default, try_from(Vec<String>) = tools -> FieldError)]
        #[schemars(length(max = 200), inner(length(min = 1, max = 200)))]
        pub allowed_tools: Vec<String>,
        /// How the session is executed. Default: `Standalone`.
        #[deserr(default)]
        pub execution_mode: Option<ExecutionMode>,
        /// Labels for the owner's own use: at most 20.
        #[deserr(default, try_from(BTreeMap<String, String>) = fitting_labels -> FieldError)]
        pub labels: BTreeMap<String, String>,
        ..plan_approval,
        ..request_options,
        ..idle_timeouts,
        ..retries,
        ..context_policy,
        /// The chain that the session continues. The chain's current session must be over. The budget cap then applies to the chain.
        #[deserr(default)]
        pub chain_id: Option<SessionChainId>,
        /// The conditions for automatic continuation. Default: none.
        #[deserr(default)]
        pub auto_continue_config: Option<AutoContinueConfig>,
    }
}

/// Reads [`StartSession`] and reports a missing budget cap together with all other violations.
#[derive(Debug, Clone)]
pub struct Start(pub StartSession);

impl Deserr<Violations> for Start {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        place: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let value: Value = Deserr::<Violations>::deserialize_from_value(value, place)?;
        let says = |field| value.get(field).is_some_and(|said| !said.is_null());
        let lacks_cap = value.is_object() && !says("budgetCapUsd") && !says("templateId");
        let read = StartSession::deserialize_from_value(value.into_value(), place);
        if !lacks_cap {
            return read.map(Self);
        }
        let mut all = read.err().unwrap_or_default();
        all.0.push(Violation { field: "budgetCapUsd".to_owned(), message: "is missing".to_owned() });
        Err(all)
    }
}

fn tools(tools: Vec<String>) -> Result<Vec<String>, FieldError> {
    if tools.len() > 200 || tools.iter().any(|t| t.trim().is_empty() || t.chars().count() > 200) {
        return Err(FieldError("must be at most 200 names of 1 to 200 characters".to_owned()));
    }
    Ok(tools)
}

fn fitting_labels(labels: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, FieldError> {
    let fits = |k: &str, v: &str| (1..=63).contains(&k.chars().count()) && v.chars().count() <= 200;
    if labels.len() > 20 || !labels.iter().all(|(k, v)| fits(k, v)) {
        return Err(FieldError(
            "must be at most 20 labels, with names of 1 to 63 and values of up to 200 characters".to_owned(),
        ));
    }
    Ok(labels)
}

impl StartSession {
    fn order(&self) -> SessionSpec {
        SessionSpec {
            name: self.name.clone(),
            model_id: self.model_id.clone(),
            thinking_level: self.thinking_level,
            budget_cap_usd: self.budget_cap_usd,
            warn_at_percent: self.warn_at_percent,
            allow_unmetered: self.allow_unmetered,
            skill_ids: self.skill_ids.clone(),
            auto_continue: self.auto_continue_config.clone(),
            execution_mode: self.execution_mode,
            adapter: self.adapter.clone(),
            adapter_options: self.adapter_options.clone(),
            allowed_tools: self.allowed_tools.clone(),
            labels: self.labels.clone(),
            options: self.session_options(),
            ..SessionSpec::new(self.working_directory.clone(), self.objective.clone())
        }
    }
}

/// Responds with 201 when the session has a slot, or with 202 when it is Queued. Both responses contain the session's API
/// key, which is not shown again.
///
/// Responds with 409 `unmetered` when an earlier session showed that the cost of the agent is unknown, and with 409
/// `template-inactive` while the template is deactivated. The session copies the present defaults of the template (S0 8.7).
async fn start_session(
    State(app): State<App>,
    command: CommandContext,
    body: BodyWithImages<Start>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let Start(input) = &body.input;
    if let Some(mut response) = command.earlier_response(&app.store).await? {
        show_key(&app, &mut response);
        return Ok(response);
    }
    let images = images::received(&input.images)?;
    let skills = input.skill_ids.as_deref().unwrap_or_default();
    skills_to_start_with(&app, &command.owner, "skillIds", skills, &input.allowed_tools).await?;
    let template = app.template_to_start_with(&command.owner, input.template_id).await?;
    let mut plan = app.plan_session(&command.owner, input.order(), template.as_ref()).await?;
    plan.chain = input.chain_id;
    app.refuse_unmetered(&plan.session.new).await?;
    let id = plan.session.new.id;
    plan.images = images::references(&images, id);
    let store_images = async || images::store(&app, &images, id).await;
    app.open_for_owner(&command, &plan, Ok, store_images).await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_app::http::body::read;

    use super::*;

    fn violations(json: &str) -> Vec<(String, String)> {
        match read::<Start>(json.as_bytes()) {
            Err(Problem::Invalid(all)) => all.into_iter().map(|v| (v.field, v.message)).collect(),
            Err(other) => vec![(String::new(), other.to_string())],
            Ok(_) => Vec::new(),
        }
    }

    fn fields(json: &str) -> Vec<String> {
        let mut fields: Vec<_> = violations(json).into_iter().map(|(field, _)| field).collect();
        fields.sort();
        fields
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let objective = "x".repeat(2001);
        let json = format!(
            r#"{{ "workingDirectory": "here", "objective": "{objective}", "budgetCapUsd": "-1", "warnAtPercent": 100,
                 "labels": 7, "colour": "red", "planApprovalRequired": "yes" }}"#
        );
        let wrong = [
            "budgetCapUsd",
            "colour",
            "labels",
            "objective",
            "planApprovalRequired",
            "warnAtPercent",
            "workingDirectory",
        ];
        assert_eq!(fields(&json), wrong);
    }

    #[test]
    fn missing_fields_are_named() {
        assert_eq!(fields(""), ["budgetCapUsd", "objective", "workingDirectory"]);
        assert_eq!(fields("{}"), ["budgetCapUsd", "objective", "workingDirectory"]);
    }

    #[test]
    fn template_makes_the_budget_cap_optional() {
        let of = |cap: &str| {
            let id = "01900000-0000-7000-8000-000000000001";
            format!(r#"{{ "workingDirectory": "/w", "objective": "Do it", "templateId": "{id}"{cap} }}"#)
        };
        assert_eq!(violations(&of("")), []);
        assert_eq!(fields(&of(r#", "budgetCapUsd": "x""#)), ["budgetCapUsd"]);
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": "Do it", "templateId": null }"#),
            ["budgetCapUsd"]
        );
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": "Do it", "templateId": "x" }"#),
            ["templateId"]
        );
    }

    #[test]
    fn a_zero_budget_and_an_empty_objective_are_refused() {
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": " ", "budgetCapUsd": "0" }"#),
            ["budgetCapUsd", "objective"]
        );
    }

    #[test]
    fn invalid_json_and_non_objects_are_refused() {
        assert!(violations("{").iter().any(|(_, message)| message.starts_with("the body is not JSON")));
        assert_eq!(violations("[]"), [(String::new(), "must be map, but is sequence".to_owned())]);
    }

    #[test]
    fn valid_input_is_accepted() {
        let json =
            r#"{ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1.50", "name": null }"#;
        assert_eq!(violations(json), []);
    }
}
