//! `POST /api/webhooks`: an owner registers an endpoint (ruling 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::text::{InvalidText, WebhookDescription};
use pilothouse_domain::webhook::{EventFilter, InvalidWebhookUrl, UnknownEvent, Webhook, WebhookUrl};
use pilothouse_domain::{IdSource as _, WebhookId};
use pilothouse_store::{Commit, CommitError, Loaded, Store};
use schemars::JsonSchema;
use serde_json::Value;

use crate::api::telling::RegisteredWebhook;
use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::edge::Problem;
use crate::edge::input::{Body, Violations, maybe};

/// The endpoint.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterWebhook {
    /// Where it is told: an https address.
    #[deserr(try_from(String) = WebhookUrl::try_from -> InvalidWebhookUrl)]
    pub url: WebhookUrl,
    /// Names of the events that it is told of; none: all.
    #[deserr(default, try_from(Vec<String>) = EventFilter::try_from -> UnknownEvent)]
    #[schemars(default)]
    pub events: EventFilter,
    /// What its owner calls it.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub description: Option<WebhookDescription>,
}

/// 201 with the webhook and its secret, which is shown this once.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    body: Body<RegisterWebhook>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let RegisterWebhook { url, events, description } = body.input;
    url.check(app.outside.reach).map_err(|error| Problem::invalid("url", error))?;
    let id = WebhookId::new(FreshIds.fresh());
    for attempt in 0..super::TRIES {
        if let Some(mut answer) = call.earlier_answer(&app.store).await? {
            show_secret(&app, &mut answer);
            return Ok(answer);
        }
        if app.store.webhooks(&call.owner).await?.len() >= Webhook::MAX_PER_OWNER {
            return Err(Problem::invalid(
                "url",
                format!("is one too many: an owner has at most {} webhooks", Webhook::MAX_PER_OWNER),
            ));
        }
        let webhook = Webhook {
            id,
            owner_id: call.owner.clone(),
            url: url.clone(),
            events: events.clone(),
            description: description.clone(),
            created_at: app.now(),
            disabled: None,
        };
        let mut commit = Commit::new();
        commit.webhook(&Loaded::new(webhook.clone()))?;
        let registered = RegisteredWebhook { webhook, secret: String::new() };
        let mut answer = Answer::new(StatusCode::CREATED, None, &registered)?;
        call.keep_answer(&mut commit, &answer, &app)?;
        match app.store.commit(commit).await {
            Ok(()) => {
                show_secret(&app, &mut answer);
                return Ok(answer);
            }
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// The secret is derived, never stored, so that a replayed answer can show it again (ruling 8).
fn show_secret(app: &App, answer: &mut Answer) {
    let id = answer.body.pointer("/webhook/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let (Some(id), Some(object)) = (id, answer.body.as_object_mut()) {
        object.insert("secret".to_owned(), Value::String(app.secret.webhook_secret(id).reveal()));
    }
}
