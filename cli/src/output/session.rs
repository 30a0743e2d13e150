use pilothouse_api::sessions::SessionView;
use pilothouse_domain::Timestamp;
use pilothouse_domain::session::{AgentSessionStatus, PausedReason};
use pilothouse_domain::value::{Disk, SessionOutcome, SessionTaskList, SessionTaskStatus};

use super::sessions::{paint, short_id};
use super::style::{Paint, Style};
use super::text::{clean, count, line};
use super::{deliverables, money, requests, time};

/// The status with qualifications: `Idle (hibernated, output waits for review)`.
pub fn status(session: &SessionView, style: Style) -> String {
    let mut notes = Vec::new();
    if let Some(reason) = &session.queued_reason {
        notes.push(reason.clone());
    }
    if session.validating {
        notes.push("validation is running".into());
    }
    if let Some(since) = session.unreachable_since {
        notes.push(format!("unreachable since {since}"));
    }
    if session.hibernated {
        notes.push("hibernated".into());
    }
    if session.has_pending_review {
        notes.push("output waits for review".into());
    }
    if session.cancel_accepted {
        notes.push("will be cancelled".into());
    }
    match (session.paused_reason, session.quota.as_ref().and_then(|quota| quota.reset_at)) {
        (Some(PausedReason::QuotaExceeded), Some(at)) => {
            notes.push(format!("quota used up, resumes at {at}"));
        }
        (Some(PausedReason::ModelUnavailable), Some(at)) => {
            notes.push(format!("the model does not answer, resumes at {at}"));
        }
        (Some(PausedReason::ModelUnavailable), None) => notes.push("the model does not answer".into()),
        (Some(PausedReason::QuotaExceeded), None) => notes.push("quota used up".into()),
        _ if !session.held_by.is_empty() => notes.push("stopped by an emergency brake".into()),
        _ => {}
    }
    match session.full_disk {
        Some(Disk::Server) => notes.push("the disk of the server is nearly full".into()),
        Some(Disk::Worker) => notes.push("the disk of the worker is full, the agent waits".into()),
        None => {}
    }
    if let Some(outcome) = session.last_outcome.filter(|outcome| !outcome.is_completed()) {
        notes.push(format!("last turn: {}", ended_how(outcome)));
    }
    if !session.adjustments.is_empty() {
        notes.push("changes to the agent are pending".into());
    }
    if session.budget.exhausted {
        notes.push("budget exhausted".into());
    }
    if session.budget.unmetered {
        let held =
            if session.budget.allow_unmetered { "" } else { ", held until unmetered spend is allowed" };
        notes.push(format!("spend unknown{held}"));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    style.paint(paint(session.status), &session.status.to_string()) + &style.dim(&notes)
}

pub fn detail(session: &SessionView, style: Style, now: Timestamp) -> String {
    let mut out =
        format!("{}  {}\n", style.bold(&line(&session.name, 100)), style.dim(&session.id.to_string()));
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            out.extend([&style.dim(&format!("{name:<10}")), " ", &value, "\n"]);
        }
    };
    field("Status", status(session, style));
    field("Objective", line(&session.objective, 200));
    field("Directory", clean(&session.working_directory));
    field("Agent", agent(session));
    field("Deliver", session.deliverables.map(deliverables::counts).unwrap_or_default());
    field("Spent", spent(session));
    for model in spent_by_model(session) {
        field("", model);
    }
    field("Chain", chain(session));
    if let Some(window) = &session.metrics.context_window {
        let limit = window.snapshot.model_context_limit;
        field("Context", format!("{} % ({} of {limit} tokens)", window.usage_percent, window.total_tokens));
    } else if session
        .current_run
        .as_ref()
        .and_then(|run| run.capabilities)
        .is_some_and(|can| !can.context_usage)
    {
        field("Context", "unknown: the agent does not report it".to_owned());
    }
    field("Turns", turns(session, now));
    field(
        "Labels",
        session.labels.iter().map(|(k, v)| line(&format!("{k}={v}"), 80)).collect::<Vec<_>>().join(", "),
    );
    field("Created", created(session, now));
    if let Some(failure) = &session.failure_reason {
        let message = failure.message.as_deref().map(|m| format!(": {}", clean(m))).unwrap_or_default();
        let retries = format!(" (retried {} of {} times)", session.retry_count, session.max_retries);
        field("Failed", style.paint(Paint::Red, &format!("{}{message}", failure.reason)) + &retries);
    }
    if let Some(recorded) = &session.output {
        let output = &recorded.output;
        let tests = if output.all_tests_passing { "all tests pass" } else { "not all tests pass" };
        let commit = output.commit_sha.as_ref().map(|sha| format!(", commit {sha}")).unwrap_or_default();
        let files = count(output.files_changed as usize, "file");
        let added = count(output.tests_added as usize, "test");
        field("Output", format!("{files} changed, {added} added, {tests}{commit} ({})", recorded.output_id));
    }
    if let Some(tasks) = session.session_task_list.as_ref().filter(|list| !list.tasks.is_empty()) {
        out.push_str(&task_list(tasks, style));
    }
    for request in &session.pending_requests {
        out.push_str(&requests::request(request, &short_id(session.id), style, now));
    }
    out
}

/// The outcome of a turn that did not complete normally (S4).
const fn ended_how(outcome: SessionOutcome) -> &'static str {
    match outcome {
        SessionOutcome::Completed => "completed",
        SessionOutcome::MaxIterations => "iteration limit reached",
        SessionOutcome::ExecutionError => "error",
        SessionOutcome::BudgetExceeded => "cost limit reached",
        SessionOutcome::QuotaExceeded => "quota used up",
    }
}

fn agent(session: &SessionView) -> String {
    let settings = &session.agent_settings;
    let model = if settings.model_id.is_empty() { &session.model_id } else { &settings.model_id };
    let level =
        settings.thinking_level.map(|level| format!(", thinking: {}", level.name())).unwrap_or_default();
    format!("{} on {}{level}", session.adapter, clean(model))
}

pub fn works_with(session: &SessionView, style: Style) -> String {
    let mut out = format!("{} {}\n", style.bold(&short_id(session.id)), agent(session));
    for model in &session.agent_settings.available_models {
        let mark = if *model == session.agent_settings.model_id { "▸" } else { " " };
        out.extend(["  ", mark, " ", &line(model, 100), "\n"]);
    }
    out
}

fn spent(session: &SessionView) -> String {
    let budget = &session.budget;
    let earlier = if budget.carried_usd.is_zero() {
        String::new()
    } else {
        format!(" (and {} in earlier sessions)", money::usd(budget.carried_usd))
    };
    let tokens = format!(
        "{}{earlier}, {} tokens",
        money::of_cap(budget.estimated_cost_usd, budget.hard_cap_usd),
        budget.tokens_used
    );
    if budget.overshoot_usd.is_zero() {
        tokens
    } else {
        format!("{tokens}, {} over", money::usd(budget.overshoot_usd))
    }
}

/// A line for each model, and one for the cost that has none.
fn spent_by_model(session: &SessionView) -> Vec<String> {
    let metrics = &session.metrics;
    let models = metrics.token_usage_by_model.iter().map(|(model, tokens)| {
        let cost = metrics.cost_usd_by_model.get(model);
        let cost = cost.map(|cost| format!("{}, ", money::usd(*cost))).unwrap_or_default();
        format!(
            "{}: {cost}{} in, {} out, {} read from cache, {} written to cache",
            line(model, 100),
            tokens.input_tokens,
            tokens.output_tokens,
            tokens.cache_read_tokens,
            tokens.cache_write_tokens
        )
    });
    let rest =
        metrics.unattributed_cost_usd.map(|cost| format!("not recorded by model: {}", money::usd(cost)));
    models.chain(rest).collect()
}

/// The chain with the previous and the next session.
fn chain(session: &SessionView) -> String {
    let Some(id) = session.chain_id else { return String::new() };
    let before = session.continues.map(|id| format!(", continues {}", short_id(id))).unwrap_or_default();
    let after = session.continuation.map(|id| format!(", continued by {}", short_id(id))).unwrap_or_default();
    format!("{id}{before}{after}")
}

fn turns(session: &SessionView, now: Timestamp) -> String {
    let done = session.metrics.turn_count;
    match &session.current_turn {
        Some(turn) => format!("{done}, and one since {}", time::clock(now.since(turn.started_at))),
        None => done.to_string(),
    }
}

fn created(session: &SessionView, now: Timestamp) -> String {
    let ended = session.completed_at.map(|at| format!(", ended {}", time::ago(at, now))).unwrap_or_default();
    format!("{}{ended}", time::ago(session.created_at, now))
}

pub fn task_list(list: &SessionTaskList, style: Style) -> String {
    let mut out = format!("{} {} of {} done\n", style.dim("Tasks     "), list.completed(), list.tasks.len());
    for task in &list.tasks {
        let (mark, paint) = match task.status {
            SessionTaskStatus::Completed => ("✓", Paint::Green),
            SessionTaskStatus::InProgress => ("▸", Paint::Cyan),
            SessionTaskStatus::Pending => ("·", Paint::Dim),
        };
        let active = task.active_form.as_deref().filter(|_| task.status == SessionTaskStatus::InProgress);
        out.extend(["  ", &style.paint(paint, mark), " ", &line(active.unwrap_or(&task.subject), 100), "\n"]);
    }
    out
}

/// Status and cost of a session in one line: the result of a command.
pub fn outcome(session: &SessionView, style: Style) -> String {
    let cost = money::of_cap(session.budget.estimated_cost_usd, session.budget.hard_cap_usd);
    format!(
        "{} {} is {}, spent {cost}\n",
        style.bold(&short_id(session.id)),
        line(&session.name, 60),
        status(session, style)
    )
}

/// The commands that are useful in the current status.
pub fn next_steps(session: &SessionView) -> Vec<String> {
    use AgentSessionStatus as S;
    if let Some(continuation) = session.continuation {
        let id = short_id(continuation);
        return vec![format!("pilothouse watch {id}"), format!("pilothouse show {id}")];
    }
    let id = short_id(session.id);
    let steps: &[&str] = match session.status {
        S::Running => &["watch {id}", "steer {id} \"…\"", "pause {id}", "interrupt {id}"],
        S::Idle if session.has_pending_review => {
            &["approve {id}", "reject {id} --reason \"…\"", "queue add {id} \"…\""]
        }
        S::Idle | S::Interrupted => &["queue add {id} \"…\"", "messages {id}", "close {id}"],
        S::Paused if session.budget.exhausted => &["budget set {id} AMOUNT", "resume {id}", "cancel {id}"],
        S::Paused => &["resume {id}", "cancel {id}"],
        S::WaitingForInput => &["answer {id}"],
        S::WaitingForApproval => {
            &["plan show {id}", "plan approve {id}", "plan reject {id} --feedback \"…\""]
        }
        S::Failed => &["retry {id}", "logs {id}"],
        S::Queued if session.budget.exhausted => &["budget set {id} AMOUNT", "cancel {id}"],
        S::Queued => &["pool show", "watch {id}"],
        _ => &["show {id}"],
    };
    steps.iter().map(|step| format!("pilothouse {}", step.replace("{id}", &id))).collect()
}

#[cfg(test)]
mod tests {
    use super::{detail, next_steps, outcome};
    use crate::output::Style;
    use crate::output::fixtures::{now, session};

    #[test]
    fn session_view_shows_everything_its_owner_needs() {
        assert_eq!(
            detail(&session(), Style::PLAIN, now()),
            "\
demo  0197b1c0-1111-7000-8000-00000000aaaa
Status     WaitingForInput
Objective  Make the tests pass. All of them.
Directory  /home/me/app
Agent      script on claude-sonnet-4-5
Spent      $0.42 of $5.00 (8.4 %), 12345 tokens
           claude-sonnet-4-5: $0.40, 2345 in, 1000 out, 9000 read from cache, 0 written to cache
           not recorded by model: $0.02
Context    25 % (50000 of 200000 tokens)
Turns      1
Labels     team=core
Created    2 min ago
Tasks      1 of 3 done
  ✓ Look
  ▸ Changing it
  · Check
The agent asks (asked 30 s ago, expires in 24 h)
  [Database] Which database?
    1. SQLite: One file
    2. Postgres
  → pilothouse answer 0197b1c0-1111 --request toolu_1 \"…\"
"
        );
    }

    #[test]
    fn command_result_is_one_line_with_the_next_step() {
        let mut session = session();
        assert_eq!(
            outcome(&session, Style::PLAIN),
            "0197b1c0-1111 demo is WaitingForInput, spent $0.42 of $5.00 (8.4 %)\n"
        );
        assert_eq!(next_steps(&session), ["pilothouse answer 0197b1c0-1111"]);
        session.status = pilothouse_domain::session::AgentSessionStatus::Paused;
        session.budget.exhausted = true;
        assert!(outcome(&session, Style::PLAIN).contains("Paused (budget exhausted)"));
        assert_eq!(next_steps(&session)[0], "pilothouse budget set 0197b1c0-1111 AMOUNT");
    }
}
