//! `GET /api/web-push/key`: the key that a browser names when it subscribes at its push service (decision 98).

use axum::Json;
use axum::extract::State;
use pilothouse_api::web_push::WebPushKeyView;
use pilothouse_app::App;
use pilothouse_app::function::requirements::PUBLIC_KEY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::web_push::WebPushKey;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("web-push-key", Verb::Get, "/api/web-push/key", |verb| verb.route(public_key))
        .owner()
        .summary("Get the key of this server for push services")
        .output::<WebPushKeyView>(&[200])
        .requires(PUBLIC_KEY);

/// Responds with 200 and the public key. It changes only with the root secret; browsers then have to subscribe again.
async fn public_key(State(app): State<App>, Owner(_): Owner) -> Result<Json<WebPushKeyView>, Problem> {
    let key = WebPushKey::of(&app.secret).map_err(Problem::internal)?;
    Ok(Json(WebPushKeyView { public_key: key.public_key() }))
}
