//! `GET /api/operations/dead-letters`: messages that nobody could deal with, with their causes, and the latest redrives.

use axum::Json;
use axum::extract::State;
use pilothouse_broker::{DeadLetter, MAX_BATCH, QueueError, QueueName};
use pilothouse_domain::text::cut;

use super::{check_operator, failed, queues};
use crate::api::operations::{DeadLetterView, DeadLettersView, DeadQueueView};
use crate::app::App;
use crate::edge::{Owner, Problem};

/// How many letters of a queue are shown.
const SHOWN: usize = 50;
/// How much of a letter is shown, in characters.
const HEAD: usize = 500;
/// How many redrives are shown.
const REDRIVES: usize = 20;

/// 200 with the queues that have any. Letters that somebody else has at this moment are counted and not shown; of a
/// session, ten are shown at most.
pub async fn handle(State(app): State<App>, Owner(owner): Owner) -> Result<Json<DeadLettersView>, Problem> {
    check_operator(&app, &owner)?;
    let mut seen = Vec::new();
    for queue in queues() {
        let count = match app.broker.dead_depth(&queue).await {
            Ok(0) | Err(QueueError::NoSuchQueue(_)) => continue,
            Ok(count) => count,
            Err(error) => return Err(failed(error)),
        };
        let letters = peek(&app, &queue).await?.iter().map(view).collect();
        seen.push(DeadQueueView { queue: queue.as_str().to_owned(), count, letters });
    }
    let redrives = app.store.redrives(REDRIVES).await?.into_iter().map(Into::into).collect();
    Ok(Json(DeadLettersView { queues: seen, redrives }))
}

/// Looks at letters and lays them back.
async fn peek(app: &App, queue: &QueueName) -> Result<Vec<DeadLetter>, Problem> {
    let mut letters: Vec<DeadLetter> = Vec::new();
    let mut outcome = Ok(());
    while letters.len() < SHOWN {
        match app.broker.receive_dead(queue, MAX_BATCH).await {
            Ok(more) if more.is_empty() => break,
            Ok(more) => letters.extend(more),
            Err(error) => {
                outcome = Err(failed(error));
                break;
            }
        }
    }
    let receipts: Vec<_> = letters.iter().map(|letter| letter.receipt.clone()).collect();
    app.broker.show_dead(queue, &receipts).await.map_err(failed)?;
    outcome.map(|()| letters)
}

fn view(letter: &DeadLetter) -> DeadLetterView {
    DeadLetterView {
        id: letter.id.clone(),
        group: letter.group.clone(),
        cause: letter.cause.clone(),
        receive_count: letter.receive_count,
        bytes: letter.body.len() as u64,
        head: cut(&letter.body, HEAD),
    }
}
