//! `POST /api/operations/dead-letters/{queue}/redrive`: redrives dead letters (decision 9).
//!
//! A letter is received, sent with a new deduplication id and the redrive marker, and deleted last. A failure in between
//! sends it twice, which consumers recognise. Each redrive is recorded with the number of billed requests.

use axum::Json;
use axum::extract::State;
use pilothouse_api::operations::RedriveResponse;
use pilothouse_app::function::requirements::DEAD_LETTERS;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{NoBody, Owner, Problem};
use pilothouse_app::record_views;
use pilothouse_app::{App, FreshIds};
use pilothouse_broker::{DeadLetter, MAX_BATCH, OutgoingMessage, QueueName};
use pilothouse_domain::{IdSource as _, UserId};
use pilothouse_store::Redrive;

use crate::dead_letters::{RELAY, check_operator, failed, queues};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "dead-letters-redrive",
    Verb::Post,
    "/api/operations/dead-letters/{queue}/redrive",
    |verb| verb.route(redrive_dead_letters),
)
.owner()
.summary("Redrive the dead letters of a queue (operators only)")
.output::<RedriveResponse>(&[200])
.requires(DEAD_LETTERS);

/// Why letters of the relay cannot be redriven.
const NO_QUEUE_BEHIND_RELAY: &str = "dead letters of the relay name records of the table's stream and \
    cannot be redriven; the work that they would have started becomes due again, or fails and can be retried";

/// The largest number of letters of one request. It keeps the request well within the time limit of a Lambda function.
const MAX_LETTERS: u64 = 100;
/// SQS bills a message as one request per started block of this size.
const BILLED_BYTES: u64 = 64 * 1024;

/// Responds with 200, the record of the redrive and the number of remaining letters.
async fn redrive_dead_letters(
    State(app): State<App>,
    Owner(owner): Owner,
    parameters: PathParams,
    _: NoBody,
) -> Result<Json<RedriveResponse>, Problem> {
    check_operator(&app, &owner)?;
    let queue = parameters.get("queue").unwrap_or_default();
    if queue == RELAY {
        return Err(Problem::NotFound(NO_QUEUE_BEHIND_RELAY.to_owned()));
    }
    let queue = queues()
        .find(|known| known.as_str().trim_end_matches(".fifo") == queue.trim_end_matches(".fifo"))
        .ok_or_else(|| Problem::NotFound(format!("there is no queue `{queue}`")))?;
    let mut redrive = begin(&app, owner, &queue);
    let outcome = send_again(&app, &queue, &mut redrive).await;
    redrive.at = app.now();
    if redrive.letters > 0 {
        // Letters that were sent are recorded even if a later step failed.
        app.store.record_redrive(&redrive).await?;
    }
    let left = outcome?;
    tracing::info!(
        queue = queue.as_str(), by = %redrive.by, letters = redrive.letters, requests = redrive.requests, left,
        "redrove dead letters"
    );
    Ok(Json(RedriveResponse { redrive: record_views::redrive(redrive), left }))
}

fn begin(app: &App, by: UserId, queue: &QueueName) -> Redrive {
    Redrive {
        id: FreshIds.fresh().to_string(),
        at: app.now(),
        by,
        queue: queue.as_str().to_owned(),
        letters: 0,
        bytes: 0,
        requests: 0,
    }
}

/// Sends the letters that are in the queue now, each once, and returns the number of remaining letters. A letter that fails
/// again at once returns to the end of the queue.
async fn send_again(app: &App, queue: &QueueName, redrive: &mut Redrive) -> Result<u64, Problem> {
    let there = app.broker.dead_letter_depth(queue).await.map_err(failed)?;
    redrive.requests += 1;
    let most = there.min(MAX_LETTERS);
    while redrive.letters < most {
        let room = usize::try_from(most - redrive.letters).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        let letters = app.broker.receive_dead_letters(queue, room).await.map_err(failed)?;
        redrive.requests += billed(&letters);
        if letters.is_empty() || !send_batch(app, queue, letters, redrive).await? {
            break;
        }
    }
    redrive.requests += 1;
    app.broker.dead_letter_depth(queue).await.map_err(failed)
}

/// Sends a batch and returns whether all of its letters were sent. Releases the others.
async fn send_batch(
    app: &App,
    queue: &QueueName,
    letters: Vec<DeadLetter>,
    redrive: &mut Redrive,
) -> Result<bool, Problem> {
    let again = letters.iter().map(|letter| OutgoingMessage {
        redriven: true,
        ..OutgoingMessage::new(letter.group.clone(), format!("redrive-{}", letter.id), letter.body.clone())
    });
    redrive.requests += billed(&letters);
    let sent = app.broker.send(queue, again.collect()).await;
    let failures: Vec<usize> = match &sent {
        Ok(outcome) => outcome.failed.iter().map(|(position, _)| *position).collect(),
        Err(_) => (0..letters.len()).collect(),
    };
    let mut kept = Vec::new();
    for (position, letter) in letters.into_iter().enumerate() {
        if failures.contains(&position) {
            kept.push(letter.receipt);
            continue;
        }
        redrive.requests += 1;
        app.broker.forget(queue, &letter.receipt).await.map_err(failed)?;
        redrive.letters += 1;
        redrive.bytes += letter.body.len() as u64;
    }
    if kept.is_empty() {
        return Ok(true);
    }
    redrive.requests += 1;
    app.broker.release_dead_letters(queue, &kept).await.map_err(failed)?;
    for (_, error) in sent.map_err(failed)?.failed {
        tracing::warn!(queue = queue.as_str(), %error, "failed to redrive a dead letter");
    }
    Ok(false)
}

/// Returns the number of requests that SQS bills for a request with these letters.
fn billed(letters: &[DeadLetter]) -> u64 {
    let bytes: u64 = letters.iter().map(|letter| letter.body.len() as u64).sum();
    bytes.div_ceil(BILLED_BYTES).max(1)
}
