//! What of a raw event stands in its journal entry. Small events stand whole. Of large ones the long texts are cut;
//! what was cut stands in a blob (ruling 6), and the entry says where.

use bytes::Bytes;
use pilothouse_domain::AgentSessionId;
use pilothouse_store::blob::{BlobError, BlobKey};
use serde_json::{Value, json};

use crate::app::App;

/// An event up to this many bytes stands whole in its entry: reads stay cheap, and an item far below its limit.
const WHOLE_BYTES: usize = 32 * 1024;
/// Of a larger one, each text keeps this many bytes.
const HEAD_BYTES: usize = 4 * 1024;

/// Makes an event's body fit its entry. The blob is written first, so that no entry ever names one that is missing.
pub(super) async fn fit(app: &App, session: AgentSessionId, body: Value) -> Result<Value, BlobError> {
    let text = body.to_string();
    if text.len() <= WHOLE_BYTES {
        return Ok(body);
    }
    let key = BlobKey::of(&format!("sessions/{session}"), text.as_bytes())?;
    app.blobs.put(&key, Bytes::from(text)).await?;
    let mut cut = body;
    cut_texts(&mut cut);
    if cut.to_string().len() > 4 * WHOLE_BYTES {
        // Large by its sheer number of parts: only what it is stands in the entry.
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
