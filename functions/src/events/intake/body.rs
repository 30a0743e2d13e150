//! The body of a raw event in its journal entry. Small bodies are kept whole. The long texts of a large body are truncated; a blob
//! keeps the original (decision 6), and the entry names the blob.

use bytes::Bytes;
use pilothouse_app::App;
use pilothouse_domain::AgentSessionId;
use pilothouse_store::blob::{BlobError, BlobKey};
use serde_json::{Value, json};

/// The largest body in bytes that is kept whole. The limit keeps reads cheap and items far below the maximum item size.
const WHOLE_BYTES: usize = 32 * 1024;
/// A text of this many bytes has a body of at most [`WHOLE_BYTES`]. A number can be written with more characters than it was read from.
const SHORT_TEXT: usize = WHOLE_BYTES / 4;
/// The length in bytes that each text of a larger body is truncated to.
const HEAD_BYTES: usize = 4 * 1024;

/// Fits the body of an event, which was read from `text_bytes` bytes, to its entry. The blob is written first, so that an entry never
/// names a missing blob.
pub(super) async fn fit(
    app: &App,
    session: AgentSessionId,
    body: Value,
    text_bytes: usize,
) -> Result<Value, BlobError> {
    if text_bytes <= SHORT_TEXT {
        return Ok(body);
    }
    let text = body.to_string();
    if text.len() <= WHOLE_BYTES {
        return Ok(body);
    }
    let key = BlobKey::of(&format!("sessions/{session}"), text.as_bytes())?;
    app.blobs.put(&key, Bytes::from(text)).await?;
    let mut cut = body;
    cut_texts(&mut cut);
    if cut.to_string().len() > 4 * WHOLE_BYTES {
        // The body is large because it has many parts. Keep only its type.
        cut = json!({ "type": cut.get("type").cloned().unwrap_or_default() });
    }
    if !cut.is_object() {
        cut = json!({ "value": cut });
    }
    if let Some(object) = cut.as_object_mut() {
        object.insert("truncated".to_owned(), true.into());
        object.insert("blob".to_owned(), key.as_str().into());
    }
    Ok(cut)
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > HEAD_BYTES => {
            let mut end = HEAD_BYTES;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push('…');
        }
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(fields) => fields.values_mut().for_each(cut_texts),
        _ => {}
    }
}
