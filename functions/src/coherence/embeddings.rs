//! The vectors of texts: from the store, or from the embedding model (decision 88). The commit that stores vectors also counts their cost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use pilothouse_app::models::{Embedded, EmbeddingClient, ModelError};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::coherence::{Embedding, EmbeddingFailure, EmbeddingUse, ReviewLedger};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::project_account::ProjectAccount;
use pilothouse_domain::text::ModelId;
use pilothouse_domain::{DomainContext, Project, Usd};
use pilothouse_store::{Commit, Loaded, LoadedAggregate, TextEmbedding};
use tokio::time::Instant;

use super::CONCURRENT_READS;

/// After so many refused texts without an accepted one, the request itself is taken as refused.
const MAX_REFUSED: usize = 8;

/// What the model made of texts.
#[derive(Default)]
struct Made<'a> {
    vectors: BTreeMap<&'a str, Embedding>,
    /// Those of the latest response.
    dimensions: Option<usize>,
    /// Texts that the model refuses on their own, with its response.
    refused: BTreeMap<&'a str, String>,
}

/// Why there are no vectors of a batch.
enum BatchFailure {
    /// Some of the texts may be the reason.
    Texts(ModelError),
    Request(EmbeddingFailure),
}

/// The vectors of `texts`, in their order, all with the same dimensions; `None` for a text that the model refuses. Texts without a stored
/// vector are sent to the model, for at most `within`.
///
/// # Errors
/// [`Problem`] when the store fails. Failures of the model are a value.
pub(super) async fn vectors(
    app: &App,
    project: &Project,
    texts: &[&str],
    within: Duration,
) -> Result<Result<Vec<Option<Embedding>>, EmbeddingFailure>, Problem> {
    let Some(client) = &app.integrations.embeddings else { return Ok(Err(EmbeddingFailure::Unavailable)) };
    let configured = project.definition().coherence.embedding_model.as_ref();
    let model = configured.unwrap_or(client.default_model());
    let distinct: BTreeSet<&str> = texts.iter().copied().collect();
    let distinct: Vec<&str> = distinct.into_iter().collect();
    let mut known: BTreeMap<&str, Embedding> = BTreeMap::new();
    let mut refused: BTreeSet<&str> = BTreeSet::new();
    for some in distinct.chunks(CONCURRENT_READS) {
        let reads = some.iter().map(|text| app.store.embedding(project.id(), model, text));
        for (text, stored) in some.iter().copied().zip(try_join_all(reads).await?) {
            match stored {
                Some(TextEmbedding::Vector(vector)) => {
                    known.insert(text, vector);
                }
                Some(TextEmbedding::Refused) => {
                    refused.insert(text);
                }
                None => {}
            }
        }
    }
    let deadline = Instant::now() + within;
    let mut dimensions = known.values().next().map(Embedding::dimensions);
    // The second time for vectors of another model, which the endpoint had under the same name before.
    for _ in 0..2 {
        let is_missing = |text: &&str| {
            !refused.contains(text)
                && (dimensions.is_none() || known.get(text).map(Embedding::dimensions) != dimensions)
        };
        let missing: Vec<&str> = distinct.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            break;
        }
        match app.ensure_covers_start(project).await {
            Ok(()) => {}
            Err(Problem::Project(_)) => return Ok(Err(EmbeddingFailure::SpendingCap)),
            Err(other) => return Err(other),
        }
        let mut made = Made::default();
        let mut ended = embed(app, (client, model), project, &missing, deadline, &mut made).await?;
        if ended.is_ok()
            && made.vectors.is_empty()
            && let Some(accepted) = known.keys().next()
        {
            // Only a text that was accepted before tells whether the model still answers.
            ended = embed(app, (client, model), project, &[*accepted], deadline, &mut made).await?;
        }
        if made.vectors.is_empty() {
            log_refusal(project, &made);
            return Ok(Err(ended.err().unwrap_or(EmbeddingFailure::Refused)));
        }
        record_refused(app, project, model, &made).await?;
        refused.extend(made.refused.into_keys());
        dimensions = made.dimensions;
        known.extend(made.vectors);
        if let Err(failure) = ended {
            return Ok(Err(failure));
        }
    }
    if dimensions.is_none() && !texts.is_empty() {
        return Ok(Err(EmbeddingFailure::Refused));
    }
    let vector = |text: &&str| known.get(text).filter(|it| Some(it.dimensions()) == dimensions).cloned();
    let vectors: Vec<_> = texts.iter().map(vector).collect();
    let is_complete = texts.iter().zip(&vectors).all(|(text, it)| it.is_some() || refused.contains(text));
    Ok(if is_complete { Ok(vectors) } else { Err(EmbeddingFailure::Unavailable) })
}

/// Asks the model in batches until the deadline. Each batch is stored at once, so that the next scan continues behind it. A refused batch
/// is divided, until each refused text is on its own.
async fn embed<'a>(
    app: &App,
    model: (&EmbeddingClient, &ModelId),
    project: &Project,
    texts: &[&'a str],
    deadline: Instant,
    made: &mut Made<'a>,
) -> Result<Result<(), EmbeddingFailure>, Problem> {
    let mut batches: Vec<&[&'a str]> = texts.chunks(EmbeddingClient::MAX_TEXTS).rev().collect();
    while let Some(batch) = batches.pop() {
        match embed_batch(app, model, project, batch, deadline).await? {
            Ok(vectors) => {
                made.dimensions = vectors.last().map(Embedding::dimensions);
                made.vectors.extend(batch.iter().copied().zip(vectors));
            }
            Err(BatchFailure::Request(failure)) => return Ok(Err(failure)),
            Err(BatchFailure::Texts(error)) => {
                if let [text] = batch {
                    made.refused.insert(*text, error_chain(&error));
                    if made.vectors.is_empty() && made.refused.len() == MAX_REFUSED {
                        return Ok(Err(EmbeddingFailure::Refused));
                    }
                } else {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    batches.extend([second, first]);
                }
            }
        }
    }
    Ok(Ok(()))
}

/// Asks the model for the vectors of a batch, and stores them.
async fn embed_batch(
    app: &App,
    (client, model): (&EmbeddingClient, &ModelId),
    project: &Project,
    texts: &[&str],
    deadline: Instant,
) -> Result<Result<Vec<Embedding>, BatchFailure>, Problem> {
    // The deadline does not interrupt the commit: the response has been paid for.
    let Ok(response) = tokio::time::timeout_at(deadline, client.embed(model, texts)).await else {
        tracing::warn!(project = %project.id(), "the embedding model took too long");
        return Ok(Err(BatchFailure::Request(EmbeddingFailure::Unavailable)));
    };
    let Embedded { vectors: embedded, tokens } = match response {
        Ok(embedded) => embedded,
        Err(error) if error.may_concern_input() => return Ok(Err(BatchFailure::Texts(error))),
        Err(error) => return Ok(Err(BatchFailure::Request(failure(project, &error)))),
    };
    let made = embedded.as_deref().unwrap_or_default();
    let cost = cost(client, model, made.len(), tokens);
    if cost != EmbeddingUse::default() {
        record(app, project, (model, texts), made, cost).await?;
    }
    Ok(embedded.map_err(|error| BatchFailure::Request(failure(project, &error))))
}

fn failure(project: &Project, error: &ModelError) -> EmbeddingFailure {
    tracing::warn!(project = %project.id(), cause = %error_chain(error), "failed to embed texts");
    if error.is_permanent() { EmbeddingFailure::Refused } else { EmbeddingFailure::Unavailable }
}

/// Nothing is known about the texts: the model accepts none.
fn log_refusal(project: &Project, made: &Made<'_>) {
    if let Some(cause) = made.refused.values().next() {
        tracing::warn!(project = %project.id(), %cause, "failed to embed texts");
    }
}

/// Remembers the refused texts, so that they are logged once and the next scans do not send them.
async fn record_refused(
    app: &App,
    project: &Project,
    model: &ModelId,
    made: &Made<'_>,
) -> Result<(), Problem> {
    let refused: Vec<_> = made.refused.iter().collect();
    for some in refused.chunks(EmbeddingClient::MAX_TEXTS) {
        let load = async || Ok::<_, Problem>(());
        let decide = |(): (), ctx: &mut DomainContext<'_>| {
            let mut commit = Commit::new();
            for (text, _) in some {
                commit.refused_text(project.id(), (model, **text), ctx.now)?;
            }
            Ok::<_, Problem>(Decision::Commit(commit, ()))
        };
        app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await?;
        for (_, cause) in some {
            tracing::warn!(
                project = %project.id(), %cause,
                "the embedding model refuses a text, which is compared by its words"
            );
        }
    }
    Ok(())
}

fn cost(client: &EmbeddingClient, model: &ModelId, texts: usize, tokens: u64) -> EmbeddingUse {
    let price = client.cost(model, tokens);
    EmbeddingUse {
        texts: u64::try_from(texts).unwrap_or(u64::MAX),
        tokens,
        unpriced_tokens: if price.is_none() { tokens } else { 0 },
        spent_usd: price.unwrap_or(Usd::ZERO),
    }
}

/// Stores the vectors of texts, and counts their cost against the spending cap.
async fn record(
    app: &App,
    project: &Project,
    (model, texts): (&ModelId, &[&str]),
    vectors: &[Embedding],
    cost: EmbeddingUse,
) -> Result<(), Problem> {
    let id = project.id();
    let cause = Cause::Reaction { function: "coherence".to_owned() };
    let load = async || {
        let ledger = app.store.review_ledger(id).await?;
        Ok::<_, Problem>((ledger, app.store.any_aggregate::<ProjectAccount>(id).await?))
    };
    let decide = |(mut ledger, account): (Loaded<ReviewLedger>, Option<LoadedAggregate<ProjectAccount>>),
                  ctx: &mut DomainContext<'_>| {
        let mut commit = Commit::new();
        for (text, vector) in texts.iter().zip(vectors) {
            commit.embedding(id, (model, *text), vector, ctx.now)?;
        }
        ledger.value.count_embeddings(cost);
        commit.review_ledger(id, &ledger)?;
        if let Some(mut account) = account {
            let events = account.value.count_reviews(ledger.value.spent_usd(), project);
            if !events.is_empty() {
                app.record_aggregate(&mut commit, &account, cause.clone(), events)?;
            }
        }
        Ok::<_, Problem>(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
