//! The conformance program: runs a shim through the protocol, and returns a finding for each step.
//!
//! | module | purpose |
//! |---|---|
//! | here | the steps, in order |
//! | [`subject`] | the shim under test: its process, its events, and the answers to its decisions |

mod subject;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use self::subject::{Subject, brief};
use crate::START_POLL;
use crate::error::{CallError, PluginError};
use crate::message::{AgentState, ContextInjection, Resolution};

/// The shim to check.
#[derive(Debug, Clone)]
pub struct Checked {
    pub program: String,
    pub arguments: Vec<String>,
    /// The task of the agent. It should need no tool that changes anything.
    pub task: String,
    /// How long the shim may take to start, and the agent for a turn.
    pub limit: Duration,
}

/// A finding of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Failed {
        why: String,
    },
    /// The shim does not declare what the step needs.
    Skipped {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub step: &'static str,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// How long a disconnected shim may take to emit an event.
const MISSED: Duration = Duration::from_secs(1);

/// The error is a sentence for people.
type Outcome = Result<(), String>;

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Returns whether the step passed.
    fn add(&mut self, step: &'static str, outcome: Outcome) -> bool {
        let verdict = outcome.map_or_else(|why| Verdict::Failed { why }, |()| Verdict::Passed);
        let has_passed = verdict == Verdict::Passed;
        self.0.push(Finding { step, verdict });
        has_passed
    }

    fn skip(&mut self, step: &'static str, why: &str) {
        self.0.push(Finding { step, verdict: Verdict::Skipped { why: why.to_owned() } });
    }
}

/// Runs all steps. A step whose precondition failed is left out.
pub async fn check(checked: &Checked) -> Vec<Finding> {
    let mut findings = Findings::default();
    steps(checked, &mut findings).await;
    findings.0
}

async fn steps(checked: &Checked, findings: &mut Findings) {
    let mut subject = match Subject::start(checked).await {
        Ok(subject) => subject,
        Err(why) => {
            findings.add("starts and answers GET /health", Err(why));
            return;
        }
    };
    findings.add("starts and answers GET /health", Ok(()));
    findings.add("deletes the bootstrap file", subject.has_deleted_bootstrap());
    findings.add("refuses requests without the token", refuses_requests_without_token(&subject).await);
    let connected = subject.connect().await;
    if !findings.add("serves WS /events", connected) {
        return;
    }
    let brief = brief(&checked.task);
    let spawned = subject.client.spawn(&brief).await;
    let spawned = spawned.map_err(|e| e.to_string()).and_then(|handle| {
        let named = !handle.id.is_empty() && !handle.session_id.is_empty();
        named.then_some(()).ok_or_else(|| "its handle has no `id` or no `sessionId`".to_owned())
    });
    if !findings.add("POST /spawn starts the agent and returns its handle", spawned) {
        return;
    }
    findings.add("a second /spawn is refused with `invalid_state`", second_spawn(&subject, &brief).await);
    findings
        .add("an unknown decision is refused with `decision_not_found`", unknown_decision(&subject).await);
    let changes = json!({ "description": checked.task });
    findings.add("POST /update-brief is taken", text(subject.client.update_brief(&changes).await));
    let completed = subject.complete(checked.limit).await;
    if !findings.add("the turn ends with `completion`; decisions are answered meanwhile", completed) {
        return;
    }
    let state = subject.checkpoint();
    let has_state =
        state.clone().map(drop).ok_or_else(|| "no `raw_provider` event `checkpoint` came".to_owned());
    findings.add("a turn ends with a checkpoint", has_state);
    findings.add(
        "reconnected, it sends what it emitted meanwhile",
        next_turn(&mut subject, state.as_ref(), checked, true).await,
    );
    findings.add("POST /replay repeats events with the same ids", replays(&mut subject).await);
    pauses(&mut subject, checked, findings).await;
    let killed = subject.client.kill(Duration::from_secs(10)).await;
    let latest = match &killed {
        Ok(response) => response.state.clone().and_then(|state| AgentState::try_from(state).ok()),
        Err(_) => None,
    };
    findings.add("POST /kill answers within the grace period", text(killed));
    findings.add("events have sequences from 1 without gaps, and unique ids", subject.order());
    findings.add("every event is valid without repairs", subject.validity());
    subject.end().await;
    let Some(state) = latest.or_else(|| subject.checkpoint()) else {
        findings.skip("a new process resumes from the state", "it returned none");
        return;
    };
    findings.add("a new process resumes from the state", resumes_elsewhere(checked, &state).await);
}

fn text<T>(outcome: Result<T, CallError>) -> Outcome {
    outcome.map(drop).map_err(|e| e.to_string())
}

async fn refuses_requests_without_token(subject: &Subject) -> Outcome {
    match subject.client.unauthenticated().await {
        Ok(401 | 403) => Ok(()),
        Ok(status) => Err(format!("/pause without `Authorization` was answered with {status}, not with 401")),
        Err(e) => Err(e.to_string()),
    }
}

async fn second_spawn(subject: &Subject, brief: &Value) -> Outcome {
    match subject.client.spawn(brief).await {
        Err(CallError::Plugin(PluginError::InvalidState { .. })) => Ok(()),
        Err(e) => Err(format!("it returned another error: {e}")),
        Ok(_) => Err("it spawned a second agent".to_owned()),
    }
}

async fn unknown_decision(subject: &Subject) -> Outcome {
    match subject.client.resolve("no-such-decision", &Resolution::approve()).await {
        Err(CallError::Plugin(PluginError::DecisionNotFound { .. })) => Ok(()),
        Err(e) => Err(format!("it returned another error: {e}")),
        Ok(()) => Err("it took the resolution".to_owned()),
    }
}

/// Resumes the agent with an input, and waits for its completion.
async fn next_turn(
    subject: &mut Subject,
    state: Option<&AgentState>,
    checked: &Checked,
    reconnects: bool,
) -> Outcome {
    let state = state.ok_or("there is no state to resume from")?;
    if reconnects {
        subject.disconnect().await;
    }
    text(subject.client.resume(&state.to_resume(&brief(&checked.task), Some(&checked.task))).await)?;
    if reconnects {
        // A shim need not report that events wait, and an agent may emit none for a while.
        let _ = timeout(MISSED, until_events_wait(subject)).await;
        subject.connect().await?;
    }
    subject.complete(checked.limit).await
}

/// Waits until the shim keeps an event for the next connection.
async fn until_events_wait(subject: &Subject) {
    loop {
        let waiting = subject.client.health().await.map(|health| health.pending_event_buffer_size);
        if waiting.is_ok_and(|waiting| waiting.as_u64().is_some_and(|number| number > 0)) {
            return;
        }
        sleep(START_POLL).await;
    }
}

async fn replays(subject: &mut Subject) -> Outcome {
    let Some(last) = subject.last_sequence() else { return Err("it has emitted nothing".to_owned()) };
    text(subject.client.replay(last, Some(last)).await)?;
    if subject.repeats(last).await { Ok(()) } else { Err(format!("the event {last} did not come again")) }
}

async fn pauses(subject: &mut Subject, checked: &Checked, findings: &mut Findings) {
    const PAUSE: &str = "POST /pause returns the state, and no event follows";
    const RESUME: &str = "POST /resume continues the paused agent";
    const INJECT: &str = "POST /inject-context is taken by a running agent";
    const TOO_SHORT: &str = "the turn ended before it; check a longer task";
    if !subject.plugin.capabilities.supports_pause {
        findings.skip(PAUSE, "it does not declare `supportsPause`");
        findings.skip(RESUME, "it does not declare `supportsPause`");
        return;
    }
    let Some(before) = subject.checkpoint() else {
        return findings.skip(PAUSE, "it has no state to resume from");
    };
    let brief = brief(&checked.task);
    let resumed = subject.client.resume(&before.to_resume(&brief, Some(&checked.task))).await;
    if let Err(e) = resumed {
        findings.add(PAUSE, Err(format!("/resume failed before it: {e}")));
        return;
    }
    // A fast agent ends its turn before a request arrives.
    let has_ended = |error: &CallError| matches!(error, CallError::Plugin(PluginError::InvalidState { .. }));
    match subject.client.inject(&ContextInjection::required("Continue.")).await {
        Err(error) if has_ended(&error) && subject.completes_soon().await => {
            for step in [INJECT, PAUSE, RESUME] {
                findings.skip(step, TOO_SHORT);
            }
            return;
        }
        injected => drop(findings.add(INJECT, text(injected))),
    }
    match subject.client.pause().await {
        Ok(state) => {
            findings.add(PAUSE, subject.is_silent_after(&state).await);
            let resumed = subject.client.resume(&state.to_resume(&brief, None)).await;
            let outcome = match resumed {
                // The turn may have ended before the pause.
                Ok(_) if subject.has_completed() => Ok(()),
                Ok(_) => subject.complete(checked.limit).await,
                Err(e) => Err(e.to_string()),
            };
            findings.add(RESUME, outcome);
        }
        Err(error) if has_ended(&error) && subject.completes_soon().await => {
            findings.skip(PAUSE, TOO_SHORT);
            findings.skip(RESUME, TOO_SHORT);
        }
        Err(e) => drop(findings.add(PAUSE, Err(e.to_string()))),
    }
}

async fn resumes_elsewhere(checked: &Checked, state: &AgentState) -> Outcome {
    let mut subject = Subject::start(checked).await?;
    subject.connect().await?;
    let outcome = next_turn(&mut subject, Some(state), checked, false).await;
    subject.end().await;
    outcome
}
