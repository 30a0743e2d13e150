//! Optional abilities of an agent: questions, plans, subagents, model changes, thinking levels, compaction.

use pilothouse_model_server::Request;
use serde_json::{Value, json};

use crate::fixture::{AgentFixture, Fault, Seen, allow};
use crate::verbs::Observed;

/// Number of other models to try.
const TRIES: usize = 4;

/// The agent asks a question and receives the answer.
pub(crate) async fn question(fixture: &AgentFixture) -> Seen<Observed> {
    if fixture.agent.has_model() && fixture.agent.question().is_none() {
        return Ok(Observed::No("it has no tool that asks".into()));
    }
    let session = fixture.session()?;
    let before = fixture.turn_count().await?;
    fixture.say("verb-question", "Queued").await?;
    let asked = fixture
        .wait("a question", async || {
            let view = session.view().await;
            let request = view["pendingRequests"][0].clone();
            if request["questions"][0]["question"] == "Which colour?" {
                return Some(Some(request));
            }
            if view["status"] == "Idle" && view["metrics"]["turnCount"].as_u64() > Some(before) {
                return Some(None);
            }
            allow(session, &view).await;
            None
        })
        .await?;
    let Some(request) = asked else { return Ok(Observed::No("its question did not reach its owner".into())) };
    let answers = json!([{ "question": "Which colour?", "answer": "Indigo" }]);
    fixture.post("/answer", json!({ "requestId": request["id"], "answers": answers })).await?;
    fixture.until_said("Answered.").await?;
    Ok(Observed::Yes)
}

/// The agent presents its plan, and the owner approves it.
pub(crate) async fn plan(fixture: &mut AgentFixture) -> Seen<Observed> {
    if fixture.agent.has_model() && fixture.agent.plan("").is_none() {
        return Ok(Observed::No("it has no tool that shows a plan".into()));
    }
    let before = if let Some(options) = fixture.agent.planning() {
        fixture.cancel().await?;
        // The session starts in plan mode, so later verbs need another one.
        fixture.is_over = true;
        fixture.start_with("verb-plan", &options).await?;
        0
    } else {
        let before = fixture.turn_count().await?;
        fixture.say("verb-plan", "Queued").await?;
        before
    };
    let session = fixture.session()?;
    let shown = fixture
        .wait("a plan", async || {
            let view = session.view().await;
            if view["status"] == "WaitingForApproval" {
                return Some(Some(view["pendingRequests"][0]["id"].clone()));
            }
            if view["status"] == "Idle" && view["metrics"]["turnCount"].as_u64() > Some(before) {
                return Some(None);
            }
            allow(session, &view).await;
            None
        })
        .await?;
    let Some(request) = shown else { return Ok(Observed::No("its plan did not reach its owner".into())) };
    let content = session.view().await["sessionPlan"]["content"].clone();
    if content != "1. Look around" {
        return Err(Fault(format!("the plan is shown as {content}")));
    }
    fixture.post("/plan/approve", json!({ "requestId": request })).await?;
    fixture.until(&["Idle"]).await?;
    Ok(Observed::Yes)
}

/// The agent starts a subagent, and the subagent is reported separately.
pub(crate) async fn subagent(fixture: &AgentFixture) -> Seen<Observed> {
    if fixture.agent.has_model() && fixture.agent.subagent("").is_none() {
        return Ok(Observed::No("it has no tool that starts one".into()));
    }
    turn(fixture, "verb-delegate").await?;
    Ok(if fixture.has_reported(&["subagent_started"]).await {
        Observed::Yes
    } else {
        Observed::No("its subagent was not told apart from it".into())
    })
}

/// The model is changed, and the agent calls the new one.
pub(crate) async fn model_switch(fixture: &mut AgentFixture) -> Seen<Observed> {
    let settings = fixture.session()?.view().await["agentSettings"].clone();
    let known = settings["availableModels"].as_array().cloned().unwrap_or_default();
    // The scripted model accepts every name, but an agent accepts only models of a provider that it has.
    let provider = |model: &Value| {
        let name = model.as_str().unwrap_or_default();
        name.split_once('/').map(|(provider, _)| provider.to_owned())
    };
    let current = &settings["modelId"];
    // `auto` lets a model select one first.
    let is_other =
        |model: &&Value| *model != current && *model != "auto" && provider(model) == provider(current);
    let others: Vec<_> = known.iter().filter(is_other).collect();
    if others.is_empty() {
        return Ok(Observed::NotApplicable);
    }
    // An agent may offer other tools to another model, so later verbs use a new session.
    fixture.is_over = fixture.agent.has_model();
    // The price of the other model may be unknown.
    fixture.session()?.patch("/budget", json!({ "allowUnmetered": true })).await;
    let asked = fixture.asked_since(0);
    let before = asked.last().map(model_of);
    // Several names may refer to the same model.
    for other in others.into_iter().take(TRIES) {
        if !adjusted(fixture, json!({ "modelId": other })).await? {
            return Ok(Observed::No(format!("the model {other} was refused")));
        }
        turn(fixture, "verb-model").await?;
        let since = fixture.asked_since(asked.len());
        if !fixture.agent.has_model() || since.iter().any(|request| Some(model_of(request)) != before) {
            return Ok(Observed::Yes);
        }
    }
    Ok(Observed::No(format!("the model that is called is still {before:?}")))
}

/// The thinking level is changed, and the requests of the agent contain the new level.
pub(crate) async fn thinking(fixture: &AgentFixture) -> Seen<Observed> {
    if fixture.declared().await["thinkingLevels"] != true {
        let reply = fixture.session()?.patch("", json!({ "thinkingLevel": "high" })).await;
        return Ok(if reply.status == 409 {
            Observed::No("the level is refused".into())
        } else {
            Observed::Yes
        });
    }
    let asked = fixture.asked_since(0);
    let before = asked.last().map(thinking_of).unwrap_or_default();
    let mut taken = false;
    // One of the levels is the default, so setting it changes nothing.
    for level in ["low", "high", "medium"] {
        if !adjusted(fixture, json!({ "thinkingLevel": level })).await? {
            continue;
        }
        taken = true;
        turn(fixture, "verb-thinking").await?;
        let since = fixture.asked_since(asked.len());
        if !fixture.agent.has_model() || since.iter().any(|request| thinking_of(request) != before) {
            return Ok(Observed::Yes);
        }
    }
    if taken && before.as_array().is_some_and(|fields| fields.iter().all(Value::is_null)) {
        // The current model does not support thinking.
        return Ok(Observed::NotApplicable);
    }
    Ok(Observed::No(if taken {
        format!("its model is still asked with {before}")
    } else {
        "every level was refused".into()
    }))
}

/// The agent summarises its conversation.
pub(crate) async fn compaction(fixture: &AgentFixture) -> Seen<Observed> {
    let asked = fixture.model.as_ref().map_or(0, |model| model.prompts().len());
    let reply = fixture.session()?.post("/compact", json!({})).await;
    if reply.status == 409 {
        return Ok(Observed::No("it is refused".into()));
    }
    if !settled(fixture).await? {
        return Ok(Observed::No("it was not done".into()));
    }
    // The summary requires a model call.
    let asked_since = fixture.model.as_ref().is_none_or(|model| model.prompts().len() > asked);
    Ok(if asked_since { Observed::Yes } else { Observed::No("no summary was written".into()) })
}

/// Sends a message and waits until its turn has ended.
async fn turn(fixture: &AgentFixture, words: &str) -> Seen<()> {
    let session = fixture.session()?;
    let before = fixture.turn_count().await?;
    fixture.say(words, "Queued").await?;
    fixture
        .wait("the end of a turn", async || {
            let view = session.view().await;
            allow(session, &view).await;
            let is_over = view["status"] == "Idle" && view["metrics"]["turnCount"].as_u64() > Some(before);
            is_over.then_some(())
        })
        .await
}

/// The model that a request names. Gemini requests name it in the path.
fn model_of(request: &Request) -> String {
    request.body["model"].as_str().unwrap_or(&request.path).to_owned()
}

fn thinking_of(request: &Request) -> Value {
    let fields = ["thinking", "reasoning", "reasoning_effort", "output_config"];
    let config = &request.body["generationConfig"]["thinkingConfig"];
    fields.iter().map(|field| request.body[*field].clone()).chain([config.clone()]).collect()
}

/// Returns whether the agent accepted the change.
async fn adjusted(fixture: &AgentFixture, change: Value) -> Seen<bool> {
    let reply = fixture.session()?.patch("", change).await;
    match reply.status {
        409 => Ok(false),
        status if status < 300 => settled(fixture).await,
        _ => Err(Fault(format!("the change was refused: {}", reply.text))),
    }
}

/// Returns whether the last change was applied.
async fn settled(fixture: &AgentFixture) -> Seen<bool> {
    let session = fixture.session()?;
    fixture.wait("the change", async || session.view().await["adjustments"].is_null().then_some(())).await?;
    let activity = session.activity().await;
    let mut ends = activity.iter().filter_map(|line| line["summary"].as_str());
    let last = ends.rfind(|summary| summary.starts_with("Done: ") || summary.starts_with("Not done: "));
    Ok(last.is_some_and(|summary| summary.starts_with("Done: ")))
}
