//! The steps of the demo.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_api::sessions::SessionView;
use pilothouse_client::inputs::{AnswerRequest, EnqueueMessage, PageQuery, StartSession, UpdateBudget};
use pilothouse_client::{ApiError, Client, RecordFilter};
use pilothouse_domain::Usd;
use pilothouse_domain::session::{AgentSessionStatus as S, RequestKind};
use pilothouse_domain::value::{AgentMessageSource, Answer, MessagePriority, ToolCallStatus};
use serde_json::{Value, json};

use super::demo_session::DemoSession;
use super::narrator::Narrator;
use super::{BUDGET_SCRIPT, RECORDING};
use crate::context::now;
use crate::error::CliError;
use crate::output::{self, money};

/// The first cap of the second session, which its script exceeds.
const SMALL_CAP: &str = "0.05";
/// The cap after the raise.
const LARGER_CAP: &str = "1";
/// The tool call in which the recorded agent sleeps until it gets a message.
const LONG_CALL: &str = "sleep 2";
/// The message into the running turn.
const STEERING: &str = "When you are done, say so in two words.";

/// The files of the demo.
pub(super) struct Files {
    work: PathBuf,
    recording: PathBuf,
    script: Value,
}

impl Files {
    /// Writes the files into the demo's folder, because an installed program has no source tree.
    pub(super) fn write(folder: &Path) -> Result<Self, CliError> {
        let work = folder.join("work");
        let recording = folder.join("tour.jsonl");
        std::fs::create_dir(&work).map_err(|source| CliError::File { path: work.clone(), source })?;
        std::fs::write(&recording, RECORDING)
            .map_err(|source| CliError::File { path: recording.clone(), source })?;
        let script = serde_json::from_str(BUDGET_SCRIPT).map_err(|e| CliError::Failed(e.to_string()))?;
        Ok(Self { work, recording, script })
    }

    fn session(&self, name: &str, objective: &str, cap: Usd, options: Value) -> StartSession {
        StartSession {
            name: Some(name.into()),
            adapter: Some("script".into()),
            adapter_options: Some(options),
            ..StartSession::new(self.work.to_string_lossy(), objective, cap)
        }
    }
}

/// Runs all steps. Fails with an error that names the missing event.
pub(super) async fn run_steps(client: &Client, files: &Files) -> Result<(), CliError> {
    let mut narrator = Narrator::new();
    narrator.step("A server, in a temporary folder")?;
    narrator.command("pilothouse up")?;
    narrator.confirm(&format!("It listens on {}", client.base().as_str().trim_end_matches('/')))?;

    let (mut tour, mut report) = start(client, files, &mut narrator).await?;
    question(&mut tour, &mut narrator).await?;
    plan(&mut tour, &mut narrator).await?;
    pause(&mut tour, &mut narrator).await?;
    steer(&mut tour, &mut narrator).await?;
    budget(&mut report, &mut narrator).await?;
    review(&mut report, &mut narrator).await?;
    end(client, &mut narrator).await
}

async fn start<'a>(
    client: &'a Client,
    files: &Files,
    narrator: &mut Narrator,
) -> Result<(DemoSession<'a>, DemoSession<'a>), CliError> {
    narrator.step("Two sessions, side by side")?;
    let objective = "Look around, ask me a colour, make a plan, and carry it out.";
    narrator
        .command(&format!("pilothouse run \"{objective}\" --name tour --recording tour.jsonl --detach"))?;
    let options = json!({ "recording": files.recording });
    let tour = client.start_session(&files.session("tour", objective, usd("5")?, options)).await?;
    let objective = "Add up the invoices and write the report.";
    narrator.command(&format!(
        "pilothouse run \"{objective}\" --name report --script report.json --budget {SMALL_CAP} --detach"
    ))?;
    let options = json!({ "script": files.script });
    let report = client.start_session(&files.session("report", objective, usd(SMALL_CAP)?, options)).await?;

    let mut tour = DemoSession::new(client, "tour", tour.session);
    let report = DemoSession::new(client, "report", report.session);
    tour.until(narrator, "the start of the first agent", async |session| Ok(session.status != S::Queued))
        .await?;
    narrator.command("pilothouse ps")?;
    let page = client.sessions(None, &PageQuery::default()).await?;
    Narrator::output(&output::sessions::list(&page.items, narrator.style, now()))?;
    Ok((tour, report))
}

async fn question(tour: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("The agent works, then asks a question")?;
    narrator.command(&format!("pilothouse watch {}", tour.short_id()))?;
    let asks = async |session: &SessionView| Ok(session.status == S::WaitingForInput);
    let session = tour.until(narrator, "a question of the agent", asks).await?;
    let request =
        session.pending_requests.first().ok_or_else(|| missing("the question that it waits for"))?;
    Narrator::output(&output::requests::request(request, &tour.short_id(), narrator.style, now()))?;
    let RequestKind::Question { questions, .. } = &request.kind else { return Err(missing("a question")) };
    let answers: Vec<Answer> = questions
        .iter()
        .map(|q| Answer {
            question: q.question.clone(),
            // Any option works; take the last one.
            answer: q.options.last().map_or_else(|| "Blue".to_owned(), |option| option.label.clone()),
        })
        .collect();
    let given: Vec<_> = answers.iter().map(|a| format!("\"{}\"", a.answer)).collect();
    narrator.command(&format!("pilothouse answer {} {}", tour.short_id(), given.join(" ")))?;
    tour.client.answer(tour.id, &AnswerRequest { request_id: request.id.clone(), answers }).await?;
    let id = request.id.clone();
    let over = async |session: &SessionView| Ok(session.pending_requests.iter().all(|open| open.id != id));
    tour.until(narrator, "the end of the question", over).await?;
    narrator.confirm("The agent has its answer and continues")
}

async fn plan(tour: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("It shows its plan and waits for approval")?;
    let shows = async |session: &SessionView| Ok(session.status == S::WaitingForApproval);
    let session = tour.until(narrator, "a plan of the agent", shows).await?;
    let plan = session.session_plan.as_ref().ok_or_else(|| missing("the text of the plan"))?;
    let request = session.pending_requests.first().ok_or_else(|| missing("the plan that it waits for"))?;
    narrator.command(&format!("pilothouse plan show {}", tour.short_id()))?;
    Narrator::output(&output::plan::show(plan, narrator.style, now()))?;
    narrator.command(&format!("pilothouse plan approve {}", tour.short_id()))?;
    tour.client.approve_plan(tour.id, &request.id).await?;
    let proceeds = async |session: &SessionView| Ok(session.status == S::Running);
    tour.until(narrator, "the work by the plan", proceeds).await?;
    narrator.confirm("The plan is approved; the agent carries it out")
}

async fn pause(tour: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("Paused in the middle of its work, and resumed")?;
    let client = tour.client;
    let works = async |session: &SessionView| long_call_runs(client, session).await;
    tour.until(narrator, "the long call of the agent", works).await?;
    narrator.command(&format!("pilothouse pause {}", tour.short_id()))?;
    client.pause(tour.id).await?;
    let paused = async |session: &SessionView| Ok(session.status == S::Paused);
    tour.until(narrator, "the confirmation of the pause", paused).await?;
    narrator.confirm("Paused: requested, then confirmed by the sidecar")?;
    narrator.command(&format!("pilothouse resume {}", tour.short_id()))?;
    client.resume(tour.id).await?;
    let resumed = async |session: &SessionView| Ok(session.status == S::Running);
    tour.until(narrator, "the confirmation of the resume", resumed).await?;
    narrator.confirm("The agent continues where it was")
}

/// Whether the agent is in the tool call in which its recording waits for a message.
async fn long_call_runs(client: &Client, session: &SessionView) -> Result<bool, ApiError> {
    let records =
        RecordFilter { page_query: PageQuery { limit: Some(100), cursor: None }, ..RecordFilter::default() };
    let calls = client.tool_calls(session.id, &records).await?.items;
    Ok(session.status == S::Running
        && calls.iter().any(|call| {
            let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
            call.status == ToolCallStatus::Pending && command.starts_with(LONG_CALL)
        }))
}

async fn steer(tour: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("Steered: a word in the middle of the turn")?;
    narrator.command(&format!("pilothouse steer {} \"{STEERING}\"", tour.short_id()))?;
    let client = tour.client;
    client.enqueue(tour.id, &EnqueueMessage::new(STEERING, MessagePriority::Immediate)).await?;
    let delivered = async |session: &SessionView| {
        let records = RecordFilter {
            page_query: PageQuery { limit: Some(100), cursor: None },
            ..RecordFilter::default()
        };
        let said = client.messages(session.id, &records).await?.items;
        Ok(said.iter().any(|m| m.source == AgentMessageSource::User && m.content == STEERING))
    };
    tour.until(narrator, "the delivery of the message", delivered).await?;
    narrator.confirm("Delivered in the turn, without ending it")?;
    let rests = async |session: &SessionView| Ok(session.status == S::Idle);
    let session = tour.until(narrator, "the end of the turn", rests).await?;
    let spent = money::usd(session.metrics.total_cost_usd);
    narrator.confirm(&format!("The turn is over; the recorded agent had spent {spent}"))?;
    if session.has_pending_review {
        approve(tour, narrator, &session).await
    } else {
        narrator.command(&format!("pilothouse close {}", tour.short_id()))?;
        client.close(tour.id, Some(session.version)).await?;
        let closed = async |session: &SessionView| Ok(session.status == S::Completed);
        tour.until(narrator, "the completion of the session", closed).await?;
        narrator.confirm("Closed: the session is Completed")
    }
}

async fn budget(report: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step(&format!("Meanwhile the other session may spend ${SMALL_CAP}, and reaches it"))?;
    let stopped = async |session: &SessionView| Ok(session.status == S::Paused && session.budget.exhausted);
    let session = report.until(narrator, "the pause by the budget", stopped).await?;
    let spent = money::of_cap(session.budget.estimated_cost_usd, session.budget.hard_cap_usd);
    narrator.confirm(&format!("Paused by its budget: {spent}. Nothing more is spent until you say so"))?;
    narrator.command(&format!("pilothouse budget set {} {LARGER_CAP}", report.short_id()))?;
    let larger = UpdateBudget { cap_usd: Some(usd(LARGER_CAP)?), ..UpdateBudget::default() };
    report.client.set_budget(report.id, &larger).await?;
    narrator.command(&format!("pilothouse resume {}", report.short_id()))?;
    report.client.resume(report.id).await?;
    let resumed = async |session: &SessionView| Ok(!matches!(session.status, S::Paused | S::Resuming));
    report.until(narrator, "the confirmation of the resume", resumed).await?;
    narrator.confirm("The cap is raised; the session continues")
}

async fn review(report: &mut DemoSession<'_>, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("Its output waits for review")?;
    let waits = async |session: &SessionView| Ok(session.status == S::Idle && session.has_pending_review);
    let session = report.until(narrator, "the output of the session", waits).await?;
    narrator.command(&format!("pilothouse show {}", report.short_id()))?;
    Narrator::output(&output::session::detail(&session, narrator.style, now()))?;
    approve(report, narrator, &session).await
}

async fn approve(
    report: &mut DemoSession<'_>,
    narrator: &Narrator,
    session: &SessionView,
) -> Result<(), CliError> {
    let output = session.output.as_ref().ok_or_else(|| missing("the output that waits for review"))?;
    narrator.command(&format!("pilothouse approve {}", report.short_id()))?;
    report.client.approve(report.id, output.output_id).await?;
    let completed = async |session: &SessionView| Ok(session.status == S::Completed);
    report.until(narrator, "the completion of the session", completed).await?;
    narrator.confirm("Approved: the session is Completed")
}

async fn end(client: &Client, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.step("What is left")?;
    narrator.command("pilothouse ps --all")?;
    let page = client.sessions(None, &PageQuery::default()).await?;
    Narrator::output(&output::sessions::list(&page.items, narrator.style, now()))?;
    narrator.note(
        "\nThis server and its folder are deleted now. To continue with your own:\n\n  \
         pilothouse up                                   # in a separate terminal\n  \
         pilothouse run \"Make the tests pass\" --budget 2 # in your project\n  \
         pilothouse steer @last \"Not that file\"\n  \
         pilothouse --help\n",
    )
}

/// Cancels unfinished sessions, so that no agent outlives the demo.
pub(super) async fn cancel_sessions(client: &Client) {
    let Ok(page) = client.sessions(None, &PageQuery::default()).await else { return };
    for session in page.items.iter().filter(|session| !session.status.is_terminal()) {
        if client.cancel(session.id, true).await.is_ok() {
            // The server ends next in any case.
            let _ = client.wait_until_settled(session.id, Duration::from_secs(5)).await;
        }
    }
}

fn usd(amount: &str) -> Result<Usd, CliError> {
    amount.parse().map_err(|e| CliError::Failed(format!("{amount}: {e}")))
}

fn missing(what: &str) -> CliError {
    CliError::Failed(format!("the demo failed: {what} is missing"))
}

#[cfg(test)]
mod tests {
    use super::{BUDGET_SCRIPT, Files, LARGER_CAP, LONG_CALL, RECORDING, SMALL_CAP, usd};

    #[test]
    fn recording_contains_everything_the_story_waits_for() {
        for needed in ["AskUserQuestion", "ExitPlanMode", &format!("\"command\":\"{LONG_CALL}")] {
            assert!(RECORDING.contains(needed), "{needed}");
        }
    }

    #[test]
    fn script_spends_between_the_small_and_the_large_cap() {
        let script: serde_json::Value = serde_json::from_str(BUDGET_SCRIPT).unwrap();
        let steps = script["steps"][0]["turn"]["steps"].as_array().unwrap();
        let spent: pilothouse_domain::Usd = steps
            .iter()
            .filter_map(|step| step.pointer("/usage/costUsd")?.as_str())
            .map(|cost| usd(cost).unwrap())
            .sum();
        assert!(spent > usd(SMALL_CAP).unwrap() && spent < usd(LARGER_CAP).unwrap());
    }

    #[test]
    fn the_files_are_written_out() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::write(dir.path()).unwrap();
        assert!(files.work.is_dir());
        assert_eq!(std::fs::read_to_string(files.recording).unwrap(), RECORDING);
    }
}
