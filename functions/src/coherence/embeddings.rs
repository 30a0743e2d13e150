//! The vectors of texts: from the store, or from the embedding model (decision 88). The commit that stores vectors also counts their cost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use pilothouse_app::models::{Embedded, EmbeddingClient};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::coherence::{Embedding, EmbeddingFailure, EmbeddingUse, ReviewLedger};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::project_account::ProjectAccount;
use pilothouse_domain::text::ModelId;
use pilothouse_domain::{DomainContext, Project, Usd};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

use super::scan::CONCURRENT_READS;

/// The vectors of `texts`, in their order. Texts without a stored vector are sent to the model, for at most `within`.
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
    let missing: Vec<&str> = distinct.into_iter().filter(|text| !known.contains_key(text)).collect();
    if !missing.is_empty() {
        match app.ensure_covers_start(project).await {
            Ok(()) => {}
            Err(Problem::Project(_)) => return Ok(Err(EmbeddingFailure::SpendingCap)),
            Err(other) => return Err(other),
        }
        let embedded = embed(app, client, project, (model, missing.as_slice()));
        let Ok(embedded) = tokio::time::timeout(within, embedded).await else {
            tracing::warn!(project = %project.id(), "the embedding model took too long");
            return Ok(Err(EmbeddingFailure::Unavailable));
        };
        match embedded? {
            Ok(vectors) => known.extend(missing.into_iter().zip(vectors)),
            Err(failure) => return Ok(Err(failure)),
        }
    }
    let all: Option<Vec<_>> = texts.iter().map(|text| known.get(text).cloned()).collect();
    Ok(all.ok_or(EmbeddingFailure::Unavailable))
}

/// Asks the model in batches. Each batch is stored at once, so that the next scan continues behind it.
async fn embed(
    app: &App,
    client: &EmbeddingClient,
    project: &Project,
    (model, texts): (&ModelId, &[&str]),
) -> Result<Result<Vec<Embedding>, EmbeddingFailure>, Problem> {
    let mut vectors = Vec::with_capacity(texts.len());
    for some in texts.chunks(EmbeddingClient::MAX_TEXTS) {
        let embedded = match client.embed(model, some).await {
            Ok(embedded) => embedded,
            Err(error) => {
                tracing::warn!(project = %project.id(), cause = %error_chain(&error), "failed to embed texts");
                let is_permanent = error.is_permanent();
                return Ok(Err(if is_permanent {
                    EmbeddingFailure::Refused
                } else {
                    EmbeddingFailure::Unavailable
                }));
            }
        };
        let cost = cost(client, model, &embedded);
        record(app, project, (model, some), &embedded, cost).await?;
        vectors.extend(embedded.vectors);
    }
    Ok(Ok(vectors))
}

fn cost(client: &EmbeddingClient, model: &ModelId, embedded: &Embedded) -> EmbeddingUse {
    let (tokens, price) = (embedded.tokens, client.cost(model, embedded.tokens));
    EmbeddingUse {
        texts: u64::try_from(embedded.vectors.len()).unwrap_or(u64::MAX),
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
    embedded: &Embedded,
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
        for (text, vector) in texts.iter().zip(&embedded.vectors) {
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
