//! `POST /api/web-push/subscriptions`: sends notifications to a browser (decision 98).

use std::collections::BTreeSet;

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::Violation;
use pilothouse_api::input::Violations;
use pilothouse_api::web_push::WebPushSubscriptionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::COMMAND;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{CurrentLogin, Problem};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::web_push;
use pilothouse_domain::announcement::NotificationKind;
use pilothouse_domain::console_login::ConsoleLogins;
use pilothouse_domain::text::DeviceName;
use pilothouse_domain::web_push::{
    BrowserPublicKey, BrowserSecret, Subscribed, WebPushKeys, WebPushSubscription, WebPushSubscriptions,
};
use pilothouse_domain::webhook::WebhookUrl;
use pilothouse_domain::{ConsoleLoginId, DomainContext, WebPushSubscriptionId};
use pilothouse_store::{Commit, Loaded};
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("web-push-subscribe", Verb::Post, "/api/web-push/subscriptions", |verb| {
        verb.route(subscribe)
    })
    .owner()
    .summary("Send notifications to a browser")
    .input::<SubscribeToWebPush>()
    .output::<WebPushSubscriptionView>(&[200, 201])
    .requires(COMMAND);

/// A browser that is to receive notifications. The fields are those of the browser's `PushSubscription`.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscribeToWebPush {
    /// The HTTPS URL of the push service.
    pub endpoint: WebhookUrl,
    /// The keys of the browser.
    pub keys: BrowserKeys,
    /// What you call the device.
    pub device: DeviceName,
    /// The kinds of notifications to receive. When omitted: what waits for a person, and what completed or failed.
    #[deserr(default)]
    #[schemars(default)]
    pub kinds: Option<Vec<NotificationKind>>,
}

/// The keys with which messages for the browser are encrypted.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, deny_unknown_fields)]
#[schemars(deny_unknown_fields)]
pub struct BrowserKeys {
    /// The public key of the browser.
    pub p256dh: BrowserPublicKey,
    /// The secret that the browser shares with the server.
    pub auth: BrowserSecret,
}

/// The login that authenticated the request with all logins of its owner, and the subscriptions of the owner.
type Known = (Option<(ConsoleLoginId, Loaded<ConsoleLogins>)>, Loaded<WebPushSubscriptions>);

/// Responds with 201 and the subscription, or with 200 if the browser was subscribed before; its kinds and keys are then replaced.
/// Refuses a browser whose login was ended after the request was authenticated.
async fn subscribe(
    State(app): State<App>,
    command: CommandContext,
    CurrentLogin(login_id): CurrentLogin,
    body: Body<SubscribeToWebPush>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let SubscribeToWebPush { endpoint, keys: BrowserKeys { p256dh, auth }, device, kinds } = body.input;
    let checks = [
        ("endpoint", endpoint.check(app.integrations.egress_policy).err().map(|error| error.to_string())),
        ("keys.p256dh", web_push::check_public_key(&p256dh).err().map(|error| error.to_string())),
        ("keys.auth", web_push::check_secret(&auth).err().map(|error| error.to_string())),
    ];
    let violations = checks
        .into_iter()
        .filter_map(|(field, message)| Some(Violation { field: field.to_owned(), message: message? }));
    let violations: Vec<_> = violations.collect();
    if !violations.is_empty() {
        return Err(Problem::Invalid(violations));
    }
    let kinds: BTreeSet<_> =
        kinds.map_or_else(|| NotificationKind::PUSHED_BY_DEFAULT.into(), |kinds| kinds.into_iter().collect());
    let keys = WebPushKeys { p256dh, auth };
    let owner = &command.owner;
    let load = async || {
        let login = match login_id {
            Some(id) => Some((id, app.store.console_logins(owner).await?)),
            None => None,
        };
        Ok::<_, Problem>((login, app.store.web_push_subscriptions(owner).await?))
    };
    let decide = |(login, mut known): Known, ctx: &mut DomainContext<'_>| {
        if login.as_ref().is_some_and(|(id, logins)| logins.value.get(*id, ctx.now).is_none()) {
            return Err(Problem::Unauthenticated("this browser was logged out; log in again"));
        }
        let subscription = WebPushSubscription {
            id: WebPushSubscriptionId::new(ctx.uuid()),
            device: device.clone(),
            endpoint: endpoint.clone(),
            keys: keys.clone(),
            kinds: kinds.clone(),
            created_at: ctx.now,
            login_id,
        };
        let (effect, stored) =
            known.value.subscribe(subscription).map_err(|error| Problem::invalid("endpoint", error))?;
        let status = if effect == Subscribed::Added { StatusCode::CREATED } else { StatusCode::OK };
        let response = CommandResponse::new(status, None, &WebPushSubscriptionView::from(&stored))?;
        if effect == Subscribed::Unchanged {
            return Ok(Decision::Unchanged(response));
        }
        let mut commit = Commit::new();
        commit.web_push_subscriptions(owner, &known)?;
        if let Some((_, logins)) = &login {
            // Written unchanged: of this commit and one that ends the login, the later one loses its race and loads again.
            commit.console_logins(owner, logins)?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}
