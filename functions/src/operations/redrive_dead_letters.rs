//! `POST /api/operations/dead-letters/{queue}/redrive`: sends dead letters again (ruling 9).
//!
//! A letter is received, sent with a new deduplication id and the marker, and only then forgotten: what ends in between
//! sends it twice, and who takes it knows it. Redrives are recorded with what they cost.

use axum::Json;
use axum::extract::{Path, State};
use pilothouse_broker::{DeadLetter, MAX_BATCH, Outgoing, QueueName};
use pilothouse_domain::{IdSource as _, UserId};
use pilothouse_store::Redrive;

use super::{RELAY, check_operator, failed, queues};
use crate::api::operations::RedriveAnswer;
use crate::app::{App, FreshIds};
use crate::edge::{NoBody, Owner, Problem};

/// Why letters of the relay are not sent again.
const NO_QUEUE_BEHIND_RELAY: &str = "letters of the relay name places of the table's stream and cannot be sent again; \
    what they would have started is due again by itself, or fails and can be retried";

/// The most letters of one request: well within the time of a function.
const MAX_LETTERS: u64 = 100;
/// A message counts as one request for each of these that it begins (SQS's price list).
const BILLED_BYTES: u64 = 64 * 1024;

/// 200 with what was done and how many letters are left.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Path(queue): Path<String>,
    _: NoBody,
) -> Result<Json<RedriveAnswer>, Problem> {
    check_operator(&app, &owner)?;
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
        // What was sent is sent, however it ended.
        app.store.record_redrive(&redrive).await?;
    }
    let left = outcome?;
    tracing::info!(
        queue = queue.as_str(), by = %redrive.by, letters = redrive.letters, requests = redrive.requests, left,
        "dead letters were sent again"
    );
    Ok(Json(RedriveAnswer { redrive: redrive.into(), left }))
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

/// Sends what there is by now, and no letter twice: one that fails again at once comes after those. How many are left.
async fn send_again(app: &App, queue: &QueueName, redrive: &mut Redrive) -> Result<u64, Problem> {
    let there = app.broker.dead_depth(queue).await.map_err(failed)?;
    redrive.requests += 1;
    let most = there.min(MAX_LETTERS);
    while redrive.letters < most {
        let room = usize::try_from(most - redrive.letters).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        let letters = app.broker.receive_dead(queue, room).await.map_err(failed)?;
        redrive.requests += billed(&letters);
        if letters.is_empty() || !send_batch(app, queue, letters, redrive).await? {
            break;
        }
    }
    redrive.requests += 1;
    app.broker.dead_depth(queue).await.map_err(failed)
}

/// Whether all of them were sent. The others are shown again.
async fn send_batch(
    app: &App,
    queue: &QueueName,
    letters: Vec<DeadLetter>,
    redrive: &mut Redrive,
) -> Result<bool, Problem> {
    let again = letters.iter().map(|letter| Outgoing {
        redriven: true,
        ..Outgoing::new(letter.group.clone(), format!("redrive-{}", letter.id), letter.body.clone())
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
    app.broker.show_dead(queue, &kept).await.map_err(failed)?;
    for (_, error) in sent.map_err(failed)?.failed {
        tracing::warn!(queue = queue.as_str(), %error, "a dead letter could not be sent again");
    }
    Ok(false)
}

/// What a request that carries these letters is billed as.
fn billed(letters: &[DeadLetter]) -> u64 {
    let bytes: u64 = letters.iter().map(|letter| letter.body.len() as u64).sum();
    bytes.div_ceil(BILLED_BYTES).max(1)
}
