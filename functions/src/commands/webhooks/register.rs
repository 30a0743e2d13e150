//! `POST /api/webhooks`: registers a webhook (decision 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_api::webhooks::RegisteredWebhook;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::COMMAND_WITH_KEY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::text::WebhookDescription;
use pilothouse_domain::webhook::{EventFilter, Webhook, WebhookUrl};
use pilothouse_domain::{DomainContext, WebhookId};
use pilothouse_store::{Commit, Loaded, WebhooksGuard};
use schemars::JsonSchema;
use serde_json::Value;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-register", Verb::Post, "/api/webhooks", |verb| verb.route(register_webhook))
        .owner()
        .summary("Register a webhook")
        .input::<RegisterWebhook>()
        .output::<RegisteredWebhook>(&[201])
        .requires(COMMAND_WITH_KEY);

/// A new webhook.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterWebhook {
    /// The HTTPS URL that receives the events.
    pub url: WebhookUrl,
    /// Names of the events to deliver. An empty list means all events.
    #[deserr(default)]
    #[schemars(default)]
    pub events: EventFilter,
    /// A description for the owner's own use.
    #[deserr(default)]
    pub description: Option<WebhookDescription>,
}

/// Responds with 201, the webhook and its secret, which is not shown again.
async fn register_webhook(
    State(app): State<App>,
    command: CommandContext,
    body: Body<RegisterWebhook>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let RegisterWebhook { url, events, description } = body.input;
    url.check(app.integrations.egress_policy).map_err(|error| Problem::invalid("url", error))?;
    let owner = &command.owner;
    let load = async || {
        // The guard is read before the webhooks are counted and written with the new webhook. Of two concurrent
        // registrations, one conflicts and counts again.
        let guard = app.store.webhooks_guard(owner).await?;
        Ok((guard, app.store.webhooks(owner).await?.len()))
    };
    let decide = |(guard, count): (Loaded<WebhooksGuard>, usize), ctx: &mut DomainContext<'_>| {
        if count >= Webhook::MAX_PER_OWNER {
            return Err(Problem::invalid(
                "url",
                format!("is one too many: an owner has at most {} webhooks", Webhook::MAX_PER_OWNER),
            ));
        }
        let webhook = Webhook {
            id: WebhookId::new(ctx.uuid()),
            owner_id: owner.clone(),
            url: url.clone(),
            events: events.clone(),
            description: description.clone(),
            created_at: ctx.now,
            disabled: None,
            failing: None,
        };
        let mut commit = Commit::new();
        commit.webhook(&Loaded::new(webhook.clone()))?;
        commit.webhooks_guard(owner, &guard)?;
        let registered = RegisteredWebhook { webhook, secret: String::new() };
        Ok(Decision::Commit(commit, CommandResponse::new(StatusCode::CREATED, None, &registered)?))
    };
    let mut response = app.unit_of_work().run_command(&command, load, decide).await?;
    show_secret(&app, &mut response);
    Ok(response)
}

/// Adds the secret to a response. The secret is derived and never stored, so a replayed response can contain it (decision 8).
fn show_secret(app: &App, response: &mut CommandResponse) {
    let id = response.body.pointer("/webhook/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let (Some(id), Some(object)) = (id, response.body.as_object_mut()) {
        object.insert("secret".to_owned(), Value::String(app.secret.webhook_secret(id).reveal()));
    }
}
