//! `POST /api/agents/skills/{id}/consolidate`: starts a session that folds a skill's memory pills into its instructions
//! (S0 8.7 `StartSkillConsolidationCommand`; docs/decisions/0011).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{NewSession, SessionSettings};
use pilothouse_domain::text::{
    AdapterName, InvalidText, ModelId, Objective, SessionName, WorkingDirectory, cut,
};
use pilothouse_domain::value::SessionBudget;
use pilothouse_domain::{AgentSessionId, AgentSkill, AgentSkillId, IdSource as _, Usd};
use pilothouse_store::{CommitError, Store};
use schemars::JsonSchema;
use serde_json::Value;

use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Said, Violations, maybe};
use crate::edge::{Id, Problem};
use crate::sessions::start::{cap, fitting_options, show_key, started};

/// Where and with what the session works.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consolidate {
    /// Where its agent runs: an absolute path.
    #[deserr(try_from(String) = WorkingDirectory::try_from -> InvalidText)]
    pub working_directory: WorkingDirectory,
    /// The most dollars that it may spend.
    #[deserr(try_from(String) = cap -> Said)]
    pub budget_cap_usd: Usd,
    /// Its model. Default: the adapter's own.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub model_id: Option<ModelId>,
    /// What drives its agent. Default: `script`.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    #[deserr(default, try_from(Option<Value>) = fitting_options -> Said)]
    pub adapter_options: Option<Value>,
}

impl Consolidate {
    fn new_session(&self, id: AgentSessionId, skill: &AgentSkill) -> Result<NewSession, Problem> {
        let objective = format!(
            "Skill Improvement: fold what agents learned, {} memory pills, into the instructions of the skill \"{}\".",
            skill.active_pills().len(),
            skill.name()
        );
        let defaults = SessionSettings::default();
        let model = self.model_id.clone().map_or_else(|| ModelId::parse("default"), Ok);
        Ok(NewSession {
            id,
            owner_id: skill.owner_id().clone(),
            template_id: None,
            name: SessionName::parse(cut(&format!("Improve {}", skill.name()), SessionName::MAX)).ok(),
            working_directory: self.working_directory.clone(),
            objective: Objective::parse(objective).map_err(Problem::internal)?,
            model_id: model.map_err(Problem::internal)?,
            budget: SessionBudget::new(self.budget_cap_usd, SessionBudget::DEFAULT_WARN_AT_PERCENT)
                .map_err(Problem::internal)?,
            auto_continue: None,
            settings: SessionSettings {
                adapter: self.adapter.clone().unwrap_or(defaults.adapter),
                adapter_options: self.adapter_options.clone().unwrap_or(defaults.adapter_options),
                plan_approval_required: false,
                ..SessionSettings::default()
            },
        })
    }
}

/// 201 with the session, 202 while it waits for a slot; 409 `consolidation-under-way` and `nothing-to-consolidate`. The
/// session and the skill that knows of it are committed together.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    body: Body<Consolidate>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    for attempt in 0..64 {
        if let Some(mut answer) = call.earlier_answer(&app.store).await? {
            show_key(&app, &mut answer);
            return Ok(answer);
        }
        let mut skill = app.owned_of::<AgentSkill>(&call, id).await?;
        call.check(skill.version)?;
        let session_id = AgentSessionId::new(FreshIds.fresh());
        let cause = || Cause::Owner { function: call.function.to_owned() };
        let events = skill.value.start_consolidation(session_id, &app.occasion(&mut FreshIds))?;
        let new = body.input.new_session(session_id, &skill.value)?;
        let mut opening = app
            .prepare_session(&call.owner, cause(), new, |conversation, _, _| {
                conversation.session.is_to_consolidate(id);
                Ok(Vec::new())
            })
            .await?;
        app.record_owned(&mut opening.commit, &skill, cause(), events)?;

        let mut answer = started(&opening)?;
        call.keep_answer(&mut opening.commit, &answer, &app)?;
        match app.store.commit(opening.commit).await {
            Ok(()) => {
                show_key(&app, &mut answer);
                return Ok(answer);
            }
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
