//! Plays a scenario on a control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_client::inputs::{DecisionFilter, EnqueueMessage, PageQuery, PullBrake};
use pilothouse_client::{ApiError, ArtifactFilter, Client, CoherenceFilter, RecordFilter};
use pilothouse_domain::brake::{BrakeBehavior, BrakeScope};
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{BrakeId, CoherenceIssueId, DecisionId, ProjectAgentId, ProjectId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::format::{Act, Expectation, Play, Scenario, Step};

/// Time between two reads while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const PAGE: PageQuery = PageQuery { limit: Some(100), cursor: None };

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("there is no scenario `{0}`, only {known}", known = Scenario::NAMES.join(", "))]
    Unknown(String),
    #[error("the scenario has no `{0}`")]
    Missing(String),
    #[error("the scenario is not valid: {0}")]
    Data(#[from] serde_json::Error),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("`{what}` took longer than {seconds} s: {found}")]
    Late { what: String, seconds: u64, found: String },
}

/// How a scenario is played.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The capability profile of the agents.
    pub profile: String,
    /// Divides the times of the scripts. 0 does not wait at all.
    pub speed: f64,
    /// The working directory of the agents.
    pub folder: PathBuf,
    /// The longest wait for a state of the agents.
    pub patience: Duration,
}

/// A play with its project.
#[derive(Debug)]
pub struct ScenarioPlayer<'a> {
    client: &'a Client,
    play: &'a Play,
    settings: Settings,
    project: ProjectId,
    agents: BTreeMap<String, ProjectAgentId>,
    brake: Option<BrakeId>,
}

impl<'a> ScenarioPlayer<'a> {
    /// Writes the files and creates the project. Steps spawn its agents.
    ///
    /// # Errors
    /// [`ScenarioError`] if the play or its profile is unknown, or a request fails.
    pub async fn begin(
        client: &'a Client,
        scenario: &'a Scenario,
        play: &str,
        settings: Settings,
    ) -> Result<Self, ScenarioError> {
        let missing = |what: String| ScenarioError::Missing(what);
        let found = scenario.plays.iter().find(|it| it.name == play);
        let play = found.ok_or_else(|| missing(format!("play {play}")))?;
        if !play.profiles.contains(&settings.profile) {
            let known = play.profiles.join(", ");
            return Err(missing(format!("profile {}, only {known}", settings.profile)));
        }
        for (name, text) in &scenario.files {
            let path = settings.folder.join(name);
            std::fs::write(&path, text).map_err(|source| ScenarioError::File { path, source })?;
        }
        let project = client.create_project(&scenario.project).await?.id;
        Ok(Self { client, play, settings, project, agents: BTreeMap::new(), brake: None })
    }

    pub const fn project(&self) -> ProjectId {
        self.project
    }

    /// # Errors
    /// [`ScenarioError::Missing`] before the agent is spawned.
    pub fn agent(&self, name: &str) -> Result<ProjectAgentId, ScenarioError> {
        self.agents.get(name).copied().ok_or_else(|| ScenarioError::Missing(format!("agent {name}")))
    }

    /// The steps for the profile.
    pub fn steps(&self) -> impl Iterator<Item = &'a Step> + use<'a> {
        let profile = self.settings.profile.clone();
        self.play.steps.iter().filter(move |step| is_for(&step.profiles, &profile))
    }

    /// The expectations for the profile.
    pub fn expectations(&self) -> impl Iterator<Item = &'a Expectation> + use<'a> {
        let profile = self.settings.profile.clone();
        self.play.expect.iter().filter(move |expected| is_for(&expected.profiles, &profile))
    }

    /// # Errors
    /// [`ScenarioError::Late`] if a wait of the step takes too long, or a request fails.
    pub async fn perform(&mut self, step: &Step) -> Result<(), ScenarioError> {
        let (client, title) = (self.client, &*step.title);
        match &step.act {
            Act::Spawn(name) => self.spawn(name).await,
            Act::Send { agent, text } => {
                let session = client.agent(self.agent(agent)?).await?.session_id;
                let message = EnqueueMessage::new(text.clone(), MessagePriority::Immediate);
                Ok(client.enqueue(session, &message).await.map(drop)?)
            }
            Act::Decide { agent, request, kind, resolution } => {
                let id = self.decision(title, agent, request.as_deref(), kind.as_deref()).await?;
                Ok(client.resolve_decision(id, resolution).await.map(drop)?)
            }
            Act::Pause(name) => Ok(client.pause_agent(self.agent(name)?).await.map(drop)?),
            Act::Resume(name) => Ok(client.resume_agent(self.agent(name)?).await.map(drop)?),
            Act::Kill(name) => Ok(client.kill_agent(self.agent(name)?, true, None).await.map(drop)?),
            Act::Brake { reason } => self.pull_brake(title, reason).await,
            Act::Release {} => {
                let brake = self.brake.take().ok_or_else(|| ScenarioError::Missing("brake".to_owned()))?;
                Ok(client.release_brake(brake, None, None).await.map(drop)?)
            }
            Act::Mode { mode, restart_agents } => {
                Ok(client.set_control_mode(Some(self.project), *mode, *restart_agents).await.map(drop)?)
            }
            Act::Project(changes) => Ok(client.update_project(self.project, changes).await.map(drop)?),
            Act::Brief { agent, changes } => {
                Ok(client.update_brief(self.agent(agent)?, changes).await.map(drop)?)
            }
            Act::Approve { path } => self.approve(title, path).await,
            Act::Audit {} => Ok(client.audit_coherence(Some(self.project)).await.map(drop)?),
            Act::Confirm { issue } => {
                let id = self.issue(title, issue).await?;
                Ok(client.confirm_coherence_issue(id).await.map(drop)?)
            }
            Act::Advance(ticks) => Ok(client.advance_ticks(Some(self.project), *ticks).await.map(drop)?),
            Act::Until { agent, view, session } => self.until_state(title, agent, view, session).await,
            Act::UntilMessage { agent, contains, times } => {
                self.until_message(title, agent, contains, *times).await
            }
        }
    }

    async fn spawn(&mut self, name: &str) -> Result<(), ScenarioError> {
        let found = self.play.agents.iter().find(|actor| actor.name == name);
        let actor = found.ok_or_else(|| ScenarioError::Missing(format!("agent {name}")))?;
        let Settings { profile, speed, folder, .. } = &self.settings;
        let mut brief = actor.brief.clone();
        brief.insert("adapter".to_owned(), "script".into());
        let options = json!({ "script": actor.script, "speed": speed, "capabilities": profile });
        brief.insert("providerConfig".to_owned(), options);
        let agent = json!({
            "projectId": self.project, "objective": actor.objective, "brief": brief, "workingDirectory": folder,
            "budgetCapUsd": "5",
        });
        let spawned = self.client.spawn_agent(&agent).await?;
        self.agents.insert(name.to_owned(), spawned.agent.id);
        Ok(())
    }

    async fn decision(
        &self,
        title: &str,
        agent: &str,
        request: Option<&str>,
        kind: Option<&str>,
    ) -> Result<DecisionId, ScenarioError> {
        let id = self.agent(agent)?;
        let look = async || {
            let session = self.client.agent(id).await?.session_id;
            let filter = DecisionFilter { session: Some(session), ..DecisionFilter::default() };
            let pending = self.client.decisions(&filter, &PAGE).await?.items;
            let pending = pending.iter().map(|decision| Ok((decision.id, serde_json::to_value(decision)?)));
            let pending = pending.collect::<Result<Vec<_>, ScenarioError>>()?;
            let is_it = |decision: &Value| {
                request.is_none_or(|request| decision["requestId"] == request)
                    && kind.is_none_or(|kind| decision["kind"] == kind)
            };
            let found = pending.iter().find(|(_, decision)| is_it(decision)).map(|(id, _)| *id);
            Ok(found.ok_or_else(|| json!(pending.into_iter().map(|it| it.1).collect::<Vec<_>>())))
        };
        self.until(title, look).await
    }

    async fn pull_brake(&mut self, title: &str, reason: &str) -> Result<(), ScenarioError> {
        let brake = PullBrake {
            scope: BrakeScope::Project { project_id: self.project },
            reason: reason.to_owned(),
            behavior: BrakeBehavior::Pause,
            release_after_seconds: None,
            release_condition: None,
        };
        let id = self.client.pull_brake(&brake).await?.summary.id;
        self.brake = Some(id);
        let look = async || {
            let brake = self.client.brake(id).await?;
            let is_over = brake.confirmed_count == brake.summary.session_count;
            Ok(if is_over { Ok(()) } else { Err(value(&brake)?) })
        };
        self.until(title, look).await
    }

    async fn approve(&self, title: &str, path: &str) -> Result<(), ScenarioError> {
        let filter = ArtifactFilter { project: Some(self.project), ..ArtifactFilter::default() };
        let look = async || {
            let artifacts = self.client.artifacts(&filter, &PAGE).await?.items;
            let artifacts = artifacts.iter().map(|it| Ok((it.id, it.version, value(it)?)));
            let artifacts = artifacts.collect::<Result<Vec<_>, ScenarioError>>()?;
            let found = artifacts.iter().find(|(.., it)| it["path"] == path);
            Ok(found.map(|(id, version, _)| (*id, *version)).ok_or_else(|| json!(artifacts.len())))
        };
        let (id, version) = self.until(title, look).await?;
        Ok(self.client.approve_artifact(id, version).await.map(drop)?)
    }

    async fn issue(
        &self,
        title: &str,
        wanted: &Map<String, Value>,
    ) -> Result<CoherenceIssueId, ScenarioError> {
        let filter = CoherenceFilter { project: Some(self.project), ..CoherenceFilter::default() };
        let look = async || {
            let issues = self.client.coherence_issues(&filter, &PAGE).await?.items;
            let issues = issues.iter().map(|issue| Ok((issue.id, value(issue)?)));
            let issues = issues.collect::<Result<Vec<_>, ScenarioError>>()?;
            let found = issues.iter().find(|(_, issue)| has_all(issue, wanted)).map(|(id, _)| *id);
            Ok(found.ok_or_else(|| json!(issues.into_iter().map(|it| it.1).collect::<Vec<_>>())))
        };
        self.until(title, look).await
    }

    async fn until_state(
        &self,
        title: &str,
        agent: &str,
        view: &Map<String, Value>,
        session: &Map<String, Value>,
    ) -> Result<(), ScenarioError> {
        let id = self.agent(agent)?;
        let look = async || {
            let agent = self.client.agent(id).await?;
            let found_session = value(&self.client.session(agent.session_id).await?)?;
            let found_view = value(&agent)?;
            let holds = has_all(&found_view, view) && has_all(&found_session, session);
            Ok(if holds { Ok(()) } else { Err(json!([found_view, found_session])) })
        };
        self.until(title, look).await
    }

    async fn until_message(
        &self,
        title: &str,
        agent: &str,
        part: &str,
        times: usize,
    ) -> Result<(), ScenarioError> {
        let id = self.agent(agent)?;
        let filter = RecordFilter { page_query: PAGE, ..RecordFilter::default() };
        let look = async || {
            let session = self.client.agent(id).await?.session_id;
            let messages = value(&self.client.messages(session, &filter).await?.items)?;
            let items = messages.as_array().into_iter().flatten();
            let texts = items.filter_map(|message| message["content"].as_str());
            let holds = texts.filter(|text| text.contains(part)).count() >= times;
            Ok(if holds { Ok(()) } else { Err(messages) })
        };
        self.until(title, look).await
    }

    /// Repeats `look` until it succeeds. The inner error describes the state that it found instead.
    async fn until<T>(
        &self,
        what: &str,
        look: impl AsyncFn() -> Result<Result<T, Value>, ScenarioError>,
    ) -> Result<T, ScenarioError> {
        let limit = self.settings.patience;
        let until = Instant::now() + limit;
        loop {
            match look().await? {
                Ok(found) => return Ok(found),
                Err(found) if Instant::now() >= until => {
                    let (what, seconds, found) = (what.to_owned(), limit.as_secs(), format!("{found:#}"));
                    return Err(ScenarioError::Late { what, seconds, found });
                }
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }
}

fn is_for(profiles: &[String], profile: &str) -> bool {
    profiles.is_empty() || profiles.iter().any(|it| it == profile)
}

fn value(view: &impl Serialize) -> Result<Value, ScenarioError> {
    Ok(serde_json::to_value(view)?)
}

/// Whether the view has these values, by JSON pointer. An absent value is `null`.
fn has_all(view: &Value, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(pointer, expected)| view.pointer(pointer).unwrap_or(&Value::Null) == expected)
}
