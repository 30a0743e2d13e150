//! What models do for coherence, apart from reactions, because a model takes seconds and may be unavailable for hours: layer 2 (S2,
//! "LLM-based deep review"; decision 91), and the comparison of texts by embeddings (decision 88).
//!
//! A model reviews coherence issues. In each project one review follows the other. Issues that wait join the review of another one if
//! their texts fit in.
//!
//! | step | after a crash or a repeated message |
//! |---|---|
//! | The relay sends a reference to an issue to the reviews queue, one group for each project. | the queue recognizes it |
//! | A commit of the ledger begins the review, if the limit of the hour permits it. | the ledger refuses a second one for three minutes |
//! | The model is asked; after an invalid answer, once more. | it is asked again |
//! | A commit records result, cost and decision. | the issue has a review |
//!
//! An issue that waits, or whose review failed, stays open and unconfirmed. Comparisons have groups of their own, so that they do not wait
//! for reviews.

use std::time::{Duration, Instant};

use pilothouse_app::App;
use pilothouse_app::batch::{BatchOutcome, MessageOutcome};
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::{COHERENCE_REVIEW, REVIEWS};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::models::{ModelClient, Prompt, TokenUse};
use pilothouse_app::queues;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_broker::{OutgoingMessage, QueueError, Received};
use pilothouse_domain::coherence::{
    CoherenceEvent, CoherenceIssue, IssueSource, ReviewFailure, ReviewLedger, ReviewRequest, ReviewResult,
    ReviewStart, ReviewUse,
};
use pilothouse_domain::decision::FreeDecision;
use pilothouse_domain::journal::{AggregateJournalEntry, AnyAggregateEntry, Cause};
use pilothouse_domain::project_account::ProjectAccount;
use pilothouse_domain::text::ModelId;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{Aggregate as _, CoherenceIssueId, DomainContext, Project, ProjectId, Timestamp};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};
use serde::{Deserialize, Serialize};

use crate::coherence::review_request;
use crate::coherence::scan::{ScanPointer, scan_requested};

pub const FUNCTION: EventFunction = EventFunction::new(
    "coherence-review",
    &[Subscription::queue(REVIEWS, |ctx, batch| Box::pin(async move { Ok(process(&ctx.app, batch).await) }))],
    COHERENCE_REVIEW,
)
.summary("Let models review coherence issues and embed texts");

/// A batch begins no review after this time, so that the last review ends within the timeout of the function.
const BATCH_TIME: Duration = Duration::from_secs(10);
/// The wait for a higher spending cap, in units of the retry: an hour.
const CAP_WAIT: u32 = 60;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Pointer {
    Issue { issue_id: CoherenceIssueId },
    Scan(ScanPointer),
}

/// The message for an entry that needs a review.
pub fn message_for_aggregate(entry: &AnyAggregateEntry) -> Option<OutgoingMessage> {
    let AnyAggregateEntry::Coherence(entry) = entry else { return None };
    let project = entry.events.iter().find_map(project_to_review)?;
    message(entry, project)
}

fn project_to_review(event: &CoherenceEvent) -> Option<ProjectId> {
    match event {
        CoherenceEvent::Detected { project_id, source, severity, .. } if source.is_reviewable(*severity) => {
            Some(*project_id)
        }
        CoherenceEvent::ReviewRequested { project_id } => Some(*project_id),
        _ => None,
    }
}

fn message(entry: &AggregateJournalEntry<CoherenceEvent>, project: ProjectId) -> Option<OutgoingMessage> {
    let pointer = Pointer::Issue { issue_id: entry.aggregate_id.parse().ok()? };
    let body = serde_json::to_string(&pointer).ok()?;
    Some(OutgoingMessage::new(project.to_string(), entry.id.to_string(), body))
}

pub async fn process_and_settle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let outcome = process(app, batch).await;
    pilothouse_app::batch::settle(app.broker.as_ref(), &queues::reviews(), outcome).await
}

/// The caller settles the batch.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    let started = Instant::now();
    pilothouse_app::batch::process_batch(app, &queues::reviews(), batch, |app, message| async move {
        if started.elapsed() > BATCH_TIME {
            return Ok(MessageOutcome::Later(Duration::ZERO));
        }
        match serde_json::from_str(&message.body).map_err(Problem::internal)? {
            Pointer::Issue { issue_id } => review(&app, issue_id).await,
            Pointer::Scan(pointer) => {
                let retry = scan_requested(&app, pointer).await?;
                Ok(retry.map_or(MessageOutcome::Done, MessageOutcome::Later))
            }
        }
    })
    .await
}

type ReviewOutcome = Result<ReviewResult, ReviewFailure>;

async fn review(app: &App, id: CoherenceIssueId) -> Result<MessageOutcome, Problem> {
    let Some(model) = &app.integrations.model else { return Ok(MessageOutcome::Done) };
    let Some(issue) = app.store.any_aggregate::<CoherenceIssue>(id).await? else {
        return Ok(MessageOutcome::Done);
    };
    let issue = issue.value;
    let Some(project) = app.store.any_aggregate::<Project>(issue.project_id()).await? else {
        return Ok(MessageOutcome::Done);
    };
    let project = project.value;
    let config = &project.definition().coherence;
    if !issue.needs_review() || !config.enable_layer2 || project.ensure_open().is_err() {
        return Ok(MessageOutcome::Done);
    }
    match app.ensure_covers_start(&project).await {
        Ok(()) => {}
        Err(Problem::Project(_)) => {
            let failure = Err(ReviewFailure::SpendingCap);
            record(app, id, &failure, ReviewUse::default(), model.default_model()).await?;
            return Ok(MessageOutcome::Later(app.deadlines.review_retry_unit * CAP_WAIT));
        }
        Err(other) => return Err(other),
    }
    match begin(app, &issue, config.layer2_max_reviews_per_hour).await? {
        Some(ReviewStart::Now) => {}
        Some(ReviewStart::Later { until }) => {
            return Ok(MessageOutcome::Later(wait_until(until, app.now())));
        }
        None => return Ok(MessageOutcome::Done),
    }
    let request = review_request::assemble(app, &issue, &project).await?;
    let named = config.layer2_model.as_ref().unwrap_or(model.default_model());
    let (answer, tokens) = ask(model, named, request).await;
    let is_unavailable = matches!(answer, Err(ReviewFailure::Unavailable));
    let cost = ReviewUse {
        reviews: 1,
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        spent_usd: model.cost(named, tokens),
    };
    // The issue of the message is the first candidate.
    let (own, others) = match answer {
        Ok(results) => {
            let mut results = results.into_iter();
            (results.next().ok_or(ReviewFailure::InvalidAnswer), results.collect())
        }
        Err(failure) => (Err(failure), Vec::new()),
    };
    let attempts = record(app, id, &own, cost, named).await?;
    for other in others {
        record(app, other.candidate_id, &Ok(other), ReviewUse::default(), named).await?;
    }
    Ok(if is_unavailable && attempts < CoherenceIssue::MAX_REVIEW_ATTEMPTS {
        MessageOutcome::Later(app.deadlines.review_retry_unit * 2u32.pow(attempts))
    } else {
        MessageOutcome::Done
    })
}

/// The time until `until`: at least a second, because queues count whole seconds.
fn wait_until(until: Timestamp, now: Timestamp) -> Duration {
    until.since(now).max(Duration::from_secs(1))
}

/// Counts the review against the limit of the hour; `None` if the issue has a review. Of two at the same time, one waits.
async fn begin(app: &App, issue: &CoherenceIssue, max_per_hour: u32) -> Result<Option<ReviewStart>, Problem> {
    let (id, project) = (issue.id(), issue.project_id());
    // The ledger is read first. If a review ends after that, this commit fails; if it ended before, the issue shows it.
    let load = async || {
        let ledger = app.store.review_ledger(project).await?;
        let issue = app.store.any_aggregate::<CoherenceIssue>(id).await?;
        Ok::<_, Problem>((ledger, issue.is_some_and(|issue| issue.value.needs_review())))
    };
    let decide = |(mut ledger, is_needed): (Loaded<ReviewLedger>, bool), ctx: &mut DomainContext<'_>| {
        if !is_needed {
            return Ok::<_, Problem>(Decision::Unchanged(None));
        }
        let start = ledger.value.begin(id, max_per_hour, ctx.now);
        if start != ReviewStart::Now {
            return Ok(Decision::Unchanged(Some(start)));
        }
        let mut commit = Commit::new();
        commit.review_ledger(project, &ledger)?;
        Ok(Decision::Commit(commit, Some(start)))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Asks the model, and once more after an invalid answer, then only about the first candidate.
async fn ask(
    model: &ModelClient,
    named: &ModelId,
    mut request: ReviewRequest,
) -> (Result<Vec<ReviewResult>, ReviewFailure>, TokenUse) {
    let mut tokens = TokenUse::default();
    let mut correction = String::new();
    for _ in 0..2 {
        let input = match serde_json::to_string(&request) {
            Ok(input) => input + &correction,
            Err(error) => {
                tracing::error!(%error, "failed to write the request for a coherence review");
                break;
            }
        };
        let prompt = Prompt {
            instructions: ReviewRequest::INSTRUCTIONS.to_owned(),
            input,
            answer_name: "coherence_review",
            answer_schema: ReviewRequest::answer_schema(),
        };
        let answer = match model.ask(named, &prompt).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(cause = %error_chain(&error), "failed to ask the model for a coherence review");
                let failure = if error.is_permanent() {
                    ReviewFailure::InvalidAnswer
                } else {
                    ReviewFailure::Unavailable
                };
                return (Err(failure), tokens);
            }
        };
        tokens.input = tokens.input.saturating_add(answer.tokens.input);
        tokens.output = tokens.output.saturating_add(answer.tokens.output);
        match request.read_answer(&answer.text) {
            Ok(results) => return (Ok(results), tokens),
            Err(violations) => {
                let violations = violations.join("; ");
                tracing::warn!(%violations, "the model gave an invalid coherence review");
                correction = format!(
                    "\n\nYour answer was invalid: {violations}. Answer again in the required format."
                );
                request.keep_first();
            }
        }
    }
    (Err(ReviewFailure::InvalidAnswer), tokens)
}

/// The items that the end of a review changes, with their project.
struct ReviewState {
    issue: LoadedAggregate<CoherenceIssue>,
    ledger: Loaded<ReviewLedger>,
    project: Project,
    account: Option<LoadedAggregate<ProjectAccount>>,
    tick: Tick,
}

impl ReviewState {
    async fn load(app: &App, id: CoherenceIssueId) -> Result<Option<Self>, Problem> {
        let Some(issue) = app.store.any_aggregate::<CoherenceIssue>(id).await? else { return Ok(None) };
        let project_id = issue.value.project_id();
        let ledger = app.store.review_ledger(project_id).await?;
        let account = app.store.any_aggregate::<ProjectAccount>(project_id).await?;
        let Some(time) = app.project_time(project_id).await? else { return Ok(None) };
        let tick = time.tick(app.now())?;
        Ok(Some(Self { issue, ledger, project: time.project.value, account, tick }))
    }
}

/// Commits the end of a review: result, cost, and a decision about a severe issue. Returns the number of failed attempts in a row.
async fn record(
    app: &App,
    id: CoherenceIssueId,
    reviewed: &ReviewOutcome,
    cost: ReviewUse,
    model: &ModelId,
) -> Result<u32, Problem> {
    let cause = Cause::Reaction { function: FUNCTION.name.to_owned() };
    let load = async || ReviewState::load(app, id).await;
    let decide = |state: Option<ReviewState>, ctx: &mut DomainContext<'_>| {
        let Some(ReviewState { mut issue, mut ledger, project, account, tick }) = state else {
            return Ok(Decision::Unchanged(0));
        };
        let mut commit = Commit::new();
        let is_open = issue.value.needs_review();
        let events = match reviewed {
            Ok(result) => issue.value.record_review(result.clone(), model.clone(), tick, ctx),
            Err(failure) => issue.value.record_review_failure(*failure, ctx),
        };
        if events.is_empty() && cost == ReviewUse::default() {
            return Ok(Decision::Unchanged(issue.value.failed_reviews()));
        }
        ledger.value.end(id, cost);
        if let Ok(result) = reviewed
            && is_open
            && let IssueSource::Similarity { engine, .. } = &issue.value.finding().source
        {
            ledger.value.learn(*engine, !result.confirmed, &project.definition().coherence, ctx.now);
        }
        commit.review_ledger(project.id(), &ledger)?;
        if let Some(mut account) = account {
            let events = account.value.count_reviews(ledger.value.spent_usd(), &project);
            if !events.is_empty() {
                app.record_aggregate(&mut commit, &account, cause.clone(), events)?;
            }
        }
        if !events.is_empty() {
            if let Some(decision) = FreeDecision::coherence_review(&issue.value) {
                commit.free_decision(&Loaded::new(decision))?;
            }
            app.record_aggregate(&mut commit, &issue, cause.clone(), events)?;
        }
        Ok(Decision::Commit(commit, issue.value.failed_reviews()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
