//! `GET /internal/gateway/images/{sha256}`: returns an image of the caller's session (decision 100).

use axum::extract::State;
use axum::response::Response;
use pilothouse_app::App;
use pilothouse_app::function::requirements::IMAGE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::PathParams;

use super::{Caller, gone};
use crate::images::blob_key;
use crate::queries::records::blob::content_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-images", Verb::Get, "/internal/gateway/images/{sha256}", |verb| {
        verb.route(get_image)
    })
    .sidecar()
    .summary("Get an image of a message or of the objective")
    .statuses(&[200, 303])
    .requires(IMAGE);

/// Responds with 200 and the bytes. When they exceed a Lambda response, responds with 303 and a link. Responds with 404 unless an
/// open message or the objective of the session has the image, and with 410 when the run is over.
async fn get_image(
    State(app): State<App>,
    caller: Caller,
    parameters: PathParams,
) -> Result<Response, Problem> {
    let none = || Problem::NotFound("the session has no such image".to_owned());
    let Some(loaded) = app.store.conversation(caller.session).await? else { return Ok(gone()) };
    let conversation = loaded.conversation;
    if conversation.session.run().is_none_or(|run| run.id != caller.run) {
        return Ok(gone());
    }
    let of_messages = conversation.queue.messages().iter().flat_map(|message| &message.images);
    let mut images = conversation.session.images().iter().chain(of_messages);
    let image = images.find(|image| Some(image.sha256.as_str()) == parameters.get("sha256"));
    let key = blob_key(image.ok_or_else(none)?)?;
    content_response(&app, &key).await?.ok_or_else(none)
}
