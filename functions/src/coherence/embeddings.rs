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
use pilothouse_store::{Commit, Loaded, LoadedAggregate};
use tokio::time::Instant;

use super::scan::CONCURRENT_READS;

/// The vectors of `texts`, in their order, all with the same dimensions. Texts without a stored vector are sent to the model, for at most
/// `within`.
///
/// # Errors
/// [`Problem`] when the store fails. Failures of the model are a value.
pub(super) async fn vectors(
    app: &App,
    project: &Project,
    texts: &[&str],
    within: Duration,
) -> Result<Result<Vec<Embedding>, EmbeddingFailure>, Problem> {
    let Some(client) = &app.integrations.embeddings else { return Ok(Err(EmbeddingFailure::Unavailable)) };
    let configured = project.definition().coherence.embedding_model.as_ref();
    let model = configured.unwrap_or(client.default_model());
    let distinct: BTreeSet<&str> = texts.iter().copied().collect();
    let distinct: Vec<&str> = distinct.into_iter().collect();
    let mut known: BTreeMap<&str, Embedding> = BTreeMap::new();
    for some in distinct.chunks(CONCURRENT_READS) {
        let reads = some.iter().map(|text| app.store.embedding(project.id(), model, text));
        let stored = some.iter().copied().zip(try_join_all(reads).await?);
        known.extend(stored.filter_map(|(text, stored)| Some((text, stored?))));
    }
    let deadline = Instant::now() + within;
    let mut dimensions = known.values().next().map(Embedding::dimensions);
    // The second time for vectors of another model, which the endpoint had under the same name before.
    for _ in 0..2 {
        let is_missing =
            |text: &&str| dimensions.is_none() || known.get(text).map(Embedding::dimensions) != dimensions;
        let missing: Vec<&str> = distinct.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            break;
        }
        match app.ensure_covers_start(project).await {
            Ok(()) => {}
            Err(Problem::Project(_)) => return Ok(Err(EmbeddingFailure::SpendingCap)),
            Err(other) => return Err(other),
        }
        match embed(app, (client, model), project, &missing, deadline).await? {
            Ok(vectors) => {
                dimensions = vectors.last().map(Embedding::dimensions);
                known.extend(missing.into_iter().zip(vectors));
            }
            Err(failure) => return Ok(Err(failure)),
        }
    }
    let vectors = texts.iter().map(|text| known.get(text).cloned());
    let all = vectors.map(|vector| vector.filter(|it| Some(it.dimensions()) == dimensions));
    let all: Option<Vec<_>> = all.collect();
    Ok(all.ok_or(EmbeddingFailure::Unavailable))
}

/// Asks the model in batches until the deadline. Each batch is stored at once, so that the next scan continues behind it.
async fn embed(
    app: &App,
    (client, model): (&EmbeddingClient, &ModelId),
    project: &Project,
    texts: &[&str],
    deadline: Instant,
) -> Result<Result<Vec<Embedding>, EmbeddingFailure>, Problem> {
    let mut vectors = Vec::with_capacity(texts.len());
    for some in texts.chunks(EmbeddingClient::MAX_TEXTS) {
        // The deadline does not interrupt the commit: the response has been paid for.
        let Ok(response) = tokio::time::timeout_at(deadline, client.embed(model, some)).await else {
            tracing::warn!(project = %project.id(), "the embedding model took too long");
            return Ok(Err(EmbeddingFailure::Unavailable));
        };
        let Embedded { vectors: embedded, tokens } = match response {
            Ok(embedded) => embedded,
            Err(error) => return Ok(Err(failure(project, &error))),
        };
        let made = embedded.as_deref().unwrap_or_default();
        let cost = cost(client, model, made.len(), tokens);
        if cost != EmbeddingUse::default() {
            record(app, project, (model, some), made, cost).await?;
        }
        match embedded {
            Ok(embedded) => vectors.extend(embedded),
            Err(error) => return Ok(Err(failure(project, &error))),
        }
    }
    Ok(Ok(vectors))
}

fn failure(project: &Project, error: &ModelError) -> EmbeddingFailure {
    tracing::warn!(project = %project.id(), cause = %error_chain(error), "failed to embed texts");
    if error.is_permanent() { EmbeddingFailure::Refused } else { EmbeddingFailure::Unavailable }
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
