//! The commands and failures that are tested on each agent, each with its capability.

use serde_json::{Value, json};

use crate::abilities;
use crate::fixture::{AgentFixture, Fault, Overshoot, Seen, allow};
use crate::script::CALLS_OF_CAP;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Start,
    Permission,
    Steer,
    Queue,
    PauseInTool,
    PauseInCall,
    Interrupt,
    Continue,
    Cost,
    ContextUsage,
    BudgetCap,
    BudgetBeforeCall,
    KillSidecarIdle,
    KillSidecar,
    KillAgent,
    Question,
    Plan,
    Subagent,
    ModelSwitch,
    Thinking,
    Compaction,
    Cancel,
}

impl Verb {
    pub(crate) const ALL: [Self; 22] = [
        Self::Start,
        Self::Permission,
        Self::Steer,
        Self::Queue,
        Self::PauseInTool,
        Self::PauseInCall,
        Self::Interrupt,
        Self::Continue,
        Self::Cost,
        Self::ContextUsage,
        Self::BudgetCap,
        Self::BudgetBeforeCall,
        Self::KillSidecarIdle,
        Self::KillSidecar,
        Self::KillAgent,
        Self::Question,
        Self::Plan,
        Self::Subagent,
        Self::ModelSwitch,
        Self::Thinking,
        Self::Compaction,
        Self::Cancel,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Permission => "permission for a tool",
            Self::Steer => "steer within a turn",
            Self::Queue => "queue a message",
            Self::PauseInTool => "pause and resume in a tool",
            Self::PauseInCall => "pause and resume in a model call",
            Self::Interrupt => "interrupt a tool",
            Self::Continue => "message after an interrupt",
            Self::Cost => "spend is reported",
            Self::ContextUsage => "context usage is reported",
            Self::BudgetCap => "budget cap stops, raised cap continues",
            Self::BudgetBeforeCall => "cap is never passed",
            Self::KillSidecarIdle => "conversation survives a killed sidecar",
            Self::KillSidecar => "sidecar killed in a tool, retry",
            Self::KillAgent => "agent killed in a tool, retry",
            Self::Question => "asks its owner",
            Self::Plan => "shows a plan for approval",
            Self::Subagent => "subagents are told apart",
            Self::ModelSwitch => "switch the model",
            Self::Thinking => "set the thinking level",
            Self::Compaction => "compact the conversation",
            Self::Cancel => "cancel in a tool",
        }
    }

    /// `None` if every agent must support the verb.
    pub(crate) const fn capability(self) -> Option<&'static str> {
        Some(match self {
            Self::Permission => "approvals",
            Self::Steer => "steerMidTurn",
            Self::PauseInTool | Self::PauseInCall => "pause",
            // Without reported cost, a cap has no effect.
            Self::Cost | Self::BudgetCap => "cost",
            Self::ContextUsage => "contextUsage",
            Self::BudgetBeforeCall => "budgetBeforeCall",
            Self::KillSidecarIdle => "resumeConversation",
            Self::Question => "questions",
            Self::Plan => "plans",
            Self::Subagent => "subagents",
            Self::ModelSwitch => "modelSwitch",
            Self::Thinking => "thinkingLevels",
            Self::Compaction => "compaction",
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Observed {
    Yes,
    /// The agent lacks the ability. Describes what happened instead.
    No(String),
    /// The test could not decide. Describes what did not happen.
    Failed(String),
    /// The verb does not apply to this agent.
    NotApplicable,
}

#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) verb: Verb,
    pub(crate) declared: bool,
    pub(crate) observed: Observed,
}

impl Finding {
    /// Whether the observation matches the declaration.
    pub(crate) fn agrees(&self) -> bool {
        match self.observed {
            Observed::Yes => self.declared,
            Observed::No(_) => !self.declared,
            Observed::Failed(_) => false,
            Observed::NotApplicable => true,
        }
    }
}

/// Performs all verbs.
pub(crate) async fn drive(fixture: &mut AgentFixture) -> Vec<Finding> {
    let mut findings = Vec::new();
    for verb in Verb::ALL {
        let began = std::time::Instant::now();
        let observed = match perform(fixture, verb).await {
            Ok(observed) => observed,
            Err(Fault(why)) => Observed::Failed(why),
        };
        let declared = match verb.capability() {
            Some(capability) => fixture.declared().await[capability] == true,
            None => true,
        };
        let finding = Finding { verb, declared, observed };
        let mark = if finding.agrees() { "agrees" } else { "DIFFERS" };
        println!(
            "{}: {}: declared {declared}, observed {:?}: {mark} ({:.1?})",
            fixture.agent.name(),
            verb.name(),
            finding.observed,
            began.elapsed()
        );
        findings.push(finding);
    }
    findings
}

/// Starts another session after a failed verb, so that the session accepts a message.
async fn ready(fixture: &mut AgentFixture) -> Seen<()> {
    let status = match fixture.session() {
        Ok(session) => session.view().await["status"].as_str().unwrap_or_default().to_owned(),
        Err(_) => String::new(),
    };
    if matches!(status.as_str(), "Idle" | "Interrupted") && !fixture.is_over {
        return Ok(());
    }
    fixture.is_over = false;
    if let Ok(session) = fixture.session() {
        session.post("/cancel", json!({ "force": true })).await;
    }
    fixture.start("verb-start").await?;
    fixture.until_said("Started.").await.map(drop)
}

async fn perform(fixture: &mut AgentFixture, verb: Verb) -> Seen<Observed> {
    match verb {
        Verb::Cost => return cost(fixture).await,
        Verb::ContextUsage => return context_usage(fixture).await,
        // Observed together with the previous verb.
        Verb::Queue => return queue(fixture).await,
        Verb::BudgetBeforeCall => return Ok(budget_before_call(fixture).await),
        Verb::KillAgent if !fixture.agent.has_process() => return Ok(Observed::NotApplicable),
        Verb::Continue => {}
        _ => ready(fixture).await?,
    }
    match verb {
        Verb::Start => Ok(Observed::Yes),
        Verb::Permission => permission(fixture).await,
        Verb::Steer => steer(fixture).await,
        Verb::PauseInTool => pause_in_tool(fixture).await,
        Verb::PauseInCall => pause_in_call(fixture).await,
        Verb::Interrupt => interrupt(fixture).await,
        Verb::Continue => {
            fixture.say("verb-follow", "Queued").await?;
            fixture.until_said("Followed.").await?;
            Ok(Observed::Yes)
        }
        Verb::BudgetCap => budget_cap(fixture).await,
        Verb::KillSidecarIdle => kill_sidecar_idle(fixture).await,
        Verb::KillSidecar => {
            in_tool(fixture, "verb-sidecar-dies", "sidecar-dies").await?;
            fixture.kill_sidecars();
            retry(fixture, "sidecar-dies", "verb-first-retry", "Retried once.").await
        }
        Verb::KillAgent => {
            in_tool(fixture, "verb-agent-dies", "agent-dies").await?;
            if fixture.kill_agent() == 0 {
                return Err(Fault("the agent has no process".into()));
            }
            retry(fixture, "agent-dies", "verb-second-retry", "Retried twice.").await
        }
        Verb::Question => abilities::question(fixture).await,
        Verb::Plan => abilities::plan(fixture).await,
        Verb::Subagent => abilities::subagent(fixture).await,
        Verb::ModelSwitch => abilities::model_switch(fixture).await,
        Verb::Thinking => abilities::thinking(fixture).await,
        Verb::Compaction => abilities::compaction(fixture).await,
        Verb::Cancel => cancel(fixture).await,
        Verb::Queue | Verb::Cost | Verb::ContextUsage | Verb::BudgetBeforeCall => Ok(Observed::NotApplicable),
    }
}

/// Sends a message, and waits until its turn runs its tool. Returns whether the agent asked for a permission.
async fn in_tool(fixture: &AgentFixture, words: &str, marker: &str) -> Seen<bool> {
    fixture.say(words, "Queued").await?;
    fixture.until_in_tool(marker).await
}

/// Lets a tool end.
fn release(fixture: &AgentFixture, marker: &str) {
    std::fs::write(fixture.file(&format!("{marker}.go")), "").unwrap();
}

async fn permission(fixture: &AgentFixture) -> Seen<Observed> {
    let asked = in_permission(fixture).await?;
    fixture.until_said("Permitted.").await?;
    Ok(if asked { Observed::Yes } else { Observed::No("the tool ran without a question".into()) })
}

async fn in_permission(fixture: &AgentFixture) -> Seen<bool> {
    if fixture.agent.has_model() {
        return in_tool(fixture, "verb-permission", "permission").await;
    }
    fixture.say("verb-permission", "Queued").await?;
    Ok(false)
}

/// Sends one message into the turn and one for later. The number of turns shows whether the first one joined the turn.
async fn steer(fixture: &AgentFixture) -> Seen<Observed> {
    let before = fixture.turn_count().await?;
    in_tool(fixture, "verb-steer", "steer").await?;
    let message = fixture.say("steering-words", "Immediate").await?;
    fixture.say("queued-words", "Queued").await?;
    // If the agent cannot steer, the control plane keeps the message until the turn has ended.
    if fixture.declared().await["steerMidTurn"] == true {
        fixture.until_reported(&["message_ack", &message, "received"]).await?;
        // Some agents accept the message while the tool runs, others after the tool.
        fixture.settle(&message).await;
    }
    release(fixture, "steer");
    fixture.until_said("Queued.").await?;
    match fixture.turn_count().await? - before {
        2 => Ok(Observed::Yes),
        3 => Ok(Observed::No("the message started a new turn".into())),
        other => Err(Fault(format!("one turn with two messages became {other} turns"))),
    }
}

/// Observes whether the queued message of [`steer`] started its own turn.
async fn queue(fixture: &AgentFixture) -> Seen<Observed> {
    fixture.until_said("Queued.").await?;
    Ok(Observed::Yes)
}

async fn pause_in_tool(fixture: &AgentFixture) -> Seen<Observed> {
    in_tool(fixture, "verb-tool-pause", "tool-pause").await?;
    // The tool can start before the event of its turn is processed.
    fixture.until(&["Running"]).await?;
    fixture.post("/pause", json!({})).await?;
    fixture.until_reported(&["pause_ack", "received"]).await?;
    release(fixture, "tool-pause");
    fixture.until(&["Paused"]).await?;
    fixture.stands_still("tool-pause").await?;
    fixture.post("/resume", json!({})).await?;
    fixture.until_said("After the tool.").await?;
    Ok(Observed::Yes)
}

async fn pause_in_call(fixture: &AgentFixture) -> Seen<Observed> {
    let asked = fixture.model.as_ref().map_or(0, |model| model.prompts().len());
    fixture.say("verb-call-pause", "Queued").await?;
    if let Some(model) = &fixture.model {
        fixture.wait("a model call", async || (model.prompts().len() > asked).then_some(())).await?;
    }
    // The call may reach the model before the event of its turn reaches the control plane.
    fixture.until(&["Running"]).await?;
    let acknowledged = fixture.acknowledgements("pause_ack").await;
    fixture.post("/pause", json!({})).await?;
    fixture
        .wait("pause_ack", async || {
            (fixture.acknowledgements("pause_ack").await > acknowledged).then_some(())
        })
        .await?;
    if let Some(model) = &fixture.model {
        model.open("call");
    }
    fixture.until(&["Paused"]).await?;
    fixture.stands_still("call-pause").await?;
    if fixture.file("call-pause").exists() {
        return Err(Fault("the tool that the model called began before the resume".into()));
    }
    fixture.post("/resume", json!({})).await?;
    fixture.until_said("After the call.").await?;
    Ok(Observed::Yes)
}

async fn interrupt(fixture: &AgentFixture) -> Seen<Observed> {
    in_tool(fixture, "verb-interrupt", "interrupt").await?;
    fixture.until(&["Running"]).await?;
    fixture.post("/interrupt", json!({})).await?;
    fixture.until(&["Interrupted"]).await?;
    fixture.stands_still("interrupt").await?;
    Ok(Observed::Yes)
}

async fn cost(fixture: &AgentFixture) -> Seen<Observed> {
    let budget = fixture.session()?.view().await["budget"].clone();
    Ok(if budget["estimatedCostUsd"] == "0" {
        Observed::No("nothing was spent after several turns".into())
    } else {
        Observed::Yes
    })
}

async fn context_usage(fixture: &AgentFixture) -> Seen<Observed> {
    let view = fixture.session()?.view().await;
    Ok(if view["metrics"]["contextWindow"].is_object() {
        Observed::Yes
    } else {
        Observed::No("the context window is unknown after several turns".into())
    })
}

async fn budget_cap(fixture: &AgentFixture) -> Seen<Observed> {
    let session = fixture.session()?;
    let spent = async || decimal(&session.view().await["budget"]["estimatedCostUsd"]);
    let at_first = spent().await;
    fixture.say("verb-cost", "Queued").await?;
    fixture.until_said("Spent once.").await?;
    let (before, calls_before) = (spent().await, fixture.calls());
    let cap = (before - at_first) * f64::from(CALLS_OF_CAP);
    if cap <= 0.0 {
        return Ok(Observed::No("nothing was spent in a turn".into()));
    }
    let reply = session.patch("/budget", json!({ "capUsd": format!("{:.6}", before + cap) })).await;
    if reply.status >= 300 {
        return Ok(Observed::No(format!("the cap is refused: {}", reply.body["detail"])));
    }
    fixture.say("verb-spend", "Queued").await?;
    let view = fixture
        .wait("the end of the spending", async || {
            let view = session.view().await;
            let is = |status: &str| view["status"] == status;
            // The agent may be asking for a permission when its cap is reached; the control plane then refuses the answer.
            let stopped = view["budget"]["exhausted"] == true && (is("Paused") || is("WaitingForInput"));
            let spent_all = async || session.said().await.iter().any(|said| said.contains("All spent."));
            if is("Failed")
                || stopped
                || (is("Idle") && (view["budget"]["exhausted"] == true || spent_all().await))
            {
                return Some(view);
            }
            allow(session, &view).await;
            None
        })
        .await?;
    if view["budget"]["exhausted"] != true {
        return Ok(Observed::No(format!("the agent kept running: {}", view["failureReason"])));
    }
    fixture.stands_still("spending").await?;
    let calls_until_stop = fixture.calls() - calls_before;
    let overshoot = decimal(&session.view().await["budget"]["overshootUsd"]);
    let reply = session.patch("/budget", json!({ "capUsd": "1000" })).await;
    if reply.status >= 300 {
        return Err(Fault(format!("the cap was not raised: {}", reply.body["detail"])));
    }
    match session.view().await["status"].as_str() {
        Some("Paused") => fixture.post("/resume", json!({})).await.map(drop)?,
        Some("WaitingForInput") => {}
        _ => fixture.say("verb-spend finished-spending", "Queued").await.map(drop)?,
    }
    fixture.until_said("All spent.").await?;
    let percent = |spent: f64| whole((spent / cap * 100.0).round());
    // Agents that report cost at the end of a turn have reported by now.
    let shares = fixture.cost_shares(calls_before);
    let found = if shares.is_empty() {
        Overshoot { percent: percent(cap + overshoot), calls: 0 }
    } else {
        let all = spent().await - before;
        let until_stop = &shares[..calls_until_stop.min(shares.len())];
        let until = |calls: usize| all * until_stop.iter().take(calls).sum::<f64>();
        let until_cap = (0..=until_stop.len()).find(|calls| until(*calls) >= cap);
        let calls = until_cap.map_or(0, |calls| until_stop.len() - calls);
        Overshoot { percent: percent(until(until_stop.len())), calls }
    };
    *fixture.overshoot.lock().unwrap() = Some(found);
    within_bound(fixture, found)
}

/// 0 if the number is negative or not finite.
fn whole(number: f64) -> usize {
    format!("{number:.0}").parse().unwrap_or_default()
}

/// The call that reaches the cap may exceed it, but no further call may begin.
fn within_bound(fixture: &AgentFixture, found: Overshoot) -> Seen<Observed> {
    if found.calls > fixture.agent.calls_after_cap() {
        return Err(Fault(format!("{} model calls began after the cap was reached", found.calls)));
    }
    Ok(Observed::Yes)
}

/// Whether spending in [`budget_cap`] stayed within the cap, and the agent declares that it always does.
async fn budget_before_call(fixture: &AgentFixture) -> Observed {
    let found = *fixture.overshoot.lock().unwrap();
    let promises = fixture.declared().await["budgetBeforeCall"] == true;
    match found {
        None => Observed::NotApplicable,
        Some(Overshoot { percent, .. }) if percent <= 100 && promises => Observed::Yes,
        Some(Overshoot { percent, calls: 0 }) => Observed::No(format!("{percent} %")),
        Some(Overshoot { percent, calls }) => {
            Observed::No(format!("{percent} %, {calls} calls after it was reached"))
        }
    }
}

async fn kill_sidecar_idle(fixture: &AgentFixture) -> Seen<Observed> {
    let session = fixture.session()?;
    fixture.kill_sidecars();
    fixture.wait("hibernation", async || (session.view().await["hibernated"] == true).then_some(())).await?;
    fixture.say("verb-wake", "Queued").await?;
    fixture.until_said("Awake.").await?;
    if fixture.has_reported(&["conversation_lost"]).await {
        return Ok(Observed::No("the agent began a new conversation".into()));
    }
    // Skips side requests, which match no step of the script.
    let last =
        fixture.model.as_ref().and_then(|model| model.prompts().into_iter().rfind(|p| p.step.is_some()));
    match last {
        Some(prompt) if !prompt.text().contains("verb-start") => {
            Ok(Observed::No("the model was not sent the conversation".into()))
        }
        _ => Ok(Observed::Yes),
    }
}

/// After a kill during a tool: the session fails, the tool leaves no process, and a retry continues.
async fn retry(fixture: &AgentFixture, marker: &str, instruction: &str, answer: &str) -> Seen<Observed> {
    fixture.until(&["Failed"]).await?;
    fixture.stands_still(marker).await?;
    fixture.post("/retry", json!({ "additionalInstruction": instruction })).await?;
    fixture.until_said(answer).await?;
    Ok(Observed::Yes)
}

async fn cancel(fixture: &AgentFixture) -> Seen<Observed> {
    in_tool(fixture, "verb-cancel", "cancel").await?;
    fixture.post("/cancel", json!({})).await?;
    fixture.until(&["Cancelled"]).await?;
    fixture.stands_still("cancel").await?;
    fixture
        .wait("the end of the sidecar", async || fixture.server.sidecars().is_empty().then_some(()))
        .await?;
    Ok(Observed::Yes)
}

fn decimal(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
